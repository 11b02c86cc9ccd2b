-- KEYS lock, prefix; ARGV id
-- REPLY 3 no lock, -1 written to, 2 not ours, 0 others read on, 1 free
local lock, prefix, id = KEYS[1], KEYS[2], ARGV[1]
local function timeout(owner, hold)
	return prefix .. ':' .. owner .. ':rwlock_timeout:' .. hold
end

local mode = redis.call('HGET', lock, 'mode')
if not mode then
	return 3
elseif mode == 'write' then
	return -1
elseif redis.call('HEXISTS', lock, id) == 0 then
	return 2
end
local holds = redis.call('HINCRBY', lock, id, -1)
if holds == 0 then
	redis.call('HDEL', lock, id)
end
redis.call('DEL', timeout(id, holds + 1))

local longest, fields = 0, redis.call('HGETALL', lock)
for i = 1, #fields, 2 do
	for hold = 1, tonumber(fields[i + 1]) or 0 do
		longest = math.max(longest, redis.call('PTTL', timeout(fields[i], hold)))
	end
end
if longest > 0 then
	redis.call('PEXPIRE', lock, longest)
	return 0
end
redis.call('DEL', lock)
redis.call('PUBLISH', prefix .. ':channel', id .. '_del_read')
return 1
