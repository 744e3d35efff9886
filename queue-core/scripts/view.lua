-- view.lua - what an instance wants to know about an event, for its pages, its memory and its metrics.
-- Returns {…, roomActive, serving, parked, paused, closedReason, opensAt, title, artist, registered,
-- admitted in the last minute, restoring}; closedReason is empty while the event is open.
local room = call('HMGET', VWR, 'active', 'serving')
return reply(room[1] == '1' and 1 or 0, int(serving_of(room[2])), call('ZCARD', PARKED),
    setting('paused') == 1 and 1 or 0, closed or '', int(setting('opensAt') or 0),
    setting_text('title') or '', setting_text('artist') or '', setting('registered') == 1 and 1 or 0,
    int(admissions_last_minute()), restoring() and 1 or 0)
