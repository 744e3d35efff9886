-- assign.lua - Tier 1: the next number for an anonymous visitor. No arguments of its own.
-- Returns {…, roomActive, serving, number, closedReason}; number 0 while the room is not active or the
-- event is closed.
local room = call('HMGET', VWR, 'active', 'serving')
if room[1] ~= '1' or closed then
    return reply(room[1] == '1' and 1 or 0, int(serving_of(room[2])), 0, closed or '')
end
local number = next_number()
return reply(1, int(serving_of(room[2])), int(number), '')
