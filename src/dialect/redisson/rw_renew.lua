-- KEYS lock, {lock}, channel; ARGV PUBLISH|SPUBLISH, owner, mode (R|W), lease ms, reads, writes
-- REPLY granted|gone, us, owner, '0', left ms, '', '1' or '0'
-- Our own holds only. Never creates, never shortens; the counts become what the program has.
local name, base, channel = KEYS[1], KEYS[2], KEYS[3]
local owner, mode, lease = ARGV[2], ARGV[3], tonumber(ARGV[4])
local reads, writes = tonumber(ARGV[5]), tonumber(ARGV[6])
-- @include shared/answer.lua
-- @include shared/rw.lua
-- @include shared/rw_remove.lua
local held, refusal = read_mode()
if refusal then
	return refusal
end
local had_reads = call('HGET', name, owner)
local had_writes = call('HGET', name, owner .. ':write')
if (had_reads and not is_count(had_reads)) or (had_writes and not is_count(had_writes)) then
	return strange('the count of holds is no positive number')
end
local old = tonumber(had_reads or 0)
local left
if mode == 'W' then
	left = had_writes and call('PTTL', name) or 0
else
	left = old > 0 and reads_left(owner, old) or 0
end
if left == 0 then
	if mode == 'R' and had_reads then -- it died while others kept the hash alive
		remove_owner(owner)
		settle(held, channel)
	end
	return answer('gone', 0, '', '0')
end

left = math.max(left, lease)
keep_hash(left)
keep_reads(owner, reads, left)
drop_timeouts(owner, reads + 1, old)
if reads == 0 and old > 0 then
	call('HDEL', name, owner)
elseif reads ~= old then
	call('HSET', name, owner, ARGV[5])
end
if mode == 'W' and writes > 0 and ARGV[6] ~= had_writes then
	call('HSET', name, owner .. ':write', ARGV[6])
end
return answer('granted', left, '', '1')
