-- KEYS lock; ARGV attempt (echoed only), keep ms, channel prefix, id of the hold or wait, grace ms, notice ms, reason
-- REPLY done|gone, us, attempt, token, until when it is kept at most (0: it is gone), flags
local key, attempt, keep, channel = KEYS[1], ARGV[1], tonumber(ARGV[2]), ARGV[3]
local id, grace, notice_ms, reason = ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6]), ARGV[7]
-- @include shared/now.lua
-- @include shared/state.lua
-- @include shared/advance.lua

local kind, victim = string.sub(id, 1, 1), string.sub(id, 2)
local holds = kind == 'R' or kind == 'W'

-- Its member, and until when it counts on the lock: nil when it is not there (any more). A hold in its
-- grace has a `!` behind its name, so that nothing the victim sends can mean it.
local function find()
	if kind == 'u' then
		local upgrader = call('ZRANGE', key, UPGRADER, UPGRADER_END, 'BYSCORE', 'LIMIT', '0', '1')[1]
		if upgrader and string.sub(upgrader, 2, #id + 1) == victim .. '.' then
			return upgrader, now
		end
	elseif kind == 'r' or kind == 'w' then
		return score_of(id) and id, now
	elseif holds then
		for _, member in ipairs({ id, id .. '!' }) do
			local ends = score_of(member)
			if ends and ends > now then
				return member, ends
			end
		end
	end
end

local member, ends = nil, nil
if last then
	member, ends = find()
	if not member then
		advance()
	end
end
if not member then
	return reply('gone')
end

-- So that the victim hears who and why: at once, if it listens, or with the next thing it sends.
local function leave_notice()
	local keep_until = math.max(ends, now + notice_ms)
	prune()
	call('ZADD', key, digits(BROKEN + keep_until), 'b' .. victim)
	call('ZADD', key, digits(REASON + keep_until), 'm' .. victim .. ' ' .. reason)
	keep_key(keep_until)
end

local kept = 0

-- Also when a grace is cut short: whoever counts on it must stop sooner.
local function send_broken()
	local to, counter = string.match(victim, '^([^.]*)%.(.*)$')
	notes[#notes + 1] = channel .. to
	notes[#notes + 1] = string.format('b %s %d', counter, math.max(kept - now, 0))
end

call('ZREM', key, member) -- first, because it works when memory is full
if not holds then
	call('ZREM', key, 'l' .. string.sub(member, 2))
elseif grace > 0 then
	kept = math.min(ends, now + grace)
	call('ZADD', key, digits(kept), id .. '!')
end
send_broken()
if member ~= id .. '!' then
	leave_notice()
	if kind == 'W' then
		raise_token(1000 * ends) -- a writer may use the numbers up to there without asking
	end
end
if kind == 'W' and kept == 0 then
	writer_left()
end
advance()
return reply('done', kept)
