-- room.lua - Tier 1: an operator opens or closes the room, or moves it on by hand.
-- ARGV: 7 activate | deactivate | advance, 8 actor, 9 how many (advance).
-- Activating an inactive room starts serving at {E}:seq: people already waiting stay ahead, the counter is
-- never reset. Returns {…, roomActive, serving, moved, closedReason}.
local action = ARGV[7]
local room = call('HMGET', VWR, 'active', 'serving')
local active, serving = room[1] == '1', serving_of(room[2])
local moved = 0
if action == 'activate' and not active then
    active = true
    serving = math.max(serving, seq)
    call('HSET', VWR, 'active', 1, 'serving', int(serving), 'lastMs', int(now), 'carry', 0)
    log('room', ARGV[8], nil, 'activate')
elseif action == 'deactivate' and active then
    active = false
    call('HSET', VWR, 'active', 0)
    log('room', ARGV[8], nil, 'deactivate')
elseif action == 'advance' then
    moved = math.max(0, math.min(tonumber(ARGV[9]), seq - serving))
    serving = serving + moved
    call('HSET', VWR, 'serving', int(serving))
    log('room', ARGV[8], nil, 'advance ' .. int(moved))
end
return reply(active and 1 or 0, int(serving), int(moved), closed or '')
