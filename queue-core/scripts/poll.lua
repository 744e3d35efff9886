-- poll.lua - the hot path: a user who waits or is inside asks again. Stands alone (no prelude): nine in
-- ten calls of an on-sale are this one.
--
-- KEYS: 1 state, 2 active, 3 queue, 4 seen, 5 active-seen, 6 unclaimed. ARGV: 1 run_id, 2 clock offset,
-- 3 epoch the instance remembers, 4 user, 5 = 1 when the caller shows an entry token.
-- Answers as visit.lua would, with seq 0 and threshold -1 (not read here), or {'visit'} when there is
-- anything to decide (a new epoch, a slot's end or return, a user without a place): then visit.lua does.
local call = redis.call
local state = call('HMGET', KEYS[1], 'runId', 'epoch', 'closed', 'restoreUntil')
if state[1] ~= ARGV[1] or tonumber(ARGV[3]) > tonumber(state[2]) then
    return {'visit'}
end
local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000) + ARGV[2]
local user = ARGV[4]
local score = call('ZSCORE', KEYS[3], user)
if score then
    if ARGV[5] == '1' and now < tonumber(state[4]) then
        return {'visit'} -- a token may restore its slot
    end
    call('ZADD', KEYS[4], now, user)
    if state[3] ~= '' then
        return {state[2], 0, call('ZCARD', KEYS[3]), call('ZCARD', KEYS[2]), -1, 'closed', 0, 0, score,
            state[3]}
    end
    return {state[2], 0, call('ZCARD', KEYS[3]), call('ZCARD', KEYS[2]), -1, 'queued',
        call('ZRANK', KEYS[3], user) + 1, 0, score, ''}
end
local expiry = call('ZSCORE', KEYS[2], user)
if not expiry or tonumber(expiry) <= now then
    return {'visit'}
end
call('ZADD', KEYS[5], now, user)
call('ZREM', KEYS[6], user)
return {state[2], 0, call('ZCARD', KEYS[3]), call('ZCARD', KEYS[2]), -1, 'active', 0, expiry, 0, ''}
