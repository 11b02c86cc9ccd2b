-- KEYS lock; ARGV most parties to list
-- REPLY lock, us, last token (0: no such lock), mode ('', R, W), holders, waiters, {holder, deadline, lingers (0|1), …}, {waiter, since, end of its lease, …}
-- Reads only: for EVALSHA_RO, on replicas, and for users who may not write. Whoever is dead is passed over.
local key, most = KEYS[1], tonumber(ARGV[1])
-- @include shared/now.lua
local call = redis.call
local last = call('ZSCORE', key, '#1')
if not last then
	if call('EXISTS', key) == 1 then
		return redis.error_reply('SNECKTYPE this sorted set is not a lock of protocol 1')
	end
	return { 'lock', us, '0', '', 0, 0, {}, {} }
end

local HOLDERS, HOLDERS_END = string.format('(%d', now), '(100000000000000'
local WAIT_LEASE = 1e14
local holder_n = call('ZCOUNT', key, HOLDERS, HOLDERS_END)
local waiter_n = call('ZCOUNT', key, string.format('(%d', WAIT_LEASE + now), '(200000000000000')

-- A writer has at most 16 others beside it.
local mode = holder_n > 0 and 'R' or ''
for _, member in ipairs(call('ZRANGE', key, HOLDERS, HOLDERS_END, 'BYSCORE', 'LIMIT', '0', '17')) do
	if string.byte(member) == 87 then
		mode = 'W'
	end
end

-- Scores as numbers: as texts they are written differently by different servers.
local holders = {}
local found = call('ZRANGE', key, HOLDERS_END, HOLDERS, 'BYSCORE', 'REV', 'LIMIT', '0', most, 'WITHSCORES')
for i = 1, #found, 2 do
	local n, score = #holders, tonumber(found[i + 1])
	local deadline = math.floor(score)
	holders[n + 1], holders[n + 2], holders[n + 3] = found[i], deadline, score > deadline and 1 or 0
end

local waiters, room = {}, most - #found / 2
local queue = call('ZRANGE', key, '-inf', '(0', 'BYSCORE', 'LIMIT', '0', room, 'WITHSCORES')
for i = 1, #queue, 2 do
	local lease = tonumber((call('ZSCORE', key, 'l' .. string.sub(queue[i], 2)))) or 0
	local place = tonumber(queue[i + 1])
	if lease > WAIT_LEASE + now then
		local n = #waiters
		waiters[n + 1] = queue[i]
		waiters[n + 2] = place + (place < -6e15 and 8e15 or place < -5e15 and 6e15 or 4e15)
		waiters[n + 3] = lease - WAIT_LEASE
	end
end
return { 'lock', us, string.format('%d', last), mode, holder_n, waiter_n, holders, waiters }
