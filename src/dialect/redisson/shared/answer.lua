-- The answer's form and the server's clock, read once per run. Expects `owner` and `base` ({name}).
local call = redis.call
local clock = call('TIME')
local us = clock[1] * 1000000 + clock[2]
local token = '0'

local function answer(word, left, holder, verdict)
	return { word, us, owner, token, left or 0, holder or '', verdict or '' }
end

-- Time as the scripts answer it: what has no end, or is not there, is 0.
local function time_left(key)
	return math.max(call('PTTL', key), 0)
end

-- A count of holds: whole, positive, and one that Lua can hold.
local function is_count(text)
	return text and #text <= 15 and string.match(text, '^[1-9]%d*$') ~= nil
end

local function strange(what)
	return redis.error_reply('WRONGTYPE ' .. what)
end

-- A private key beside the lock, which Redisson neither reads nor writes: this owner must not come to life.
local function is_buried(who)
	return call('EXISTS', base .. ':sneck_buried:' .. who) == 1
end
