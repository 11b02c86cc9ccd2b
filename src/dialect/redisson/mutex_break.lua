-- KEYS lock, {lock}, channel, …; ARGV PUBLISH|SPUBLISH, owner to remove
-- REPLY done|gone
-- The victim learns it from its next renewal, as after Redisson's forceUnlock.
local name, base, channel = KEYS[1], KEYS[2], KEYS[3]
local owner = ARGV[2]
-- @include shared/answer.lua
-- @include shared/mutex.lua
local holder, refusal = read_mutex()
if refusal then
	return refusal
elseif holder ~= owner then
	return 'gone'
end
call('DEL', name)
call(ARGV[1], channel, '0')
return 'done'
