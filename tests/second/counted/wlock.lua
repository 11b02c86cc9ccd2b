-- KEYS lock; ARGV owner, lease ms
-- REPLY 1 or 0, ms left
local mode, writer, readers, mine = unpack(redis.call('HMGET', KEYS[1], 'mode', 'writer', 'rcount', 'r:' .. ARGV[1]))
if mode == 'write' and writer == ARGV[1] then
	redis.call('HINCRBY', KEYS[1], 'wcount', 1)
elseif not mode or (mode == 'read' and readers == mine) then
	redis.call('HSET', KEYS[1], 'mode', 'write', 'writer', ARGV[1], 'wcount', 1)
else
	return { 0, redis.call('PTTL', KEYS[1]) }
end
local left = math.max(redis.call('PTTL', KEYS[1]), tonumber(ARGV[2]))
redis.call('PEXPIRE', KEYS[1], left)
return { 1, left }
