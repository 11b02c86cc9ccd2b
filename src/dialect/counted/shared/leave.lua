-- What the scripts share that end holds. An owner goes with all its counts.
local removed, was_written = false, writer ~= nil

local function remove(id)
	local reads = reads_of(id)
	-- Always: it works when memory is full, and after it everything does.
	call('HDEL', key, 'r:' .. id)
	if writer == id then
		call('HDEL', key, 'writer', 'wcount')
		writer = nil
	elseif reads == 0 then
		return false
	end
	rcount = rcount - reads
	removed = true
	return true
end

-- Read mode when readers stay, no rcount when none do, no key when nobody does. The document knows no
-- message; this one is for those who understand it. It comes when somebody else may have a turn: the last
-- of the readers that are left may wait to write.
local function settle()
	if not removed then
		return
	end
	local tell = true
	if writer then
		if rcount <= 0 then
			call('HDEL', key, 'rcount')
		else
			call('HSET', key, 'rcount', digits(rcount))
		end
		tell = false
	elseif rcount <= 0 then
		call('DEL', key)
	else
		call('HSET', key, 'mode', 'read', 'rcount', digits(rcount))
		tell = was_written or call('HLEN', key) == 3
	end
	if tell then
		call('PUBLISH', channel, 'free')
	end
end

-- A late copy of a request of such an owner must not come to life.
local function bury(id, ms)
	remove(id)
	call('SET', graves .. ':' .. id, '1', 'PX', ms)
end
