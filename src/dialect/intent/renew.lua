-- KEYS lock, prefix of what lies beside it, channel; ARGV owner, mode (R|W), lease ms, reads
-- REPLY granted|gone, us, owner, 0, ms left, '', ''
local key, prefix = KEYS[1], KEYS[2]
local owner, holds, lease, reads = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
-- @include shared/state.lua

local function answer(word, left)
	return { word, us, owner, '0', left, '', '' }
end

if holds == 'W' then
	if writer ~= owner then
		return answer('gone', 0)
	end
	local left = math.max(ttl, lease)
	call('PEXPIRE', key, digits(left))
	return answer('granted', left)
end
local had = reads_of(owner)
local left = had > 0 and life(owner, had) or 0
if left == 0 then
	return answer('gone', 0)
end

-- All its holds are one hold of a program of ours: they end together. The first command works when memory
-- is full; after it all others do.
left = math.max(left, lease)
call('PEXPIRE', key, digits(math.max(ttl, left)))
reads = math.max(reads, 1)
for i = 1, reads do
	call('SET', timeout_key(owner, i), '1', 'PX', digits(left))
end
for i = reads + 1, had do
	call('DEL', timeout_key(owner, i))
end
if reads ~= had then
	call('HSET', key, owner, digits(reads))
end
return answer('granted', left)
