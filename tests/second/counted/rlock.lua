-- KEYS lock; ARGV owner, lease ms
-- REPLY 1 or 0, ms left
local mode = redis.call('HGET', KEYS[1], 'mode')
if mode == 'write' and redis.call('HGET', KEYS[1], 'writer') ~= ARGV[1] then
	return { 0, redis.call('PTTL', KEYS[1]) }
end
if not mode then
	redis.call('HSET', KEYS[1], 'mode', 'read')
end
redis.call('HINCRBY', KEYS[1], 'r:' .. ARGV[1], 1)
redis.call('HINCRBY', KEYS[1], 'rcount', 1)
local left = math.max(redis.call('PTTL', KEYS[1]), tonumber(ARGV[2]))
redis.call('PEXPIRE', KEYS[1], left)
return { 1, left }
