-- KEYS lock, {lock}, channel; ARGV PUBLISH|SPUBLISH, owner, mode (R|W), lease ms, queue (0|1)
-- REPLY granted|waiting|busy|gone|buried, us, owner, '0', left ms, holder, 'nil' or the time left
local name, base = KEYS[1], KEYS[2]
local owner, mode, lease, queue = ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5] == '1'
-- @include shared/answer.lua
-- @include shared/rw.lua

local held, refusal = read_mode()
local owners = {}
if held then
	owners, refusal = some_owners(LOOK)
end
if refusal then
	return refusal
elseif is_buried(owner) then
	return answer('buried')
end

-- The same request once more: the hold is there, or has died.
local own = call('HGET', name, mode == 'W' and owner .. ':write' or owner)
if own and mode == 'W' then
	return answer('granted', keep_hash(lease), '', 'nil')
elseif own then
	local left = reads_left(owner, tonumber(own))
	if left == 0 then
		return answer('gone')
	end
	left = math.max(left, lease)
	keep_hash(left)
	keep_reads(owner, tonumber(own), left)
	return answer('granted', left, '', 'nil')
end

-- Readers that died while others kept the hash alive are still in it. Who wants to write looks until it
-- finds one that lives; usually that is the first.
local function all_dead()
	local cursor = '0'
	repeat
		local page = call('HSCAN', name, cursor, 'COUNT', '64')
		cursor = page[1]
		for i = 1, #page[2], 2 do
			local count = tonumber(page[2][i + 1])
			if page[2][i] ~= 'mode' and (not count or reads_left(page[2][i], count) > 0) then
				return false
			end
		end
	until cursor == '0'
	return true
end

local take = not held or (held == 'read' and mode == 'R')
if not take and held == 'read' and all_dead() then
	call('DEL', name)
	held, take = nil, true
end
if not take then
	local who, letter = owners[1] and owners[1][1] or '', held == 'read' and 'R' or 'W'
	for _, other in ipairs(owners) do
		if held == 'write' and string.sub(other[1], -6) == ':write' then
			who = string.sub(other[1], 1, -7)
		end
	end
	local left = call('PTTL', name)
	return answer(queue and 'waiting' or 'busy', math.max(left, 0), letter .. who, tostring(left))
end
if mode == 'W' then
	call('HSET', name, 'mode', 'write', owner .. ':write', '1')
else
	call('HSET', name, 'mode', 'read', owner, '1')
	call('SET', timeout_key(owner, 1), '1', 'PX', ARGV[4])
end
keep_hash(lease)
return answer('granted', lease, '', 'nil')
