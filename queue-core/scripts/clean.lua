-- clean.lua - one step of the clean-up: waiting members not heard for seenTtl leave the counts (parked:
-- their place is theirs for 24 h), and what nobody can claim any more is forgotten.
--
-- ARGV: 7 = 1 for the first step of a pass. After an outage (a pass missed by more than three intervals, a
-- new epoch) nobody is moved for a full period: they could not have been heard.
-- Returns {…, moved, forgotten, more}.
local STEPS = 500
local DAY = 86400000
local moved, forgotten, trimmed = 0, 0, 0

local times = call('HMGET', STATE, 'lastCleanMs', 'noEvictUntil', 'emptySince')
local last, no_evict_until = tonumber(times[1]) or 0, tonumber(times[2]) or 0
local interval = setting('clean')
if ARGV[7] == '1' then
    if now - last < interval then
        return reply(0, 0, 0) -- another instance has just done it
    end
    if now - last > 4 * interval then
        no_evict_until = math.max(no_evict_until, now + setting('seenTtl'))
        call('HSET', STATE, 'noEvictUntil', int(no_evict_until))
    end
    call('HSET', STATE, 'lastCleanMs', int(now))
end

local function forget(key)
    local over = call('ZRANGEBYSCORE', key, '-inf', int(now), 'LIMIT', 0, STEPS)
    if #over > 0 then
        call('ZREM', key, unpack(over))
    end
    trimmed = math.max(trimmed, #over)
end

if now >= no_evict_until then
    local silent = call('ZRANGEBYSCORE', SEEN, '-inf', int(now - setting('seenTtl')), 'LIMIT', 0, STEPS)
    for _, user in ipairs(silent) do
        local score = call('ZSCORE', QUEUE, user)
        if score then
            park(user, tonumber(score), 'stale')
        else
            call('ZREM', SEEN, user) -- one stray member must not stop the clean-up for all
        end
        moved = moved + 1
    end
end
for _, user in ipairs(call('ZRANGEBYSCORE', AWAY, '-inf', int(now - DAY), 'LIMIT', 0, STEPS)) do
    end_place(PARKED, user, call('ZSCORE', PARKED, user) or 0, 'expire', 'away')
    forgotten = forgotten + 1
end
forget(ENDED)
forget(HOLDS)

-- Who owned which number is kept until 24 h after the event has emptied.
local empty = call('ZCARD', QUEUE) == 0 and call('ZCARD', ACTIVE) == 0 and call('ZCARD', PARKED) == 0
if not empty then
    call('HDEL', STATE, 'emptySince')
elseif not times[3] then
    call('HSET', STATE, 'emptySince', int(now))
elseif now - tonumber(times[3]) > DAY then
    call('UNLINK', OWNER)
end
local more = moved >= STEPS or forgotten >= STEPS or trimmed >= STEPS
return reply(moved, forgotten, more and 1 or 0)
