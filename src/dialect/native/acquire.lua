-- KEYS lock; ARGV hold id (mode R|W, attempt), lease ms, keep ms, 'waiter lease ms, class (-|n|p), channel prefix', own counters…
-- REPLY hold id, blank, us: granted, us is the token. Or: granted|gone|buried, us, attempt, token, deadline, flags; broken: … reason, ms that it is kept; waiting|busy: … latest holder deadline, flags, ahead, holder
local key, hold, lease, keep = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local place = redis.call('ZRANK', key, '#1')
-- @include shared/now.lua

-- Nobody is there: no key, or the last token alone. This path is what an uncontended lock costs, so whatever is not
-- needed for it comes behind it.
if place == 0 or (not place and redis.call('EXISTS', key) == 0) then
	local deadline, text = now + lease, string.format('%d', us)
	if redis.call('ZADD', key, 'GT', 'CH', text, '#1', string.format('%d', deadline), hold) == 2 then
		redis.call('PEXPIREAT', key, string.format('%d', deadline + keep))
		return hold .. ' ' .. text
	end
	-- The last token is ahead of the clock, which has stepped back.
	local token = tonumber((redis.call('ZSCORE', key, '#1'))) + 1
	local ends = math.max(deadline, math.ceil(token / 1000))
	text = string.format('%d', token)
	redis.call('ZADD', key, text, '#1')
	redis.call('PEXPIREAT', key, string.format('%d', ends + keep))
	return { 'granted', us, string.sub(hold, 2), text, deadline, 0 }
end

local mode, attempt = string.match(hold, '^(.)(.*)$')
local wait_lease, class, channel = string.match(ARGV[4], '^(%d+) (.) (.*)$')
local first = redis.call('ZRANGE', key, '0', '0')[1]

-- Readers hold it, the first of them to die lives, and nobody waits (a waiter would come first).
if mode == 'R' and string.byte(first) == 82 then
	local known = redis.call('ZMSCORE', key, '#1', first, hold, 'r' .. attempt, 'x' .. attempt, 'b' .. attempt)
	local joins = known[1] and tonumber(known[2]) > now and not (known[3] or known[4] or known[5] or known[6])
	local holders = redis.call('ZRANGE', key, '0', '(100000000000000', 'BYSCORE', 'LIMIT', '0', '17')
	for i = 1, #holders do
		joins = joins and string.byte(holders[i]) == 82
	end
	if joins then
		local deadline, token = now + lease, tonumber(known[1])
		local ends = math.max(deadline, math.ceil(token / 1000))
		redis.call('ZADD', key, string.format('%d', deadline), hold)
		redis.call('PEXPIREAT', key, string.format('%d', ends + keep), 'GT')
		return { 'granted', us, attempt, known[1], deadline, 0 }
	end
end

-- One writer holds it, and lives: whoever is new joins at the end of the queue, and there is nothing else to
-- do. What follows below would do the same, with twice as many commands.
local plain = class == 'n' and #ARGV == 4
local holders = plain and redis.call('ZRANGE', key, '0', '(100000000000000', 'BYSCORE', 'LIMIT', '0', '2', 'WITHSCORES')
if plain and #holders == 2 and string.byte(holders[1]) == 87 and tonumber(holders[2]) > now then
	local waiter, place = string.lower(mode) .. attempt, now - 4e15
	local known = redis.call('ZMSCORE', key, '#1', hold, waiter, 'x' .. attempt, 'b' .. attempt)
	if known[1] and not (known[2] or known[3] or known[4] or known[5]) then
		local tail = redis.call('ZRANGE', key, '(0', '-4000000000000000', 'BYSCORE', 'REV', 'LIMIT', '0', '1', 'WITHSCORES')
		if tail[2] then
			place = math.max(place, tonumber(tail[2]) + 1)
		end
		local wait_until = now + wait_lease
		local ends = math.max(wait_until, math.ceil(tonumber(known[1]) / 1000)) + keep
		local until_text = string.format('%d', 1e14 + wait_until)
		redis.call('ZADD', key, string.format('%d', place), waiter, until_text, 'l' .. attempt)
		redis.call('PEXPIREAT', key, string.format('%d', ends), 'GT')
		local holder, counter = string.match(holders[1], '^.([^.]*)%.(.*)$')
		local session, ahead = string.match(attempt, '^[^.]*'), redis.call('ZRANK', key, waiter)
		local head = ahead > 0 and string.match(first, '^.([^.]*)') or session
		-- Who holds it knows already when another session waits. One in its grace, whose name is longer, knows too.
		if session ~= holder and (ahead == 0 or head == holder) and not string.find(counter, '%W') then
			redis.call(channel == '' and 'SPUBLISH' or 'PUBLISH', (channel == '' and key .. ':' or channel) .. holder, 'w ' .. counter)
		end
		return { 'waiting', us, attempt, known[1], tonumber(holders[2]), head ~= session and 2 or 0, ahead, 'W' .. holder }
	end
