-- leave.lua - gives up a place or a slot, for good. ARGV: 7 user, 8 reason ('left', or 'sold' when the
-- seat service ends the slot of a buyer), 9 exp in ms of a verified entry token (0: none).
-- Returns {…, status before}; status: queued parked active not_in_queue.
local user, reason, token_expiry = ARGV[7], ARGV[8], tonumber(ARGV[9])

if call('ZSCORE', ACTIVE, user) then
    end_slot(user, 'leave', reason)
    return reply('active')
end
local score = call('ZSCORE', QUEUE, user)
if score then
    end_place(QUEUE, user, score, 'leave', reason)
    return reply('queued')
end
score = call('ZSCORE', PARKED, user)
if score then
    end_place(PARKED, user, score, 'leave', reason)
    return reply('parked')
end
-- What Redis has lost is given up too: neither the place nor the slot must come back.
if shown_number > 0 then
    local place = int(shown_epoch * TWO33 + shown_number)
    if call('HSETNX', OWNER, place, 'f' .. user) == 0 and call('HGET', OWNER, place) ~= 'f' .. user then
        call('HSET', OWNER, place .. ':' .. user, 'f') -- see visit.lua on places given out twice
    end
end
if token_expiry > now then
    call('ZADD', ENDED, 'GT', int(token_expiry), user)
end
return reply('not_in_queue')
