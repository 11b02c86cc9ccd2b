-- KEYS lock, {lock}, channel; ARGV PUBLISH|SPUBLISH, owner that will read, owner that writes, lease ms, reads
-- REPLY granted|gone|buried, us, owner, '0', left ms, '', '1' or 'nil'
-- Redisson publishes nothing here and leaves readers that wait to the lease's end; its waiters understand 1.
local name, base, channel = KEYS[1], KEYS[2], KEYS[3]
local owner, old, lease, reads = ARGV[2], ARGV[3], tonumber(ARGV[4]), math.max(1, tonumber(ARGV[5]))
-- @include shared/answer.lua
-- @include shared/rw.lua
-- @include shared/rw_remove.lua
local held, refusal = read_mode()
if refusal then
	return refusal
elseif is_buried(owner) then
	return answer('buried')
end
local own = call('HGET', name, owner)
if own then -- the same request once more
	local left = reads_left(owner, tonumber(own))
	if left == 0 then
		return answer('gone', 0, '', 'nil')
	end
	left = math.max(left, lease)
	keep_hash(left)
	keep_reads(owner, tonumber(own), left)
	return answer('granted', left, '', '1')
elseif held ~= 'write' or call('HEXISTS', name, old .. ':write') == 0 then
	return answer('gone', 0, '', 'nil')
end
local left = math.max(call('PTTL', name), lease)
remove_owner(old)
call('HSET', name, 'mode', 'read', owner, string.format('%d', reads))
keep_reads(owner, reads, left)
keep_hash(left)
call(ARGV[1], channel, '1')
return answer('granted', left, '', '1')
