-- KEYS session record; ARGV ms that it lasts, field, value, field, value…
-- REPLY 1
-- A script because a record must not be there, even for a moment, without an end.
redis.call('HSET', KEYS[1], unpack(ARGV, 2))
return redis.call('PEXPIRE', KEYS[1], ARGV[1])
