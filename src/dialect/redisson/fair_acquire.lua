-- KEYS lock, {lock}, channel, queue, timeouts; ARGV PUBLISH|SPUBLISH, owner, mode (W), lease ms, queue (0|1)
-- REPLY granted|waiting|busy|buried, us, owner, '0', left ms, holder, 'nil' or the time left
local name, base, queue, timeouts = KEYS[1], KEYS[2], KEYS[4], KEYS[5]
local owner, lease, waits = ARGV[2], ARGV[4], ARGV[5] == '1'
-- @include shared/answer.lua
-- @include shared/mutex.lua
-- @include shared/fair.lua
local holder, refusal = read_mutex()
if refusal then
	return refusal
end
call('LLEN', queue) -- refuses keys of another type, before anything is written
call('ZCARD', timeouts)
if is_buried(owner) then
	return answer('buried')
elseif holder == owner then -- the same request once more
	return answer('granted', lengthen(tonumber(lease)), '', 'nil')
end
local head = drop_stale()
if not holder and (not head or head == owner) then
	call('HSET', name, owner, '1')
	call('PEXPIRE', name, lease)
	if head then
		call('LPOP', queue)
	end
	call('ZREM', timeouts, owner)
	for _, other in ipairs(call('ZRANGE', timeouts, '0', '-1')) do
		call('ZINCRBY', timeouts, -SLOT, other)
	end
	return answer('granted', tonumber(lease), '', 'nil')
end
if waits then
	local place = call('LPOS', queue, owner) or call('RPUSH', queue, owner) - 1
	call('ZADD', timeouts, string.format('%d', now + place * TURN + SLOT), owner)
end
local left = call('PTTL', name)
local who = holder or head
return answer(waits and 'waiting' or 'busy', math.max(left, 0), 'W' .. who, tostring(math.max(left, 0)))
