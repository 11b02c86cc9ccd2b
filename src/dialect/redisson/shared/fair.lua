-- The queue of RFairLock: a list of owners, and a sorted set with the time in milliseconds until which each is
-- waited for once it is the first. Expects shared/answer.lua, `queue`, `timeouts`, and what to
-- publish with in ARGV[1].
--
-- Redisson gives everybody the time of the one before and five minutes, by its own clock, and takes that off
-- all others when somebody is served or gives up. Ours are by the server's clock and set anew with every
-- question: five minutes for each before us, so that Redisson's arithmetic cannot overtake us, and half a
-- minute of our own. So one of ours that dies as the first costs half a minute, and one that dies further
-- back up to five minutes more for each that was before it.
local TURN, SLOT = 300000, 30000
local now = math.floor(us / 1000)

-- The first who is still waited for; those before it are dropped.
local function drop_stale()
	local head = call('LINDEX', queue, '0')
	while head do
		local ends = call('ZSCORE', timeouts, head)
		if ends and tonumber(ends) > now then
			return head
		end
		call('LPOP', queue)
		call('ZREM', timeouts, head)
		head = call('LINDEX', queue, '0')
	end
	return nil
end

-- Out of the queue; those behind have our time no longer before them.
local function leave_queue(who)
	local place = call('LPOS', queue, who)
	if place then
		for _, other in ipairs(call('LRANGE', queue, place + 1, '-1')) do
			call('ZINCRBY', timeouts, -SLOT, other)
		end
		call('LREM', queue, '0', who)
	end
	call('ZREM', timeouts, who)
	return place
end

-- Whoever is first now may come, if nobody holds the lock.
local function call_first(channel)
	local head = drop_stale()
	if head and call('EXISTS', name) == 0 then
		call(ARGV[1], channel .. ':' .. head, '0')
	end
end
