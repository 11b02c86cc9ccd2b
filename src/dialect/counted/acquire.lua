-- KEYS lock, what graves begin with, channel; ARGV owner, mode (R|W), lease ms, waits (0|1), holds, own owners…
-- REPLY granted|waiting|busy|buried, us, owner, 0, ms left, who stands in the way, 1 or 0 and ms left
local key, graves = KEYS[1], KEYS[2]
local owner, wants, lease, waits, holds = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4] == '1', ARGV[5]
-- @include shared/state.lua
-- @include shared/take.lua

if is_buried() then
	return answer('buried', 0)
end

-- Asked again: it has what it was given.
if writer == owner or reads_of(owner) > 0 then
	return answer('granted', lengthen())
end

local function vouches_for_writer()
	for i = 6, #ARGV do
		if ARGV[i] == writer then
			return true
		end
	end
	return false
end

local free
if wants == 'R' then
	free = mode ~= 'write' or vouches_for_writer()
else
	free = not mode or (mode == 'read' and reads_of_own(6) == rcount)
end
if not free then
	return refused()
end
if wants == 'W' then
	call('HSET', key, 'mode', 'write', 'writer', owner, 'wcount', holds)
else
	call('HSET', key, 'mode', mode or 'read', 'rcount', digits(rcount + tonumber(holds)), 'r:' .. owner, holds)
end
return answer('granted', lengthen())
