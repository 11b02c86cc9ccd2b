-- KEYS locks; ARGV keep ms, lease ms, for each lock the id of the hold (mode and attempt), for each lock its last token
-- REPLY us, id of the first hold, deadline, for each lock 1, or 0: nothing was done, `renew` tells what is the matter
local keep, lease = tonumber(ARGV[1]), tonumber(ARGV[2])
-- @include shared/now.lua
local deadline = now + lease
local score, ends = string.format('%d', deadline), string.format('%d', deadline + keep)
local past = string.format('%d', now)
local KEYS, ARGV, call, pcall, n = KEYS, ARGV, redis.call, redis.pcall, #KEYS

-- The first write must be a command that works when memory is full; after it all others do. This one does
-- nothing: no key ends before that time.
call('PEXPIREAT', KEYS[1], '1', 'GT')

-- What nearly every renewal finds, and nothing else: no other phase has begun, nobody waits (waiters come before
-- time begins), nobody has died, and the hold is there and not to end later anyhow. Only commands that
-- answer with a whole number: scores cost the server more to print than to find.
local answer = { us, ARGV[3], deadline }
for i = 1, n do
	local key, token, done = KEYS[i], ARGV[2 + n + i], 0
	if pcall('ZCOUNT', key, token, token) == 1 and call('ZCOUNT', key, '-inf', past) == 0 then
		done = call('ZADD', key, 'XX', 'GT', 'CH', score, ARGV[2 + i])
		if done == 1 then
			call('PEXPIREAT', key, ends, 'GT')
		end
	end
	answer[3 + i] = done
end
return answer
