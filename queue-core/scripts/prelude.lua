-- prelude.lua - put before every script but poll.lua: keys, clock, epoch, log, and the steps they share.
--
-- All keys of an event carry its hash tag, and every script declares all of them, so that it runs in one
-- cluster slot whatever it touches. Time is Redis's own; order is {E}:seq; a place is one number:
--     score = epoch * 2^33 + number      (exact in a double; written with %.0f)
--
-- ARGV, first part, the same for every script:
--   1 run_id of the server as the connection read it     2 clock offset in ms (0 outside test builds)
--   3 the daemon's defaults, in the order of DEFAULT_NAMES (blank between; times in ms)
--   4 what the instance remembers: epoch seq threshold serving roomActive (blank between; 0: nothing)
--   5 epoch and 6 number of a verified place or requestId that the caller shows (0 0: none)
-- The script's own arguments start at 7.
--
-- Every reply begins with epoch, seq, queueSize, active, threshold (see `reply`).
local SEQ, QUEUE, ACTIVE, SEEN, ACTIVE_SEEN, PARKED, OWNER, THRESHOLD = KEYS[1], KEYS[2], KEYS[3],
    KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local SETTINGS, STATE, VWR, LOG, ACTIVE_PLACE, UNCLAIMED, AWAY, HOLDS, ENDED = KEYS[9], KEYS[10],
    KEYS[11], KEYS[12], KEYS[13], KEYS[14], KEYS[15], KEYS[16], KEYS[17]
local call = redis.call
local TWO33 = 8589934592
-- Numbers from here on are no numbers of the line: they order slots restored by a token alone.
local LINE_END = TWO33 - 1048576
local EPOCH_START = 1767225600 -- 2026-01-01T00:00:00Z
local EPOCH_STEP = 300
local SNAPSHOT_PART = 200
local TRIM_EVERY = 32

local clock = call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000) + ARGV[2]

