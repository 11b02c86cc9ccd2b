-- KEYS lock; ARGV attempt, keep ms, channel prefix, mode (R|W), lease ms, waiter lease ms, old counter ('' unless an upgrade), own counters…
-- REPLY granted|gone, us, attempt, token, deadline, flags; broken: … deadline of a READ that is kept, flags, reason, ms that it is kept; waiting: … latest holder deadline, flags, ahead, holder
local key, attempt, keep, channel = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3]
local mode, lease, wait_lease, old = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
local member, waiter = mode .. attempt, string.lower(mode) .. attempt
if old ~= '' then
	waiter = 'u' .. attempt .. '.' .. old
end
local known = redis.call('ZMSCORE', key, '#1', member, waiter)
-- @include shared/now.lua

-- The claim of a living WRITE: while it holds there is nobody to let in.
if known[1] and known[2] and mode == 'W' and tonumber(known[2]) > now then
	local deadline = math.max(tonumber(known[2]), now + lease)
	local ends = math.max(deadline, math.ceil(tonumber(known[1]) / 1000))
	-- First a command that works when memory is full; after it all others do.
	redis.call('PEXPIREAT', key, string.format('%d', ends + keep), 'GT')
	redis.call('ZADD', key, 'XX', string.format('%d', deadline), member)
	local head = redis.call('ZRANGE', key, '0', '0', 'WITHSCORES')
	local wanted = tonumber(head[2]) < 0 and string.match(head[1], '^.([^.]*)') ~= string.match(attempt, '^[^.]*')
	return { 'granted', us, attempt, known[1], deadline, wanted and 2 or 0 }
end

-- @include shared/state.lua
-- @include shared/advance.lua
-- @include shared/broken.lua
-- @include shared/wait.lua

for i = 8, #ARGV do
	own[session .. '.' .. ARGV[i]] = true
end
if not last then
	return reply('gone')
end

-- Never creates: a beat that comes late finds nothing and changes nothing.
if known[2] then
	return claim(member, tonumber(known[2]))
elseif known[3] then
	return refresh(waiter, member)
end
advance()
local reader = session .. '.' .. old
local notice, held_until = find_notice(attempt), old ~= '' and score_of('R' .. reader)
if notice and held_until and held_until > now then
	return reply_broken(attempt, notice, held_until) -- the upgrade alone
end
return reply_lost(attempt, reader)
