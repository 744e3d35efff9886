-- serve.lua - Tier 1: moves the serving number on smoothly, vwrBatch per vwrInterval, never past the last
-- number given out. Any instance may call it as often as it likes: what is due since the last call is
-- counted here. A paused, closed or not yet opened event stands still.
-- Returns {…, roomActive, serving, moved, closedReason}; empty while the event is open.
local room = call('HMGET', VWR, 'active', 'serving', 'lastMs', 'carry')
local serving = serving_of(room[2])
if room[1] ~= '1' then
    return reply(0, int(serving), 0, closed or '')
end
local batch, interval = setting('vwrBatch'), setting('vwrInterval')
-- A long pause (an outage) does not let a crowd through at once: at most one interval is made up for.
local elapsed = math.min(math.max(now - (tonumber(room[3]) or now), 0), interval)
local due = (tonumber(room[4]) or 0) + elapsed * batch / interval
local moved = math.min(math.floor(due), math.max(seq - serving, 0))
local carry = math.min(due - moved, 1)
if closed or setting('paused') == 1 or (setting('opensAt') or 0) > now then
    moved, carry = 0, 0
end
serving = serving + moved
call('HSET', VWR, 'serving', int(serving), 'lastMs', int(now), 'carry', string.format('%.6f', carry))
return reply(1, int(serving), int(moved), closed or '')
