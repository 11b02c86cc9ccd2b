-- KEYS lock; ARGV attempt, keep ms, channel prefix, old counter, lease ms, waiter lease ms, queue (0|1), own counters…
-- REPLY granted|gone|buried, us, attempt, token, deadline, flags; broken: … deadline of a READ that is kept, flags, reason, ms that it is kept; waiting|busy|deadlock: … latest holder deadline, flags, ahead, holder
local key, attempt, keep, channel = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3]
local old, lease, wait_lease, queue = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7] == '1'
-- @include shared/now.lua
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

local member, waiter = 'W' .. attempt, 'u' .. attempt .. '.' .. old
local reader = 'R' .. session .. '.' .. old
local known = call('ZMSCORE', key, 'x' .. attempt, member, reader, waiter, 'b' .. attempt)
if known[1] then
	return reply('buried')
elseif known[2] then
	return claim(member, tonumber(known[2]))
elseif not known[3] then
	advance()
	return reply_lost(session .. '.' .. old, attempt)
elseif known[5] and tonumber(known[3]) > now then
	return reply_broken(attempt, find_notice(attempt), tonumber(known[3]))
elseif known[4] then
	return refresh(waiter, member)
end

local held_until = tonumber(known[3])
advance()
if held_until <= now then
	drop_hold(reader)
	return reply('gone')
end
local head = call('ZRANGE', key, '0', '0')[1]
if string.byte(head) == 117 then
	-- Each of two upgraders would wait for the other's read hold to end.
	return reply_blocked('deadlock', 1, 'R' .. string.match(head, '^.([^.]*)'))
elseif not more and upgrade_is_alone(reader, attempt) then
	local deadline = math.max(held_until, now + lease)
	call('ZREM', key, reader)
	call('ZADD', key, digits(deadline), member)
	take_token()
	keep_key(deadline)
	return reply('granted', deadline)
elseif not queue then
	return reply_blocked('busy', 0)
end
return join(digits(tonumber(UPGRADER) + now), waiter)
