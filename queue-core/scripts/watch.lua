-- watch.lua - where the users of open streams stand; an open stream is a heartbeat. ARGV 7…: users, at most
-- 500 per call. A parked user with an open stream is here: back at its place.
-- Returns {…, closedReason, then status, position and expiry per user}; status: queued active gone.
local list = reply(closed or '')
local function add(status, position, expiry)
    list[#list + 1] = status
    list[#list + 1] = position
    list[#list + 1] = int(expiry)
end
-- Parked ones first, so that the positions told are those after everybody has come back.
for i = 7, #ARGV do
    local score = call('ZSCORE', PARKED, ARGV[i])
    if score then
        unpark(ARGV[i], score)
    end
end
for i = 7, #ARGV do
    local user = ARGV[i]
    local rank = call('ZRANK', QUEUE, user)
    local expiry = not rank and tonumber(call('ZSCORE', ACTIVE, user))
    if rank then
        call('ZADD', SEEN, int(now), user)
        add('queued', rank + 1, 0)
    elseif expiry and expiry > now then
        call('ZADD', ACTIVE_SEEN, int(now), user)
        call('ZREM', UNCLAIMED, user)
        add('active', 0, expiry)
    else
        add('gone', 0, 0)
    end
end
list[3] = call('ZCARD', QUEUE)
return list
