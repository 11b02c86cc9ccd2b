-- KEYS lock; ARGV most parties to list
-- REPLY lock, us, mode ('', R, W), holders, 0, {holder, holds, ms left, …}, {}
-- Reads only: for EVALSHA_RO, on replicas, and for users who may not write.
local key, most = KEYS[1], tonumber(ARGV[1])
-- @include shared/state.lua

local left, n, listed = math.max(ttl, 0), 0, {}
local function list(id, holds)
	n = n + 1
	if n <= most then
		listed[#listed + 1] = id
		listed[#listed + 1] = holds
		listed[#listed + 1] = left
	end
end
if writer then
	list('W' .. writer, wcount)
end
local fields = rcount > 0 and call('HGETALL', key) or {}
for i = 1, #fields, 2 do
	local id = string.match(fields[i], '^r:(.*)$')
	if id and id ~= writer then
		list('R' .. id, count(fields[i + 1]) or 0)
	end
end
return { 'lock', us, mode == 'write' and 'W' or mode and 'R' or '', n, 0, listed, {} }