local function words(text)
    local list = {}
    for word in string.gmatch(text, '%S+') do
        list[#list + 1] = tonumber(word)
    end
    return list
end

local function int(value)
    return string.format('%.0f', value)
end

local DEFAULT_NAMES = {'threshold', 'activeTtl', 'idle', 'claimTtl', 'seenTtl', 'batch', 'interval',
    'restore', 'maxLength', 'maxWait', 'clean', 'vwrBatch', 'vwrInterval', 'logEvery'}
local defaults = nil
local settings = nil

-- A setting of the event, else the daemon's default. Read once per script, only when asked for.
local function setting(name)
    if not settings then
        settings = {}
        local flat = call('HGETALL', SETTINGS)
        for i = 1, #flat, 2 do
            settings[flat[i]] = flat[i + 1]
        end
        defaults = {}
        for i, value in ipairs(words(ARGV[3])) do
            defaults[DEFAULT_NAMES[i]] = value
        end
    end
    return tonumber(settings[name]) or defaults[name]
end

local function setting_text(name)
    setting('threshold')
    return settings[name]
end

local function threshold()
    return tonumber(call('GET', THRESHOLD)) or setting('threshold')
end

-- {E}:pos-owner: place -> state letter (q waits, p parked, a inside, f final) and user. The epoch is part
-- of the field: two instances may give out the same number before and after a loss.
local function owner_set(score, letter, user)
    if tonumber(score) > 0 then
        call('HSET', OWNER, int(score), letter .. user)
    end
end

local state = call('HMGET', STATE, 'runId', 'epoch', 'restoreUntil', 'closed')
local epoch = tonumber(state[2]) or 0
local restore_until = tonumber(state[3]) or 0
local closed = state[4] ~= '' and state[4] -- the reason, or false
local seq = tonumber(call('GET', SEQ)) or 0
local memory = words(ARGV[4])
local shown_epoch, shown_number = tonumber(ARGV[5]), tonumber(ARGV[6])

local function reply(...)
    return {int(epoch), int(seq), call('ZCARD', QUEUE), call('ZCARD', ACTIVE), int(threshold()), ...}
end

-- The log ------------------------------------------------------------------------------------------
-- Every change of who waits, in which order, and who is inside is one entry, written in the script that
-- makes the change, and says all about that user: where it is now. So a snapshot need not be taken at one
-- moment: its parts are written one per entry while changes go on, and whoever starts at its first
-- entry with empty hands knows everything at its last.

local SNAPSHOT_NEXT = {active = 'queue', queue = 'parked'}

local function snapshot_begin()
    local id = call('XADD', LOG, '*', 'k', 'snapshot', 's', int(epoch * TWO33), 'at', int(now))
    call('HSET', STATE, 'snapshotId', id, 'snapshotStage', 'active', 'snapshotCursor', 0, 'logged', 0)
end

local function snapshot_end(id)
    call('XADD', LOG, '*', 'k', 'snapshot-end', 'of', id, 'at', int(now))
    local previous = call('HGET', STATE, 'snapshot')
    call('HSET', STATE, 'snapshot', id)
    call('HDEL', STATE, 'snapshotId', 'snapshotStage', 'snapshotCursor')
    if previous then
        call('HSET', STATE, 'logFrom', previous)
    end
end

local function snapshot_step(id, stage, cursor)
    local flat, done
    if stage == 'active' then
        local scan = call('HSCAN', ACTIVE_PLACE, cursor, 'COUNT', SNAPSHOT_PART)
        cursor, flat = scan[1], scan[2]
        done = cursor == '0'
    else
        flat = call('ZRANGEBYSCORE', stage == 'queue' and QUEUE or PARKED, '(' .. cursor, '+inf',
            'WITHSCORES', 'LIMIT', 0, SNAPSHOT_PART)
        cursor = flat[#flat]
        done = #flat < 2 * SNAPSHOT_PART
    end
    if #flat > 0 then
        call('XADD', LOG, '*', 'k', 'part', 'of', stage, 'members', table.concat(flat, ' '))
    end
    if not done then
        call('HSET', STATE, 'snapshotStage', stage, 'snapshotCursor', cursor)
    elseif SNAPSHOT_NEXT[stage] then
        call('HSET', STATE, 'snapshotStage', SNAPSHOT_NEXT[stage], 'snapshotCursor', 0)
    else
        snapshot_end(id)
    end
end

-- k kind, u user (or who gave the order), s place, r reason, a inside after it, th the threshold in force.
local function log(kind, user, score, reason, limit)
    call('XADD', LOG, '*', 'k', kind, 'u', user, 's', score and int(score) or '', 'r', reason or '',
        'a', call('ZCARD', ACTIVE), 'th', limit or threshold(), 'at', int(now))
    local logged = call('HINCRBY', STATE, 'logged', 1)
    local at = call('HMGET', STATE, 'snapshotId', 'snapshotStage', 'snapshotCursor', 'logFrom')
    if at[1] then
        snapshot_step(at[1], at[2], at[3])
    elseif logged >= setting('logEvery') and logged >= call('ZCARD', QUEUE) + call('ZCARD', PARKED) then
        snapshot_begin() -- as many entries between two of them as it has members: the cost stays small
    end
    if at[4] and logged % TRIM_EVERY == 0 then
        call('XTRIM', LOG, 'MINID', '~', at[4], 'LIMIT', 1000)
    end
end

-- The epoch ----------------------------------------------------------------------------------------
-- It goes up when Redis has lost its memory or may have lost its tail. Then nobody is admitted for a
-- while, and those who hold signed places come back to them.

local function raise_epoch(seen)
    local lost = epoch > 0 or seen > 0
    local step = math.max(1, math.floor((now / 1000 - EPOCH_START) / EPOCH_STEP))
    epoch = lost and math.max(step, epoch + 1, seen + 1) or step
    restore_until = lost and now + setting('restore') or 0
    -- What poll.lua reads comes first and is always there: a small hash is searched from its front.
    call('HSET', STATE, 'runId', ARGV[1], 'epoch', int(epoch), 'restoreUntil', int(restore_until),
        'closed', closed or '')
    if lost then -- nobody could be heard, so nobody is sent away for a full period
        call('HSET', STATE, 'noEvictUntil', int(now + setting('seenTtl')), 'graceUntil',
            int(now + math.max(setting('idle'), setting('claimTtl'))))
    end
    snapshot_begin()
    log('epoch', '', epoch * TWO33, lost and 'lost' or 'new')
end

-- What an instance remembers or a caller proves about the line. Something of this epoch that Redis does not
-- know, or of any other epoch where none is known to have been lost, shows a loss.
local function heed(seen_epoch, number)
    if seen_epoch <= 0 then
        return
    end
    if number >= LINE_END then
        number = 0
    end
    if seen_epoch > epoch or (seen_epoch == epoch and number > seq)
        or (seen_epoch < epoch and restore_until == 0) then
        raise_epoch(seen_epoch)
    end
    if number > seq then -- numbers never restart
        seq = number
        call('SET', SEQ, int(seq))
    end
end

local function serving_of(stored)
    return math.max(tonumber(stored) or 0, memory[4]) -- the counter never goes back
end

local function restore_settings()
    if memory[3] > 0 then
        call('SET', THRESHOLD, int(memory[3]), 'NX')
    end
    if memory[5] > 0 and call('EXISTS', VWR) == 0 then
        call('HSET', VWR, 'active', 1, 'serving', int(memory[4]), 'lastMs', int(now))
    end
end

if state[1] ~= ARGV[1] then
    raise_epoch(math.max(memory[1], shown_epoch))
end
heed(memory[1], memory[2])
heed(shown_epoch, shown_number)
if memory[1] > 0 and memory[1] < epoch then
    restore_settings()
end

local function restoring()
    return now < restore_until
end

-- Whether anybody may be let in now, room or not.
local function admitting()
    return not closed and not restoring() and setting('paused') ~= 1
        and (setting('opensAt') or 0) <= now
end

-- Steps --------------------------------------------------------------------------------------------

local function next_number()
    seq = call('INCR', SEQ)
    return seq
end

-- Admissions of the last minute, one field per second of it.
local function count_admissions(count)
    local second = math.floor(now / 1000)
    local field = 'rate' .. second % 60
    local stored = call('HGET', STATE, field)
    local at, sum = 0, 0
    if stored then
        at, sum = string.match(stored, '(%d+) (%d+)')
    end
    if tonumber(at) ~= second then
        sum = 0
    end
    call('HSET', STATE, field, int(second) .. ' ' .. int(sum + count))
end

local function admissions_last_minute()
    local fields = {}
    for i = 0, 59 do
        fields[#fields + 1] = 'rate' .. i
    end
    local sum = 0
    for _, value in ipairs(call('HMGET', STATE, unpack(fields))) do
        if value then
            local at, count = string.match(value, '(%d+) (%d+)')
            if now / 1000 - at < 60 then
                sum = sum + count
            end
        end
    end
    return sum
end

local function enqueue(user, score, kind, reason)
    call('ZADD', QUEUE, int(score), user)
    call('ZADD', SEEN, int(now), user)
    owner_set(score, 'q', user)
    log(kind, user, score, reason)
end

-- A slot for the user until `expiry`. claim_by: when it must be claimed, nil where the user is here now.
local function let_in(user, score, expiry, claim_by, reason, limit)
    call('ZREM', QUEUE, user)
    call('ZREM', SEEN, user)
    call('ZADD', ACTIVE, int(expiry), user)
    call('ZADD', ACTIVE_SEEN, int(now), user)
    call('HSET', ACTIVE_PLACE, user, int(score))
    if claim_by then
        call('ZADD', UNCLAIMED, int(claim_by), user)
    end
    owner_set(score, 'a', user)
    log('admit', user, score, reason, limit)
end

-- Takes the slot away; returns its place. Its token must not bring it back. The caller logs.
local function remove_slot(user)
    local score = tonumber(call('HGET', ACTIVE_PLACE, user)) or 0
    local expiry = tonumber(call('ZSCORE', ACTIVE, user)) or 0
    call('ZREM', ACTIVE, user)
    call('ZREM', ACTIVE_SEEN, user)
    call('ZREM', UNCLAIMED, user)
    call('HDEL', ACTIVE_PLACE, user)
    if expiry > now then
        call('ZADD', ENDED, 'GT', int(expiry), user)
    end
    return score
end

local function end_slot(user, kind, reason)
    local score = remove_slot(user)
    owner_set(score, 'f', user)
    log(kind, user, score, reason)
end

-- Gives a place in QUEUE or PARKED up for good.
local function end_place(key, user, score, kind, reason)
    call('ZREM', key, user)
    call('ZREM', key == QUEUE and SEEN or AWAY, user)
    owner_set(score, 'f', user)
    log(kind, user, tonumber(score), reason)
end

local function park(user, score, reason)
    call('ZREM', QUEUE, user)
    call('ZREM', SEEN, user)
    call('ZADD', PARKED, int(score), user)
    call('ZADD', AWAY, int(now), user)
    owner_set(score, 'p', user)
    log('park', user, score, reason)
end

local function unpark(user, score)
    call('ZREM', PARKED, user)
    call('ZREM', AWAY, user)
    enqueue(user, tonumber(score), 'return', 'parked')
end
