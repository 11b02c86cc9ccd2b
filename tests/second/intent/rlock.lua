-- KEYS lock, prefix; ARGV id, lease ms
-- REPLY OK, or ms left
local lock, prefix, id, lease = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local mode = redis.call('HGET', lock, 'mode')
if redis.call('EXISTS', prefix .. ':wait_write') == 1 or mode == 'write' then
	return redis.call('PTTL', lock)
end
if not mode then
	redis.call('HSET', lock, 'mode', 'read')
end
local hold = redis.call('HINCRBY', lock, id, 1)
redis.call('SET', prefix .. ':' .. id .. ':rwlock_timeout:' .. hold, 1, 'PX', lease)
redis.call('PEXPIRE', lock, math.max(redis.call('PTTL', lock), tonumber(lease)))
return 'OK'
