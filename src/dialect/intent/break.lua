-- KEYS lock, prefix of what lies beside it, channel; ARGV mode letter and owner, bury ms
-- REPLY done|gone, us
local key, prefix = KEYS[1], KEYS[2]
local holds, victim = string.sub(ARGV[1], 1, 1), string.sub(ARGV[1], 2)
-- @include shared/state.lua
-- @include shared/readers.lua
-- @include shared/leave.lua

if (holds == 'W') ~= (writer == victim) or (holds == 'R' and reads_of(victim) == 0) then
	return { 'gone', us }
end
bury(victim, ARGV[2])
publish()
return { 'done', us }
