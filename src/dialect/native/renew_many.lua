-- KEYS locks; ARGV keep ms, lease ms, for each lock the id of the hold (mode and attempt)
-- REPLY us, id of the first hold, deadline, for each lock its token ('': nothing was done, `renew` tells what is the matter)
local keep, lease = tonumber(ARGV[1]), tonumber(ARGV[2])
-- @include shared/now.lua
local deadline = now + lease
local score, ends = string.format('%d', deadline), string.format('%d', deadline + keep)

-- What nearly every renewal finds, and nothing else: alive, not to end later anyhow, wanted by nobody, and the
-- last token not ahead of the clock.
local function renew(key, id)
	local first = redis.pcall('ZRANGE', key, '0', '1', 'WITHSCORES')
	local held_until, token = first[2], first[4]
	if first[1] ~= id or first[3] ~= '#1' then
		-- No lock at all, or somebody waits; else others hold it, too.
		if not held_until or tonumber(held_until) < 0 then
			return ''
		end
		held_until, token = unpack(redis.call('ZMSCORE', key, id, '#1'))
	end
	held_until, token = tonumber(held_until), token or ''
	if token == '' or not held_until or held_until <= now or held_until > deadline then
		return ''
	elseif tonumber(token) > 1000 * deadline then
		return ''
	end
	-- First a command that works when memory is full; after it all others do.
	redis.call('PEXPIREAT', key, ends, 'GT')
	redis.call('ZADD', key, 'XX', score, id)
	return token
end

local answer = { us, ARGV[3], deadline }
for i = 1, #KEYS do
	answer[i + 3] = renew(KEYS[i], ARGV[i + 2])
end
return answer
