-- assign.lua - Tier 1: the next number for an anonymous visitor. No arguments of its own.
-- Returns {…, roomActive, serving, number}; number 0 while the room is not active.
local room = call('HMGET', VWR, 'active', 'serving')
if room[1] ~= '1' then
    return reply(0, int(serving_of(room[2])), 0)
end
local number = next_number()
return reply(1, int(serving_of(room[2])), int(number))
