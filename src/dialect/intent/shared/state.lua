-- The lock as it stands, checked before anything is written: mode, who writes, whose mark keeps new readers
-- out. Of a lock with few fields every one is looked at; of a larger one those that have names.
local call = redis.call
local clock = call('TIME')
local us = clock[1] * 1000000 + clock[2]
local MANY, SOME, DEEP = 64, 16, 64
local mark, graves, channel = prefix .. ':wait_write', prefix .. ':sneck_buried:', KEYS[3]

local function digits(number)
	return string.format('%d', number)
end

local function count(text)
	return text and #text <= 15 and string.match(text, '^[1-9]%d*$') and tonumber(text) or nil
end

local size = call('HLEN', key)
local mode, writer = nil, nil

-- A mode and owners with counts; in write mode one, with the count 1. Fields of other layouts that would
-- look like owners are known by their names.
local function owners_fit()
	local fields = call('HGETALL', key)
	for i = 1, #fields, 2 do
		local name = fields[i]
		if name ~= 'mode' then
			if not count(fields[i + 1]) or string.sub(name, -6) == ':write' then
				return false
			elseif mode == 'write' then
				if size ~= 2 or fields[i + 1] ~= '1' then
					return false
				end
				writer = name
			end
		end
	end
	return true
end

local function fits()
	local known = call('HMGET', key, 'mode', 'rcount', 'writer', 'wcount')
	mode = known[1]
	if (mode ~= 'read' and mode ~= 'write') or known[2] or known[3] or known[4] then
		return false
	elseif mode == 'write' and size ~= 2 then
		return false
	end
	return size > 1 and (size > MANY or owners_fit())
end

if size > 0 and not fits() then
	return redis.error_reply('WRONGTYPE this hash is not a lock of the intent layout')
end
local ttl = size > 0 and call('PTTL', key) or -2
local marked = call('GET', mark)

local function timeout_key(id, i)
	return prefix .. ':' .. id .. ':rwlock_timeout:' .. digits(i)
end

-- Read holds of that owner; 0: none.
local function reads_of(id)
	return mode == 'read' and count(call('HGET', key, id)) or 0
end

-- What the longest of an owner's read holds has left; 0: it is dead. Who has more holds than are looked at
-- counts as alive for as long as the lock is.
local function life(id, holds)
	local left = 0
	for i = holds, math.max(holds - DEEP + 1, 1), -1 do
		left = math.max(left, call('PTTL', timeout_key(id, i)))
	end
	if left == 0 and holds > DEEP then
		return math.max(ttl, 1)
	end
	return left
end
