-- KEYS lock, prefix of what lies beside it, channel; ARGV owner, bury ms, owners to bury…
-- REPLY done, us, owner, 0, 1 if it had been granted, '', ''
local key, prefix = KEYS[1], KEYS[2]
local owner = ARGV[1]
-- @include shared/state.lua
-- @include shared/readers.lua
-- @include shared/leave.lua

call('HDEL', key, '') -- no such field: after this write others work when memory is full
if marked == owner then
	call('DEL', mark)
	marked = false
end
local _, alive = remove(owner)
for i = 3, #ARGV do
	bury(ARGV[i], ARGV[2])
end
publish()
return { 'done', us, owner, '0', alive and 1 or 0, '', '' }
