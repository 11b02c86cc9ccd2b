-- KEYS lock, what graves begin with, channel; ARGV mode letter and owner, bury ms
-- REPLY done|gone, us
local key, graves, channel = KEYS[1], KEYS[2], KEYS[3]
local holds, victim = string.sub(ARGV[1], 1, 1), string.sub(ARGV[1], 2)
-- @include shared/state.lua
-- @include shared/leave.lua

-- Whoever has turned from one mode to the other meanwhile is not the one that was meant.
if (holds == 'W') ~= (writer == victim) or (holds == 'R' and reads_of(victim) == 0) then
	return { 'gone', us }
end
bury(victim, ARGV[2])
settle()
return { 'done', us }
