-- KEYS lock, {lock}, channel, queue, timeouts; ARGV most parties to list
-- REPLY lock, us, '0', mode ('' or W), holders, waiters, {id, holds, left ms}, {id, '1', left ms, …}
-- Reads only.
local name, base, queue, timeouts = KEYS[1], KEYS[2], KEYS[4], KEYS[5]
local most, owner = tonumber(ARGV[1]), ''
-- @include shared/answer.lua
-- @include shared/mutex.lua
local holder, refusal = read_mutex()
if refusal then
	return refusal
end
local now, waiting, waiters = math.floor(us / 1000), 0, {}
local holders = holder and { 'W' .. holder, call('HGET', name, holder), time_left(name) } or {}
for _, who in ipairs(call('LRANGE', queue, '0', '-1')) do
	local ends = tonumber((call('ZSCORE', timeouts, who))) or 0
	if ends > now then
		waiting = waiting + 1
		if waiting + #holders / 3 <= most then
			local n = #waiters
			waiters[n + 1], waiters[n + 2], waiters[n + 3] = 'W' .. who, '1', ends - now
		end
	end
end
return { 'lock', us, token, holder and 'W' or '', holder and 1 or 0, waiting, holders, waiters }
