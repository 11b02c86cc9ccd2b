-- KEYS lock, prefix of what lies beside it, channel; ARGV owner, mode (R|W), lease ms, ms that the mark of a waiting writer lasts (0: does not wait), holds
-- REPLY granted|waiting|busy|gone|buried, us, owner, 0, ms left, who stands in the way, the document's result
local key, prefix = KEYS[1], KEYS[2]
local owner, wants, lease, wait_lease, holds = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
-- @include shared/state.lua
-- @include shared/readers.lua

local function answer(word, left, verdict, holder)
	return { word, us, owner, '0', left, holder or '', verdict }
end

local function lengthen()
	local left = math.max(ttl, lease)
	call('PEXPIRE', key, digits(left))
	return left
end

local function refused(verdict, holder)
	local left = mode and ttl or call('PTTL', mark)
	return answer(wait_lease > 0 and 'waiting' or 'busy', math.max(left, 0), verdict, holder)
end

local function one_reader()
	local field = mode == 'read' and call('HRANDFIELD', key, '2') or {}
	return field[1] and 'R' .. (field[1] ~= 'mode' and field[1] or field[2] or '')
end

if call('EXISTS', graves .. owner) == 1 then
	return answer('buried', 0, '')
end

-- Asked again: it has what it was given, or had it.
if writer == owner then
	return answer('granted', lengthen(), 'OK')
end
local had = reads_of(owner)
if had > 0 then
	local left = life(owner, had)
	if left == 0 then
		return answer('gone', 0, digits(ttl))
	end
	lengthen()
	for i = 1, had do
		call('SET', timeout_key(owner, i), '1', 'PX', digits(math.max(left, lease)))
	end
	return answer('granted', math.max(left, lease), 'OK')
end

if wants == 'R' then
	if marked then
		return refused(digits(ttl), 'W' .. marked)
	elseif mode == 'write' then
		return refused(digits(ttl), 'W' .. writer)
	end
	call('HSET', key, 'mode', 'read', owner, digits(holds))
	for i = 1, holds do
		call('SET', timeout_key(owner, i), '1', 'PX', digits(lease))
	end
	lengthen()
	return answer('granted', lease, 'OK')
end

if mode == 'read' then
	local _, living, all = look_at_readers()
	if all and not living then
		call('DEL', key)
		mode, ttl = nil, -2
	end
end
if not mode then
	if marked and marked ~= owner then
		return refused('-1', 'W' .. marked)
	end
	call('HSET', key, 'mode', 'write', owner, '1')
	call('PEXPIRE', key, digits(lease))
	if marked then
		call('DEL', mark)
	end
	return answer('granted', lease, 'OK')
elseif mode == 'write' then
	return refused('2', 'W' .. writer)
elseif marked == owner then
	call('PEXPIRE', mark, digits(math.max(wait_lease, 1)))
	return refused('2', one_reader())
elseif marked or wait_lease == 0 then -- who does not wait keeps nobody out
	return refused('2', one_reader())
end
call('SET', mark, owner, 'PX', digits(wait_lease))
return refused('1', one_reader())
