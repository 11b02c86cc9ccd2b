-- KEYS lock, {lock}, channel, queue, timeouts; ARGV PUBLISH|SPUBLISH, owner to remove, as holder or from the queue
-- REPLY done|gone
-- A holder learns it from its next renewal. One that waits joins again at the end.
local name, base, channel, queue, timeouts = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local owner = ARGV[2]
-- @include shared/answer.lua
-- @include shared/mutex.lua
-- @include shared/fair.lua
local holder, refusal = read_mutex()
if refusal then
	return refusal
end
local queued = leave_queue(owner)
if holder == owner then
	call('DEL', name)
elseif not queued then
	return 'gone'
end
call_first(channel)
return 'done'
