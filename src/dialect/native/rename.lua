-- KEYS lock; ARGV attempt, keep ms, channel prefix, id (mode letter, session, '.', counter), lease ms, keep old (0|1), exact (0|1), last token used (0: none)
-- REPLY granted|gone|buried|busy, us, attempt, token, deadline, flags; broken: … reason, ms that it is kept
local key, attempt, keep, channel = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3]
local id, lease, keep_old, exact, used = ARGV[4], tonumber(ARGV[5]), ARGV[6] == '1', ARGV[7] == '1', tonumber(ARGV[8])
local wait_lease = 0
-- @include shared/now.lua
-- @include shared/state.lua
-- @include shared/advance.lua
-- @include shared/broken.lua
-- @include shared/wait.lua

local mode = string.sub(id, 1, 1)
if not last or (mode ~= 'R' and mode ~= 'W') then
	return reply('gone')
end

-- Renamed, the hold goes on under its token, and whoever knew it by the old name has it no longer.
local member = mode .. attempt
local known = call('ZMSCORE', key, 'x' .. attempt, member, id)
if known[1] then
	return reply('buried')
elseif known[2] then
	return claim(member, tonumber(known[2]))
elseif not known[3] then
	return reply_lost(string.sub(id, 2), attempt)
elseif tonumber(known[3]) <= now then
	drop_hold(id)
	advance()
	return reply('gone')
elseif keep_old then
	local holders = some_holders()
	if mode == 'W' or (held_as(holders) == 'W' and #holders >= BESIDE_WRITER) then
		return reply_blocked('busy', 0)
	end
end

local deadline = now + lease
if keep_old then
	keep_key(deadline)
else
	call('ZREM', key, id)
	deadline = exact and deadline or math.max(tonumber(known[3]), deadline)
end
call('ZADD', key, digits(deadline), member)
raise_token(used)
keep_key(deadline)
return reply('granted', deadline)
