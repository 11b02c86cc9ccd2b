-- KEYS lock, what graves begin with, channel; ARGV owner, mode (R|W), lease ms, reads, writes
-- REPLY granted|gone, us, owner, 0, ms left, '', 1 or 0 and ms left
local key, graves = KEYS[1], KEYS[2]
local owner, holds, lease = ARGV[1], ARGV[2], tonumber(ARGV[3])
local reads, writes = tonumber(ARGV[4]), tonumber(ARGV[5])
local waits = false
-- @include shared/state.lua
-- @include shared/take.lua

local had = reads_of(owner)
if (holds == 'W' and writer ~= owner) or (holds == 'R' and had == 0) then
	return answer('gone', 0)
end
local left = lengthen() -- first, because it works when memory is full

-- The counts are told as they are, not as changes: told twice they are still right.
if holds == 'W' and writes > 0 and writes ~= wcount then
	call('HSET', key, 'wcount', digits(writes))
end
if reads ~= had and (holds == 'W' or reads > 0) then
	rcount = rcount - had + reads
	if reads > 0 then
		call('HSET', key, 'r:' .. owner, digits(reads), 'rcount', digits(rcount))
	else
		call('HDEL', key, 'r:' .. owner)
		if rcount > 0 then
			call('HSET', key, 'rcount', digits(rcount))
		else
			call('HDEL', key, 'rcount')
		end
	end
end
return answer('granted', left)
