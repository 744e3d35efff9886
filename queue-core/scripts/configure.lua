-- configure.lua - an operator (or the ticket service) changes an event: ARGV 7 actor, then name, value
-- pairs. Names: threshold, or a field of {E}:settings (paused, closed, closedReason, opensAt, title, artist,
-- registered, or a name of the prelude's defaults). An empty value takes the setting back to the default.
-- Lowering the threshold sends nobody away. The caller has checked names and values.
-- Returns {…}.
for i = 8, #ARGV, 2 do
    local name, value = ARGV[i], ARGV[i + 1]
    if name == 'threshold' then
        if value == '' then
            call('DEL', THRESHOLD)
        else
            call('SET', THRESHOLD, value)
        end
    elseif value == '' then
        call('HDEL', SETTINGS, name)
    else
        call('HSET', SETTINGS, name, value)
    end
    settings = nil
    log('set', ARGV[7], nil, name .. '=' .. value)
end
-- Where poll.lua looks.
if setting('closed') == 1 then
    call('HSET', STATE, 'closed', setting_text('closedReason') or 'closed')
else
    call('HSET', STATE, 'closed', '')
end
return reply()
