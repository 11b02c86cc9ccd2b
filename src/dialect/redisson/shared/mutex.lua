-- The hash of RLock and those like it: one field, its owner, with the count of holds.
-- Expects shared/answer.lua and `name`.
local function read_mutex()
	local fields = call('HLEN', name)
	if fields == 0 then
		return nil
	end
	local found = fields == 1 and call('HGETALL', name) or {}
	if found[1] == 'mode' or not is_count(found[2]) then
		return nil, strange('this hash is no mutex of Redisson: a read-write lock, or another program\'s')
	end
	return found[1]
end

-- Let it last at least `lease` from now; how long it does.
local function lengthen(lease)
	local left = call('PTTL', name)
	if left < lease then
		call('PEXPIRE', name, string.format('%d', lease))
		left = lease
	end
	return left
end

-- A fenced lock's counter, as it stands; nil: it is no number.
local function read_token(counter)
	local last = counter and call('GET', counter) or '0'
	return string.match(last, '^%d+$') and #last <= 15 and last or nil
end
