-- What the scripts share that take the lock or lengthen it.
local function is_buried()
	return call('EXISTS', graves .. ':' .. owner) == 1
end

local function answer(word, left, holder)
	local won = word == 'granted' and '1 ' or '0 '
	return { word, us, owner, '0', left, holder or '', won .. digits(left) }
end

-- One expiry for all: it is never made shorter, for then it would be another's that is cut.
local function lengthen()
	local left = math.max(ttl, lease)
	call('PEXPIRE', key, digits(left))
	return left
end

local function refused()
	local holder = writer and 'W' .. writer or some_reader and 'R' .. some_reader
	return answer(waits and 'waiting' or 'busy', math.max(ttl, 0), holder)
end

-- Other owners of the asking session, who do not stand in its way: are the readers none but these?
local function reads_of_own(from)
	local sum = 0
	for i = from, #ARGV do
		sum = sum + reads_of(ARGV[i])
	end
	return sum
end
