-- visit.lua - a user calls: check (join = 1), status, heartbeat or an opened stream (join = 0).
--
-- Whoever has a place keeps it, whoever was parked or lost gets it back, and with join = 1 a newcomer gets
-- one: inside at once where nobody waits ahead and there is room, else at the end of the line.
--
-- ARGV: 7 user, 8 join, 9 epoch and 10 number of a verified Tier 1 token (0 0: none), 11 exp in ms of a
-- verified entry token (0: none). The prelude's 5 and 6 are the verified place.
-- Returns {…, status, position, expiry, score, detail};
-- status: queued active not_in_queue closed need_tier1 full too_long.
local user, join = ARGV[7], ARGV[8] == '1'
local tier1_epoch, tier1_number, token_expiry = tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11])
local RATE_UNTIL_MEASURED = 50
heed(tier1_epoch, tier1_number)

local function answer(status, position, expiry, score, detail)
    return reply(status, position, int(expiry or 0), int(score or 0), detail or '')
end

local function queued(score)
    if closed then
        return answer('closed', 0, 0, score, closed)
    end
    return answer('queued', call('ZRANK', QUEUE, user) + 1, 0, score)
end

local function inside(expiry)
    call('ZADD', ACTIVE_SEEN, int(now), user)
    call('ZREM', UNCLAIMED, user)
    return answer('active', 0, expiry, call('HGET', ACTIVE_PLACE, user) or 0)
end

local expiry = tonumber(call('ZSCORE', ACTIVE, user))
if expiry then
    if expiry > now then
        return inside(expiry)
    end
    end_slot(user, 'expire', 'ttl')
end

-- An entry token whose slot Redis lost: the slot's own end is not on record.
local function slot_was_lost()
    if token_expiry <= now or not restoring() then
        return false
    end
    local ended = tonumber(call('ZSCORE', ENDED, user))
    return not ended or ended < token_expiry
end

-- The slot comes back with the token's own end while there is room; else its owner waits at `place`.
local function restore_slot(place)
    if call('ZCARD', ACTIVE) < threshold() then
        let_in(user, place, token_expiry, nil, 'restored')
        return inside(token_expiry)
    end
    if not call('ZSCORE', QUEUE, user) then
        enqueue(user, place, 'return', 'restored')
    end
    return queued(place)
end

local score = tonumber(call('ZSCORE', PARKED, user))
if score then
    unpark(user, score)
else
    score = tonumber(call('ZSCORE', QUEUE, user))
end
if score then
    call('ZADD', SEEN, int(now), user)
    if slot_was_lost() then -- an old copy of Redis still has its owner waiting
        return restore_slot(score)
    end
    return queued(score)
end

-- What Redis lost. A place is free while nobody owns it; its owner's own final end keeps it closed. A place
-- that was signed for this user and belongs to another was given out twice: by a Redis that had forgotten
-- it, through an instance that could not know. Its first owner then comes, once, right after the restored.
local place = shown_number > 0 and shown_epoch * TWO33 + shown_number or nil
local owner = place and call('HGET', OWNER, int(place))
local place_free = place and (not owner or (owner ~= 'f' .. user and string.sub(owner, 2) == user))

local function after_the_restored()
    return (epoch - 1) * TWO33 + LINE_END + call('HINCRBY', STATE, 'restored', 1)
end

if owner and string.sub(owner, 2) ~= user and call('HSETNX', OWNER, int(place) .. ':' .. user, 'f') == 1 then
    if restore_until == 0 then
        raise_epoch(epoch)
    end
    place, place_free = after_the_restored(), true
end
if slot_was_lost() and (place_free or not place) then
    return restore_slot(place or after_the_restored())
end
if place_free then
    enqueue(user, place, 'return', 'restored')
    return queued(place)
end
if not join then
    return answer('not_in_queue', 0)
end

-- A newcomer.
if closed then
    return answer('closed', 0, 0, 0, closed)
end
local brought = nil
if tier1_number > 0 then
    brought = (tier1_epoch > 0 and tier1_epoch or epoch) * TWO33 + tier1_number
    if call('HEXISTS', OWNER, int(brought)) == 1 then
        brought = nil -- a number belongs to the first who brings it
    end
end
if not brought and call('HGET', VWR, 'active') == '1' then
    return answer('need_tier1', 0)
end
local head = call('ZRANGE', QUEUE, 0, 0, 'WITHSCORES')
local limit = threshold()
local first = not head[1] or (brought and brought < tonumber(head[2]))
if first and call('ZCARD', ACTIVE) < limit and admitting() then
    score = brought or epoch * TWO33 + next_number()
    expiry = now + setting('activeTtl')
    log('join', user, score, brought and 'tier1' or '', limit)
    let_in(user, score, expiry, nil, 'direct', limit)
    count_admissions(1)
    return inside(expiry)
end
local length = call('ZCARD', QUEUE)
if length >= setting('maxLength') then
    return answer('full', 0)
end
if setting('maxWait') > 0 and length > 0 then
    local rate = admissions_last_minute() / 60
    if length / (rate > 0 and rate or RATE_UNTIL_MEASURED) * 1000 > setting('maxWait') then
        return answer('too_long', 0)
    end
end
score = brought or epoch * TWO33 + next_number()
enqueue(user, score, 'join', brought and 'tier1' or '')
return queued(score)
