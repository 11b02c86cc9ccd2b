-- KEYS lock; ARGV owner
-- REPLY 1 or 0, ms left
if redis.call('HGET', KEYS[1], 'writer') ~= ARGV[1] then
	return { 0, redis.call('PTTL', KEYS[1]) }
end
if redis.call('HINCRBY', KEYS[1], 'wcount', -1) <= 0 then
	redis.call('HDEL', KEYS[1], 'writer', 'wcount')
	if tonumber(redis.call('HGET', KEYS[1], 'rcount') or 0) > 0 then
		redis.call('HSET', KEYS[1], 'mode', 'read')
	else
		redis.call('DEL', KEYS[1])
	end
end
return { 1, redis.call('PTTL', KEYS[1]) }
