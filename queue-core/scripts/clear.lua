-- clear.lua - an operator empties the event: everybody waiting, parked and inside, for good. At most STEPS
-- members per call; `more` = 1 asks for another call. ARGV: 7 who gave the order.
-- Returns {…, cleared, more}.
local STEPS = 500
local cleared = 0
for _, user in ipairs(call('ZRANGE', ACTIVE, 0, STEPS - 1)) do
    end_slot(user, 'clear', ARGV[7])
    cleared = cleared + 1
end
for _, key in ipairs({QUEUE, PARKED}) do
    local flat = {}
    if cleared < STEPS then -- ZRANGE 0 -1 would be everybody
        flat = call('ZRANGE', key, 0, STEPS - cleared - 1, 'WITHSCORES')
    end
    for i = 1, #flat, 2 do
        end_place(key, flat[i], flat[i + 1], 'clear', ARGV[7])
        cleared = cleared + 1
    end
end
local left = call('ZCARD', QUEUE) + call('ZCARD', ACTIVE) + call('ZCARD', PARKED)
return reply(cleared, left > 0 and 1 or 0)
