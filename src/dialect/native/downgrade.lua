-- KEYS lock; ARGV attempt, keep ms, channel prefix, old counter, lease ms, last token used (0: none)
-- REPLY granted|gone|buried, us, attempt, token, deadline, flags; broken: … reason, ms that it is kept
local key, attempt, keep, channel = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3]
local old, lease, used = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
local wait_lease = 0
-- @include shared/now.lua
-- @include shared/state.lua
-- @include shared/advance.lua
-- @include shared/broken.lua
-- @include shared/wait.lua

if not last then
	return reply('gone')
end

local member, writer = 'R' .. attempt, 'W' .. session .. '.' .. old
local known = call('ZMSCORE', key, 'x' .. attempt, member, writer)
if known[1] then
	return reply('buried')
elseif known[2] then
	return claim(member, tonumber(known[2]))
elseif not known[3] then
	return reply_lost(session .. '.' .. old, attempt)
elseif tonumber(known[3]) <= now then
	drop_hold(writer)
	advance()
	return reply('gone')
end

local deadline = math.max(tonumber(known[3]), now + lease)
call('ZREM', key, writer) -- first, because it works when memory is full
call('ZADD', key, digits(deadline), member)
raise_token(used)
take_token() -- a phase of its own: a late write under the old number can be told from it
keep_key(deadline)
advance()
return reply('granted', deadline)
