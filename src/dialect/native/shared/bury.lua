-- Keep attempts from coming to life. Expects shared/state.lua.

local function bury_one(id, ends)
	drop_hold('W' .. id)
	call('ZREM', key, 'R' .. id, 'w' .. id, 'r' .. id, 'l' .. id)
	local upgrader = call('ZRANGE', key, UPGRADER, UPGRADER_END, 'BYSCORE', 'LIMIT', '0', '1')[1]
	if upgrader and string.sub(upgrader, 2, #id + 2) == id .. '.' then
		call('ZREM', key, upgrader, 'l' .. string.sub(upgrader, 2))
	end
	call('ZADD', key, digits(GRAVE + ends), 'x' .. id)
end

-- Bury the attempts whose counters are ARGV[first] and after, except `spare`. A request that is still
-- under way may find no key at all, so the tombstone makes one.
local function bury(first, bury_ms, spare)
	local ends = now + bury_ms
	if first > #ARGV then
		return
	end
	if last then
		prune()
	else
		last = us
		call('ZADD', key, digits(last), '#1')
		call('PEXPIREAT', key, digits(ends + keep))
	end
	for i = first, #ARGV do
		local id = session .. '.' .. ARGV[i]
		if id ~= spare then
			bury_one(id, ends)
		end
	end
	keep_key(ends)
end
