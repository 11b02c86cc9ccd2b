-- KEYS lock, prefix of what lies beside it, channel; ARGV most parties to list
-- REPLY lock, us, mode ('', R, W), holders, waiters, {holder, holds, ms left, …}, {waiter, 0, ms left}
-- Reads only: for EVALSHA_RO, on replicas, and for users who may not write. Of few readers the dead are
-- passed over; of many they are counted.
local key, prefix, most = KEYS[1], KEYS[2], tonumber(ARGV[1])
-- @include shared/state.lua

local n, listed = 0, {}
local function list(id, holds, left)
	n = n + 1
	if n <= most then
		listed[#listed + 1] = id
		listed[#listed + 1] = holds
		listed[#listed + 1] = left
	end
end
if writer then
	list('W' .. writer, 1, math.max(ttl, 0))
end
local fields = mode == 'read' and call('HGETALL', key) or {}
for i = 1, #fields, 2 do
	local holds = fields[i] ~= 'mode' and count(fields[i + 1])
	if holds then
		local left = n < most and life(fields[i], holds) or 1
		if left > 0 then
			list('R' .. fields[i], holds, left)
		end
	end
end
local waiting = marked and { 'W' .. marked, 0, math.max(call('PTTL', mark), 0) } or {}
local shown = n == 0 and '' or writer and 'W' or 'R'
return { 'lock', us, shown, n, marked and 1 or 0, listed, waiting }
