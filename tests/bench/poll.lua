-- One poll of a waiting buyer: place in the queue, heartbeat, length.
-- KEYS[1] queue, KEYS[2] heartbeats; ARGV[1] member, ARGV[2] time of the heartbeat
local score = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not score then
    return {-1, 0}
end
local rank = redis.call('ZRANK', KEYS[1], ARGV[1])
redis.call('ZADD', KEYS[2], ARGV[2], ARGV[1])
return {rank, redis.call('ZCARD', KEYS[1])}
