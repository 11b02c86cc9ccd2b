-- KEYS lock; ARGV hold id (mode R|W, attempt), 'keep ms, bury ms, channel prefix'; if any of it is asked for: last token used (0: none), shrink (0|1), counters to bury…
-- REPLY hold id: done, nobody else is there. Or: done|gone, us, attempt, token, 0, flags; broken: … reason, ms that it is kept
local key, hold = KEYS[1], ARGV[1]
-- First a command that works when memory is full; after it all others do.
local removed = redis.call('ZREM', key, hold)
local place = redis.call('ZRANK', key, '#1')

-- Nothing but the release was asked, and nobody else is there: such a release costs no more than this.
if removed == 1 and place == 0 and #ARGV == 2 then
	return hold
end

-- @include shared/now.lua
local mode, attempt = string.match(hold, '^(.)(.*)$')
local first = redis.call('ZRANGE', key, '0', '1', 'WITHSCORES')

-- The same where other readers hold on, all of them alive, and nobody waits.
if removed == 1 and place and #ARGV == 2 and mode == 'R' and string.byte(first[1]) == 82 and tonumber(first[2]) > now then
	return { 'done', us, attempt, redis.call('ZSCORE', key, '#1'), 0, 0 }
end

local keep, bury_ms, channel = string.match(ARGV[2], '^(%d+) (%d+) (.*)$')
local used, shrink = tonumber(ARGV[3] or '0'), ARGV[4] == '1'

-- The writer who held it alone gives it to the next in line, a writer too: the way of a lock that many want.
-- What follows below would do the same, with twice as many commands.
if removed == 1 and mode == 'W' and not shrink and #ARGV <= 4 and string.byte(first[1] or '') == 119 then
	local id = string.sub(first[1], 2)
	local known = redis.call('ZMSCORE', key, '#1', 'l' .. id)
	local last, lease_end = tonumber(known[1]), (tonumber(known[2]) or 0) - 1e14
	if last and lease_end > now and not redis.call('ZRANGE', key, '0', '(100000000000000', 'BYSCORE', 'LIMIT', '0', '1')[1] then
		local token = math.max(last + 1, used + 1, us)
		local text, to, counter = string.format('%d', token), string.match(id, '^([^.]*)%.(.*)$')
		local ends = math.max(lease_end, math.ceil(token / 1000)) + keep
		redis.call('ZREM', key, first[1], 'l' .. id)
		redis.call('ZADD', key, text, '#1', string.format('%d', lease_end), 'W' .. id)
		redis.call('PEXPIREAT', key, string.format('%d', ends), 'GT')
		local next_to = first[3] and tonumber(first[4]) < 0 and string.match(first[3], '^.([^.]*)')
		local note = string.format('g %s %s %d %d %d', counter, text, lease_end, us, next_to and next_to ~= to and 1 or 0)
		redis.call(channel == '' and 'SPUBLISH' or 'PUBLISH', (channel == '' and key .. ':' or channel) .. to, note)
		local wanted = next_to and next_to ~= string.match(attempt, '^[^.]*')
		return { 'done', us, attempt, text, 0, wanted and 2 or 0 }
	end
end

-- @include shared/state.lua
-- @include shared/advance.lua
-- @include shared/broken.lua
-- @include shared/bury.lua

local status, reason = 'done', nil
if removed == 0 then
	local notice = last and find_notice(attempt)
	status = notice and 'broken' or 'gone'
	if notice then
		reason = string.sub(notice, #attempt + 3)
		drop_hold(hold .. '!')
		call('ZREM', key, 'b' .. attempt, notice)
	end
end
bury(5, bury_ms)
if not last then
	return reply(status)
end
raise_token(used)
if removed == 1 and mode == 'W' then
	held = writer_left()
end

-- Anybody waits, or the first holder is dead. Else other readers hold on, and there is no more to do.
if tonumber(call('ZRANGE', key, '0', '0', 'WITHSCORES')[2]) <= now then
	advance()
end

-- The end of a range of deadlines, or 0.
local function latest(base, to)
	local top = call('ZRANGE', key, to, digits(base), 'BYSCORE', 'REV', 'LIMIT', '0', '1', 'WITHSCORES')[2]
	return top and tonumber(top) - base or 0
end

if shrink and tonumber(call('ZRANGE', key, '0', '0', 'WITHSCORES')[2]) >= GRAVE then
	local ends = math.max(now, math.ceil(last / 1000))
	ends = math.max(ends, latest(GRAVE, '(300000000000000'), latest(BROKEN, '(400000000000000'))
	call('PEXPIREAT', key, digits(ends + keep))
end
local answer = reply(status)
if reason then
	answer[7], answer[8] = reason, 0
end
return answer
