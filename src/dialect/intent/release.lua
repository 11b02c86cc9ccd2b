-- KEYS lock, prefix of what lies beside it, channel; ARGV owner, mode (R|W), bury ms, owners to bury…
-- REPLY done|gone, us, owner, 0, 0, '', the document's result
local key, prefix = KEYS[1], KEYS[2]
local owner, holds = ARGV[1], ARGV[2]
-- @include shared/state.lua
-- @include shared/readers.lua
-- @include shared/leave.lua

local verdict, alive
if holds == 'W' then
	verdict, alive = remove_writer(owner)
else
	verdict, alive = remove_reader(owner)
end
if not alive then
	call('HDEL', key, '') -- no such field: after this write others work when memory is full
end
for i = 4, #ARGV do
	bury(ARGV[i], ARGV[3])
end
publish()
return { alive and 'done' or 'gone', us, owner, '0', 0, '', digits(verdict) }
