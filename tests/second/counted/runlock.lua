-- KEYS lock; ARGV owner
-- REPLY 1 or 0, ms left
local own = 'r:' .. ARGV[1]
if tonumber(redis.call('HGET', KEYS[1], own) or 0) <= 0 then
	return { 0, redis.call('PTTL', KEYS[1]) }
end
if redis.call('HINCRBY', KEYS[1], own, -1) == 0 then
	redis.call('HDEL', KEYS[1], own)
end
if redis.call('HINCRBY', KEYS[1], 'rcount', -1) <= 0 then
	if redis.call('HGET', KEYS[1], 'mode') == 'read' then
		redis.call('DEL', KEYS[1])
	else
		redis.call('HDEL', KEYS[1], 'rcount')
	end
end
return { 1, redis.call('PTTL', KEYS[1]) }
