-- What every slow path knows and does. Expects: key, attempt, keep, channel, us, now.
local call = redis.call

-- Scores of the kinds, each offset by a deadline in milliseconds: holders below WAIT_LEASE.
local WAIT_LEASE, GRAVE, BROKEN, REASON = 1e14, 2e14, 3e14, 4e14
local HOLDERS_END = '(100000000000000'
local UPGRADER, UPGRADER_END = '-8000000000000000', '(-6000000000000000'
-- A writer shares the lock with at most this many holders, all let in by its own session. So one
-- look at this many and one more tells whether a writer is among the holders.
local BESIDE_WRITER = 16

-- In a cluster messages stay in the lock's slot.
local publish = 'PUBLISH'
if channel == '' then
	channel, publish = key .. ':', 'SPUBLISH'
end
local session = string.match(attempt, '^[^.]*')
local own = {} -- attempts of this session that do not stand in its way
local notes = {} -- messages to send at the very end: channel, text, channel, text
local more, wanted, released = false, false, false
local budget = 64 -- entries that this run may still grant or remove
local last = tonumber((call('ZSCORE', key, '#1')))

if not last and call('EXISTS', key) == 1 then
	return redis.error_reply('SNECKTYPE this sorted set is not a lock of protocol 1')
end

-- Lua prints 14 digits of a number when left to itself.
local function digits(n)
	return string.format('%d', n)
end

local function flags()
	return (more and 1 or 0) + (wanted and 2 or 0) + (released and 4 or 0)
end

-- The last thing of a run: nothing can fail after a message was sent.
local function send_notes()
	for i = 1, #notes, 2 do
		call(publish, notes[i], notes[i + 1])
	end
end

local function reply(status, deadline)
	send_notes()
	return { status, us, attempt, digits(last or 0), deadline or 0, flags() }
end

-- For an answer that names who stands in the way: `who`, or the holder that stays longest.
local function reply_blocked(status, ahead, who)
	local top = call('ZRANGE', key, HOLDERS_END, '0', 'BYSCORE', 'REV', 'LIMIT', '0', '1', 'WITHSCORES')
	who = who or string.match(top[1] or '', '^[^.]*')
	send_notes()
	return { status, us, attempt, digits(last), tonumber(top[2] or 0), flags(), ahead, who }
end

-- The key outlives every deadline in it and its last token.
local function keep_key(deadline)
	local ends = math.max(deadline, math.ceil(last / 1000))
	call('PEXPIREAT', key, digits(ends + keep), 'GT')
end

-- A number that a session has used under its own hold is used up.
local function raise_token(used)
	if used > last then
		last = used
		call('ZADD', key, 'XX', 'GT', digits(last), '#1')
		keep_key(now)
	end
end

local function take_token()
	raise_token(math.max(last + 1, us))
end

local function some_holders()
	return call('ZRANGE', key, '0', HOLDERS_END, 'BYSCORE', 'LIMIT', '0', '17')
end

-- 'free', 'R' (readers only) or 'W' (a writer, alone or beside holders of its session).
local function held_as(holders)
	for i = 1, #holders do
		if string.byte(holders[i]) == 87 then
			return 'W'
		end
	end
	return #holders == 0 and 'free' or 'R'
end

-- Readers who were let in by a writer stay after it: what follows is a phase of its own, else those
-- who join them would share a writer's token. Returns what held_as says.
local function writer_left()
	local left = held_as(some_holders())
	if left == 'R' then
		take_token()
	end
	return left
end

-- A writer that died may have used the numbers up to its deadline without telling, and the clock, which has
-- passed that, may step back.
local function bury_numbers()
	raise_token(us)
end

local function drop_hold(member)
	if call('ZREM', key, member) == 1 and string.byte(member) == 87 then
		bury_numbers()
		writer_left()
	end
end

-- A score as a number, or nil when there is no such member.
local function score_of(member)
	return tonumber((call('ZSCORE', key, member)))
end

-- Tombstones and notices whose time is over.
local function prune()
	for _, base in ipairs({ GRAVE, BROKEN, REASON }) do
		local old = call('ZRANGE', key, digits(base), digits(base + now), 'BYSCORE', 'LIMIT', '0', '64')
		if #old > 0 then
			call('ZREM', key, unpack(old))
		end
	end
end
