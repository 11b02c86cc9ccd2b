-- KEYS lock; ARGV attempt, keep ms, channel prefix, mode (R|W), lease ms, waiter lease ms, old counter ('' unless an upgrade), own counters…
-- REPLY granted|gone|broken, us, attempt, token, deadline, flags; waiting: … latest holder deadline, flags, ahead, holder
local key, attempt, keep, channel = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3]
local mode, lease, wait_lease, old = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
-- @include shared/now.lua
-- @include shared/state.lua
-- @include shared/advance.lua
-- @include shared/wait.lua

for i = 8, #ARGV do
	own[session .. '.' .. ARGV[i]] = true
end
if not last then
	return reply('gone')
end

-- Never creates: a beat that comes late finds nothing and changes nothing.
local member, waiter = mode .. attempt, string.lower(mode) .. attempt
if old ~= '' then
	waiter = 'u' .. attempt .. '.' .. old
end
local known = call('ZMSCORE', key, member, waiter, 'b' .. attempt, 'b' .. session .. '.' .. old)
if known[1] then
	return claim(member, tonumber(known[1]))
elseif known[2] then
	return refresh(waiter, member)
end
advance()
return reply((known[3] or known[4]) and 'broken' or 'gone')
