-- Remove an owner from the hash with all its holds. Expects shared/rw.lua, and what to publish with in ARGV[1].

local function drop_timeouts(who, from, count)
	for number = from, math.min(count, from + HOLDS - 1) do -- what is beyond ends by itself
		call('DEL', timeout_key(who, number))
	end
end

-- Whether it had reads, and whether it had writes.
local function remove_owner(who)
	local reads, writes = call('HGET', name, who), call('HGET', name, who .. ':write')
	call('HDEL', name, who, who .. ':write')
	if reads then
		drop_timeouts(who, 1, tonumber(reads) or 0)
	end
	return reads, writes
end

-- How long the longest of the others reads; nil: there are too many, or too many holds, to look at.
local function others_left()
	local owners = call('HLEN', name) - 1 <= LOOK and some_owners(LOOK)
	if not owners then
		return nil
	end
	local longest = 0
	for _, other in ipairs(owners) do
		if other[2] > HOLDS then
			return nil
		end
		longest = math.max(longest, reads_left(other[1], other[2]))
	end
	return longest
end

-- After holds were removed: `mode` is what the lock had before. True: it is free.
local function settle(mode, channel, wrote)
	local free = call('HLEN', name) <= 1
	if not free and mode == 'read' then
		local longest = others_left()
		free = longest == 0
		if longest and longest > 0 then
			call('PEXPIRE', name, string.format('%d', longest))
		end
	elseif not free and wrote then -- readers stay behind the writer
		call('HSET', name, 'mode', 'read')
		call(ARGV[1], channel, '1')
	end
	if free then
		call('DEL', name)
		call(ARGV[1], channel, mode == 'write' and '1' or '0')
	end
	return free
end
