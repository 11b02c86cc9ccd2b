-- KEYS lock; ARGV attempt, keep ms, channel prefix, mode (R|W), lease ms, last token used (0: none)
-- REPLY granted|gone|broken, us, attempt, token, deadline, flags
local key, attempt, keep, channel = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3]
local mode, lease, used = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
-- @include shared/now.lua
-- @include shared/state.lua
-- @include shared/advance.lua

-- Never creates: what is not there is lost, whoever has it now.
local member = mode .. attempt
local held_until = score_of(member)
if not held_until then
	return reply(last and score_of('b' .. attempt) and 'broken' or 'gone')
elseif held_until <= now then
	drop_hold(member)
	advance()
	return reply('gone')
end

local deadline = math.max(held_until, now + lease)
keep_key(deadline) -- first, because it works when memory is full
call('ZADD', key, 'XX', 'GT', digits(deadline), member)
raise_token(used)
local head = call('ZRANGE', key, '0', '0', 'WITHSCORES')
wanted = tonumber(head[2]) < 0 and string.match(head[1], '^.([^.]*)') ~= session
return reply('granted', deadline)
