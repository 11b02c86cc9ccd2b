-- Let the queue move on. Expects shared/state.lua.
local held -- as held_as says; nil: not looked at yet
local waiting = false -- somebody is in the queue

-- Dead means removed: an entry that was only skipped would live again when the clock steps back.
local function drop_dead_holders()
	local dead = call('ZRANGE', key, '0', digits(now), 'BYSCORE', 'LIMIT', '0', digits(budget))
	if #dead == 0 then
		return
	end
	call('ZREM', key, unpack(dead))
	held = nil
	budget = budget - #dead
	if held_as(dead) == 'W' then
		bury_numbers()
		writer_left()
	end
end

local function note_grant(id, deadline)
	if id == attempt then
		return -- the reply says it
	end
	local to, counter = string.match(id, '^([^.]*)%.(.*)$')
	notes[#notes + 1] = channel .. to
	notes[#notes + 1] = string.format('g %s %d %d %d', counter, last, deadline, us)
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
	local id, who, old = string.match(rest, '^(([^.]*)%.[^.]*)%.(.*)$')
	local reader = 'R' .. who .. '.' .. old
	local held_until = score_of(reader)
	if held_until and not upgrade_is_alone(reader, id) then
		return false
	end
	call('ZREM', key, 'u' .. rest, 'l' .. rest, reader)
	budget = budget - 1
	if held_until then
		held = 'W'
		local deadline = math.max(held_until, lease_end)
		call('ZADD', key, digits(deadline), 'W' .. id)
		take_token()
		note_grant(id, deadline)
	end
	return true
end

-- The readers at the head of the queue, up to the first writer or the end of the budget. One who
-- comes to a free lock begins a phase; the others share its token.
local function serve_readers()
	local heads = call('ZRANGE', key, '-6000000000000000', '(0', 'BYSCORE', 'LIMIT', '0', digits(budget))
	local readers, leases, grants = {}, {}, {}
	for i = 1, #heads do
		if string.byte(heads[i]) ~= 114 then
			break
		end
		readers[i] = heads[i]
		leases[i] = 'l' .. string.sub(heads[i], 2)
	end
	local ends = call('ZMSCORE', key, unpack(leases))
	call('ZREM', key, unpack(readers))
	call('ZREM', key, unpack(leases))
	budget = budget - #readers
	for i = 1, #readers do
		local lease_end = (tonumber(ends[i]) or 0) - WAIT_LEASE
		if lease_end > now then
			if held == 'free' then
				held = 'R'
				take_token()
			end
			grants[#grants + 1] = digits(lease_end)
			grants[#grants + 1] = 'R' .. string.sub(readers[i], 2)
			note_grant(string.sub(readers[i], 2), lease_end)
		end
	end
	if #grants > 0 then
		call('ZADD', key, unpack(grants))
	end
end

-- Serve the head of the queue. True when it left, so that the next one may be looked at. A grant's
-- first deadline is the waiter's own, which alone is known here; its claim lengthens it.
local function serve_head(head)
	local kind, rest = string.byte(head), string.sub(head, 2)
	local lease_end = (score_of('l' .. rest) or 0) - WAIT_LEASE
	if lease_end <= now then
		call('ZREM', key, head, 'l' .. rest)
		budget = budget - 1
		return true
	elseif kind == 117 then
		return serve_upgrader(rest, lease_end)
	end
	held = held or held_as(some_holders())
	if kind == 114 and held ~= 'W' then
		serve_readers()
		return true
	elseif held ~= 'free' then
		return false
	end
	held = 'W'
	budget = budget - 1
	call('ZREM', key, head, 'l' .. rest)
	call('ZADD', key, digits(lease_end), 'W' .. rest)
	take_token()
	note_grant(rest, lease_end)
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
	until more or not waiting or not serve_head(head[1])
end
