-- KEYS lock, prefix; ARGV id, lease ms, ms that the mark lasts
-- REPLY OK, -1 another waits, 1 marked, 2 held
local lock, mark, id = KEYS[1], KEYS[2] .. ':wait_write', ARGV[1]
local mode, waiting = redis.call('HGET', lock, 'mode'), redis.call('GET', mark)
if not mode then
	if waiting and waiting ~= id then
		return -1
	end
	redis.call('DEL', mark)
	redis.call('HSET', lock, 'mode', 'write', id, 1)
	redis.call('PEXPIRE', lock, ARGV[2])
	return 'OK'
elseif mode == 'read' and not waiting then
	redis.call('SET', mark, id, 'PX', ARGV[3])
	return 1
elseif mode == 'read' and waiting == id then
	redis.call('PEXPIRE', mark, ARGV[3])
end
return 2
