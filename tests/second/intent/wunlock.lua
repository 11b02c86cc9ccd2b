-- KEYS lock, prefix; ARGV id
-- REPLY 1 free, -1 not ours
local lock, id = KEYS[1], ARGV[1]
if redis.call('HGET', lock, 'mode') ~= 'write' or redis.call('HGET', lock, id) ~= '1' then
	return -1
end
redis.call('DEL', lock)
redis.call('PUBLISH', KEYS[2] .. ':channel', id .. '_del_write')
return 1