end

-- @include shared/state.lua
-- @include shared/advance.lua
-- @include shared/broken.lua
-- @include shared/wait.lua

local member, waiter = hold, string.lower(mode) .. attempt
local known = call('ZMSCORE', key, 'x' .. attempt, 'b' .. attempt, member, waiter)
if known[1] then
	return reply('buried')
elseif known[2] then
	return reply_broken(attempt, find_notice(attempt))
elseif known[3] then
	return claim(member, tonumber(known[3]))
elseif known[4] then
	return refresh(waiter, member)
end

for i = 5, #ARGV do
	own[session .. '.' .. ARGV[i]] = true
end

local function holds_any_of_own()
	for id in pairs(own) do
		if score_of('R' .. id) or score_of('W' .. id) then
			return true
		end
	end
	return false
end

-- Re-entry passes the queue: those whom it would wait for may be waiting for its own session.
-- Returns whether it may, and whether it begins a new phase.
local function may_reenter(holders)
	if not next(own) or not holds_any_of_own() then
		return false
	end
	local writers, strangers, strange_writers = 0, 0, 0
	for i = 1, #holders do
		local writes = string.byte(holders[i]) == 87 and 1 or 0
		local strange = own[string.sub(holders[i], 2)] and 0 or 1
		writers, strangers = writers + writes, strangers + strange
		strange_writers = strange_writers + writes * strange
	end
	local room = #holders < BESIDE_WRITER
	if mode == 'R' then
		return strange_writers == 0 and (writers == 0 or room), false
	end
	return strangers == 0 and room, writers == 0
end

-- Whether it can be had now, and whether that begins a new phase.
local function may_take()
	if more then
		return false
	end
	local holders = some_holders()
	held = held_as(holders)
	if not waiting and (held == 'free' or (held == 'R' and mode == 'R')) then
		return true, held == 'free'
	end
	return may_reenter(holders)
end

-- Its place, which also says since when it waits: a clock that has stepped back changes no order.
local function ticket()
	local from, to = '-4000000000000000', '(0'
	if class == 'p' then
		from, to = '-6000000000000000', '(-5000000000000000'
	end
	local tail = call('ZRANGE', key, to, from, 'BYSCORE', 'REV', 'LIMIT', '0', '1', 'WITHSCORES')[2]
	local place = tonumber(from) + now
	return digits(tail and math.max(tonumber(tail) + 1, place) or place)
end

if string.byte(first) == 120 or string.byte(first) == 98 then
	prune() -- tombstones alone: once they are over, the short path serves again
end
advance()
local free, new_phase = may_take()
if free then
	local deadline = now + lease
	call('ZADD', key, digits(deadline), member)
	if new_phase then
		take_token()
	end
	keep_key(deadline)
	return reply('granted', deadline)
elseif class == '-' then
	send_wanted(true) -- it is not there when asked for again
	return reply_blocked('busy', 0)
end
return join(ticket(), waiter)
