-- Claiming and waiting. Expects shared/advance.lua, and lease, wait_lease.

-- Lengthen a hold of ours that is there, or say that it is lost.
local function claim(member, held_until)
	if held_until <= now then
		drop_hold(member)
		advance()
		return reply('gone')
	end
	local deadline = math.max(held_until, now + lease)
	keep_key(deadline)
	call('ZADD', key, 'XX', digits(deadline), member)
	advance()
	return reply('granted', deadline)
end

-- Tell those who hold that somebody wants the lock; of those, perhaps, only the ones who do not use it.
local function send_wanted(only_lingering)
	local holders = call('ZRANGE', key, '0', HOLDERS_END, 'BYSCORE', 'LIMIT', '0', '32', 'WITHSCORES')
	for i = 1, #holders, 2 do
		local to, counter = string.match(holders[i], '^.([^.]*)%.(%w*)$') -- one in its grace knows
		local in_use = tonumber(holders[i + 1]) % 1 == 0
		if to and to ~= session and not (only_lingering and in_use) then
			notes[#notes + 1] = channel .. to
			notes[#notes + 1] = 'w ' .. counter
		end
	end
end

local function join(score, waiter)
	local wait_until = now + wait_lease
	local rest = string.sub(waiter, 2)
	call('ZADD', key, score, waiter, digits(WAIT_LEASE + wait_until), 'l' .. rest)
	keep_key(wait_until)
	send_wanted()
	return reply_blocked('waiting', call('ZRANK', key, waiter))
end

-- A waiter is heard of: its lease begins anew, and what it waits for may be there.
local function refresh(waiter, member)
	local wait_until = now + wait_lease
	keep_key(wait_until) -- first, because it works when memory is full
	call('ZADD', key, digits(WAIT_LEASE + wait_until), 'l' .. string.sub(waiter, 2))
	advance()
	local held_until = score_of(member)
	if held_until then
		local deadline = math.max(held_until, now + lease)
		keep_key(deadline)
		call('ZADD', key, 'XX', digits(deadline), member)
		return reply('granted', deadline)
	end
	local ahead = call('ZRANK', key, waiter)
	if not ahead then
		return reply('gone') -- an upgrader whose read hold has ended
	end
	if ahead == 0 then
		send_wanted()
	end
	return reply_blocked('waiting', ahead)
end
