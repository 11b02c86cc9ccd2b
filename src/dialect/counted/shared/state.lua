-- The lock as it stands, checked before anything is written: mode, rcount, writer, wcount, and how long it
-- lasts. Of a lock with few fields every one is looked at; of a larger one those that have names, and
-- whether the readers can be as many as there are fields.
local call = redis.call
local clock = call('TIME')
local us = clock[1] * 1000000 + clock[2]
local MANY = 64

local function digits(number)
	return string.format('%d', number)
end

local function count(text)
	return text and #text <= 15 and string.match(text, '^%d+$') and tonumber(text) or nil
end

local size = call('HLEN', key)
local mode, rcount, writer, wcount, some_reader = nil, 0, nil, 0, nil

-- The readers' counts of a small lock add up to rcount.
local function readers_fit()
	local fields, sum = call('HGETALL', key), 0
	for i = 1, #fields, 2 do
		local name = fields[i]
		if string.sub(name, 1, 2) == 'r:' then
			local holds = count(fields[i + 1])
			if not holds or holds == 0 then
				return false
			end
			sum = sum + holds
			some_reader = string.sub(name, 3)
		elseif name ~= 'mode' and name ~= 'rcount' and name ~= 'writer' and name ~= 'wcount' then
			return false
		end
	end
	return sum == rcount
end

local function fits()
	local known = call('HMGET', key, 'mode', 'rcount', 'writer', 'wcount')
	local named = 0
	for i = 1, 4 do
		named = named + (known[i] and 1 or 0)
	end
	mode, writer = known[1] or nil, known[3] or nil
	rcount = known[2] and count(known[2]) or (not known[2] and 0)
	wcount = known[4] and count(known[4]) or (not known[4] and 0)
	if not rcount or not wcount or size - named > rcount then
		return false
	elseif mode == 'read' then
		if writer or known[4] or rcount == 0 then
			return false
		end
	elseif mode ~= 'write' or not writer or wcount == 0 then
		return false
	end
	return size > MANY or readers_fit()
end

if size > 0 and not fits() then
	return redis.error_reply('WRONGTYPE this hash is not a lock of the counted layout')
end
local ttl = size > 0 and call('PTTL', key) or -2

local function reads_of(id)
	return size > 0 and tonumber(call('HGET', key, 'r:' .. id) or 0) or 0
end
