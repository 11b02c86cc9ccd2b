-- KEYS lock; ARGV owner, lease ms
-- REPLY 1 or 0, ms left
local left = redis.call('PTTL', KEYS[1])
if tonumber(redis.call('HGET', KEYS[1], 'r:' .. ARGV[1]) or 0) <= 0 then
	return { 0, left }
end
left = math.max(left, tonumber(ARGV[2]))
redis.call('PEXPIRE', KEYS[1], left)
return { 1, left }
