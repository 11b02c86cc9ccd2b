-- KEYS lock; ARGV owner, lease ms
-- REPLY 1 or 0, ms left
local left = redis.call('PTTL', KEYS[1])
if redis.call('HGET', KEYS[1], 'writer') ~= ARGV[1] then
	return { 0, left }
end
left = math.max(left, tonumber(ARGV[2]))
redis.call('PEXPIRE', KEYS[1], left)
return { 1, left }
