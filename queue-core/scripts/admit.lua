-- admit.lua - one admission pass: ends slots that are over, then fills the free ones from the head.
--
-- Any instance may call it at any time; the pace is kept here. At most about STEPS members change per call:
-- `more` = 1 asks for another call at once.
-- Returns {…, paced, ended, parked, more, users…}: the users that were let in, each followed by its slot's
-- end.
local STEPS = 500
local ended, parked = 0, 0
local users = {}

local function answer(paced, more)
    local list = reply(paced, ended, parked, more)
    for _, value in ipairs(users) do
        list[#list + 1] = value
    end
    return list
end

local pass = call('HMGET', STATE, 'lastAdmitMs', 'graceUntil', 'passLeft')
local last, grace_until = tonumber(pass[1]) or 0, tonumber(pass[2]) or 0
local interval = setting('interval')
local claim_ttl, idle = setting('claimTtl'), setting('idle')

-- After missed passes (or none yet) nobody could have been heard: for a full period nobody is sent away for
-- having been silent. Only a slot's own end goes on.
if now - last > math.max(4 * interval, 4000) then
    grace_until = math.max(grace_until, now + math.max(idle, claim_ttl))
    call('HSET', STATE, 'graceUntil', int(grace_until))
end

-- Slots that are over free room whatever the pace.
for _, user in ipairs(call('ZRANGEBYSCORE', ACTIVE, '-inf', int(now), 'LIMIT', 0, STEPS)) do
    end_slot(user, 'expire', 'ttl')
    ended = ended + 1
end
if now >= grace_until then
    local late = call('ZRANGEBYSCORE', UNCLAIMED, '-inf', int(now), 'LIMIT', 0, STEPS - ended)
    for _, user in ipairs(late) do
        park(user, remove_slot(user), 'unclaimed')
        ended = ended + 1
    end
    local silent = idle > 0 and call('ZRANGEBYSCORE', ACTIVE_SEEN, '-inf', int(now - idle), 'LIMIT', 0,
        STEPS - ended) or {}
    for _, user in ipairs(silent) do
        local hold = tonumber(call('ZSCORE', HOLDS, user))
        if hold and hold > now then
            call('ZADD', ACTIVE_SEEN, int(now), user) -- a live hold is never idle
        else
            end_slot(user, 'expire', 'idle')
            ended = ended + 1
        end
    end
end
local steps = ended

if now - last < interval then
    return answer(1, steps >= STEPS and 1 or 0)
end
call('HSET', STATE, 'lastAdmitMs', int(now))
call('HDEL', STATE, 'passLeft')
if not admitting() then
    return answer(0, steps >= STEPS and 1 or 0)
end

local limit = threshold()
local wanted = math.min(limit - call('ZCARD', ACTIVE), tonumber(pass[3]) or setting('batch'))
local active_ttl = setting('activeTtl')
local admitted = 0
while wanted > 0 and steps < STEPS do
    local head = call('ZRANGE', QUEUE, 0, 0, 'WITHSCORES')
    local user = head[1]
    if not user then
        break
    end
    local seen = tonumber(call('ZSCORE', SEEN, user)) or 0
    if seen < now - claim_ttl and now >= grace_until then
        park(user, tonumber(head[2]), 'silent')
        parked = parked + 1
    else
        local expiry = now + active_ttl
        let_in(user, tonumber(head[2]), expiry, now + claim_ttl, 'turn', limit)
        users[#users + 1] = user
        users[#users + 1] = int(expiry)
        admitted = admitted + 1
        wanted = wanted - 1
    end
    steps = steps + 1
end
if admitted > 0 then
    count_admissions(admitted)
end
-- The steps were used up with room left over: the rest of this batch need not wait for the interval.
if wanted > 0 and steps >= STEPS then
    call('HSET', STATE, 'lastAdmitMs', int(math.min(last + interval, now - interval)), 'passLeft', wanted)
    return answer(0, 1)
end
return answer(0, 0)
