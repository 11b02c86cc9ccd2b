-- KEYS lock; ARGV attempt, keep ms, channel prefix, mode (R|W), old counter ('' unless an upgrade), bury ms, counters to bury…
-- REPLY done|gone, us, attempt, token, deadline of a WRITE that is kept, flags
local key, attempt, keep, channel = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3]
local mode, old, bury_ms = ARGV[4], ARGV[5], tonumber(ARGV[6])
local member = mode .. attempt
local rest = old == '' and attempt or attempt .. '.' .. old
local waiter = (old == '' and string.lower(mode) or 'u') .. rest
-- First a command that works when memory is full; after it all others do.
redis.call('ZREM', key, waiter, 'l' .. rest)
-- @include shared/now.lua
-- @include shared/state.lua
-- @include shared/advance.lua
-- @include shared/bury.lua

local held_until = last and score_of(member)
local status, kept, deadline = 'done', nil, 0
if held_until and old ~= '' then
	-- The upgrade was granted before it was withdrawn: WRITE stays, READ is no more.
	if held_until <= now then
		drop_hold(member)
		status = 'gone'
	else
		released, kept, deadline = true, attempt, held_until
	end
elseif held_until then
	released = true
	drop_hold(member)
end
bury(7, bury_ms, kept)
if last then
	advance()
end
return reply(status, deadline)
