-- KEYS lock, what graves begin with, channel; ARGV owner, bury ms, owners to bury…
-- REPLY done|gone, us, owner, 0, 0, '', 1 or 0 and ms left
local key, graves, channel = KEYS[1], KEYS[2], KEYS[3]
local owner = ARGV[1]
-- @include shared/state.lua
-- @include shared/leave.lua

local held = remove(owner)
for i = 3, #ARGV do
	bury(ARGV[i], ARGV[2])
end
settle()
return { held and 'done' or 'gone', us, owner, '0', 0, '', (held and '1 ' or '0 ') .. digits(math.max(ttl, 0)) }
