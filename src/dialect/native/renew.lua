-- KEYS lock; ARGV attempt, keep ms, channel prefix, mode (R|W), lease ms (0: do not lengthen it), last token used (0: none), lingers (0|1), must write (0|1)
-- REPLY granted|gone, us, attempt, token, deadline, flags; broken: … reason, ms that it is kept
local key, attempt, keep, channel = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3]
local mode, lease, used = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
local member = mode .. attempt
-- Mostly there are two entries, this hold and the last token. Then this one look tells everything.
local first = redis.call('ZRANGE', key, '0', '1', 'WITHSCORES')
local known = { first[2], first[4] }
if first[1] ~= member or first[3] ~= '#1' then
	known = redis.call('ZMSCORE', key, member, '#1')
end
local held_until = tonumber(known[1])
-- @include shared/now.lua

-- Never creates: what is not there is lost, whoever has it now.
if held_until and held_until > now and known[2] then
	-- Where WAIT follows, it waits for what this connection has written: there must be something.
	local least = math.floor(held_until) + (ARGV[8] == '1' and 1 or 0)
	local deadline, text = math.max(least, now + lease), known[2]
	local token = math.max(tonumber(text), used)
	local ends = math.max(deadline, math.ceil(token / 1000)) + keep
	-- First a command that works when memory is full; after it all others do.
	redis.call('PEXPIREAT', key, string.format('%d', ends), 'GT')
	-- Half a millisecond on top says, to people who look, that nobody uses the hold at present.
	redis.call('ZADD', key, 'XX', string.format(ARGV[7] == '1' and '%d.5' or '%d', deadline), member)
	if used == token then
		text = string.format('%d', token)
		redis.call('ZADD', key, 'XX', text, '#1')
	end
	-- A waiter would come before all holders.
	local wanted = tonumber(first[2]) < 0 and string.match(first[1], '^.([^.]*)') ~= string.match(attempt, '^[^.]*')
	return { 'granted', us, attempt, text, deadline, wanted and 2 or 0 }
end

-- @include shared/state.lua
-- @include shared/advance.lua
-- @include shared/broken.lua

if not last then
	return reply('gone')
elseif not held_until then
	return reply_lost(attempt)
end
drop_hold(member)
advance()
return reply('gone')
