-- The hash of RReadWriteLock: `mode` (read or write), a count of reads per owner, and of writes under
-- `<owner>:write`. A read hold lives as long as its key {name}:<owner>:rwlock_timeout:<n>; the hash outlives
-- them all. Expects shared/answer.lua and `name`.
local LOOK = 16 -- fields of others that a release looks at
local HOLDS = 256 -- holds of one owner that are looked at one by one

local function timeout_key(who, number)
	return string.format('%s:%s:rwlock_timeout:%d', base, who, number)
end

-- How long the reads of an owner last: 0, not at all. Of more than HOLDS nothing is known but that some
-- may live.
local function reads_left(who, count)
	local longest = count > HOLDS and 1 or 0
	for number = count, math.max(1, count - HOLDS + 1), -1 do
		longest = math.max(longest, call('PTTL', timeout_key(who, number)))
	end
	return longest
end

-- Some owners beside the mode, with their counts; a field of another layout is an error.
local function some_owners(most)
	local owners, found = {}, call('HRANDFIELD', name, most + 1, 'WITHVALUES')
	for i = 1, #found, 2 do
		if found[i] ~= 'mode' then
			if not is_count(found[i + 1]) then
				return nil, strange('a field of this hash is no count of holds')
			end
			owners[#owners + 1] = { found[i], tonumber(found[i + 1]) }
		end
	end
	return owners
end

-- The mode, or nil for a free lock, and an error for what is no read-write lock.
local function read_mode()
	local mode = call('HGET', name, 'mode')
	if mode == 'read' or mode == 'write' then
		return mode
	elseif mode or call('EXISTS', name) == 1 then
		return nil, strange('this hash is no read-write lock of Redisson: a mutex, or another program\'s')
	end
	return nil
end

-- Let the hash last at least this long; how long it does.
local function keep_hash(ms)
	local left = call('PTTL', name)
	if left < ms then
		call('PEXPIRE', name, string.format('%d', ms))
		left = ms
	end
	return left
end

-- Let each read hold of an owner last at least this long; those that are not there are made.
local function keep_reads(who, reads, ms)
	local text = string.format('%d', ms)
	for number = 1, reads do
		local key = timeout_key(who, number)
		local left = call('PTTL', key)
		if left == -2 then
			call('SET', key, '1', 'PX', text)
		elseif left < ms then
			call('PEXPIRE', key, text)
		end
	end
end
