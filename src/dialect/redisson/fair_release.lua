-- KEYS lock, {lock}, channel, queue, timeouts; ARGV PUBLISH|SPUBLISH, owner, mode (W), what (release|cancel), bury ms, owners to bury…
-- REPLY done|gone, us, owner, '0', 1 (cancel: it had been granted) or 0, '', '1' or 'nil'
local name, base, channel, queue, timeouts = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local owner, cancel = ARGV[2], ARGV[4] == 'cancel'
-- First a command that works when memory is full; after it all others do.
local removed = redis.call('HDEL', name, owner)
-- @include shared/answer.lua
-- @include shared/fair.lua
-- @include shared/bury.lua
leave_queue(owner)
bury(6, function(who)
	call('HDEL', name, who)
	leave_queue(who)
end)
call_first(channel)
if removed == 1 then
	return answer('done', cancel and 1 or 0, '', '1')
end
return answer(cancel and 'done' or 'gone', 0, '', 'nil')
