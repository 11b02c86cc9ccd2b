-- Let the queue move on. Expects shared/state.lua.

-- Dead means removed: an entry that was only skipped would live again when the clock steps back.
local function drop_dead_holders()
	local dead = call('ZRANGE', key, '0', digits(now), 'BYSCORE', 'LIMIT', '0', digits(budget))
	if #dead == 0 then
		return
	end
	call('ZREM', key, unpack(dead))
	budget = budget - #dead
	if held_as(dead) == 'W' then
		writer_left()
	end
end

local held -- as held_as says; nil: not looked at yet
local waiting = false -- somebody is in the queue

local function give(mode, id, deadline)
	held = mode
	call('ZADD', key, digits(deadline), mode .. id)
	if id == attempt then
		return -- the reply says it
	end
	local to, counter = string.match(id, '^([^.]*)%.(.*)$')
	notes[#notes + 1] = channel .. to
	notes[#notes + 1] = string.format('g %s %.0f %.0f %.0f', counter, last, deadline, us)
end

-- The upgrader is alone when every holder is its own reader, or one its session vouches for.
local function upgrade_is_alone(reader, id)
	local holders = some_holders()
	for i = 1, #holders do
		if holders[i] ~= reader and not (id == attempt and own[string.sub(holders[i], 2)]) then
			return false
		end
	end
	return #holders <= BESIDE_WRITER
end

-- True when the upgrader left the head of the queue, granted or hopeless.
local function serve_upgrader(rest, lease_end)
	local id, session_, old = string.match(rest, '^(([^.]*)%.[^.]*)%.(.*)$')
	local reader = 'R' .. session_ .. '.' .. old
	local held_until = score_of(reader)
	if held_until and not upgrade_is_alone(reader, id) then
		return false
	end
	call('ZREM', key, 'u' .. rest, 'l' .. rest, reader)
	if held_until then
		take_token()
		give('W', id, math.max(held_until, lease_end))
	end
	return true
end

-- Serve the head of the queue. True when it left, so that the next one may be looked at.
local function serve_head(head)
	local kind, rest = string.sub(head, 1, 1), string.sub(head, 2)
	local lease_end = (score_of('l' .. rest) or 0) - WAIT_LEASE
	if lease_end <= now then
		call('ZREM', key, head, 'l' .. rest)
		return true
	end
	if kind == 'u' then
		return serve_upgrader(rest, lease_end)
	end
	held = held or held_as(some_holders())
	if held ~= 'free' and (held ~= 'R' or kind ~= 'r') then
		return false
	end
	call('ZREM', key, head, 'l' .. rest)
	if held == 'free' then
		take_token()
	end
	-- Only the waiter's own lease is known here; its claim lengthens it.
	give(string.upper(kind), rest, lease_end)
	return true
end

-- Remove dead holders, then serve waiters in order. With more dead ones than the budget nobody is
-- granted: one of those left may be a writer.
local function advance()
	drop_dead_holders()
	more = budget <= 0
	repeat
		local head = call('ZRANGE', key, '0', '0', 'WITHSCORES')
		waiting = tonumber(head[2]) < 0
		wanted = waiting and string.match(head[1], '^.([^.]*)') ~= session
		more = more or (waiting and budget <= 0)
		budget = budget - 1
	until more or not waiting or not serve_head(head[1])
end
