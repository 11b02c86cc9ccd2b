-- What the scripts share that end holds. An owner goes with all its holds.
local notes = {}

local function tell(id, what)
	notes[#notes + 1] = id .. what
end

local function free(id, what)
	call('DEL', key)
	mode, writer, size = nil, nil, 0
	tell(id, what)
end

-- The document's results: 3 no lock, 2 not a reader of it, -1 written to; 0 others read on, 1 free. Also
-- whether the hold was alive.
local function remove_reader(id)
	if not mode then
		return 3, false
	elseif mode == 'write' then
		return -1, false
	end
	local holds = reads_of(id)
	if holds == 0 then
		return 2, false
	end
	local alive = life(id, holds) > 0
	call('HDEL', key, id)
	size = size - 1
	for i = 1, holds do
		call('DEL', timeout_key(id, i))
	end
	local left, living, all = look_at_readers(id)
	if size > 1 and (living or not all) then
		if all then
			call('PEXPIRE', key, digits(left))
		end
		return 0, alive
	end
	free(id, '_del_read')
	return 1, alive
end

-- 1 free, -1 another's or nobody's.
local function remove_writer(id)
	if writer ~= id then
		return -1, false
	end
	free(id, '_del_write')
	return 1, true
end

local function remove(id)
	if writer == id then
		return remove_writer(id)
	end
	return remove_reader(id)
end

-- A late copy of a request of such an owner must not come to life.
local function bury(id, ms)
	remove(id)
	if marked == id then
		call('DEL', mark)
		marked = false
	end
	call('SET', graves .. id, '1', 'PX', ms)
end

local function publish()
	for i = 1, #notes do
		call('PUBLISH', channel, notes[i])
	end
end
