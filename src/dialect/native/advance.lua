-- KEYS lock; ARGV attempt (echoed only), keep ms, channel prefix
-- REPLY done, us, attempt, token, 0, flags
local key, attempt, keep, channel = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3]
-- @include shared/now.lua
-- @include shared/state.lua
-- @include shared/advance.lua

if last then
	advance()
end
return reply('done')
