-- KEYS lock, {lock}, channel; ARGV most parties to list
-- REPLY lock, us, '0', mode ('', R or W), holders, waiters (unknown: 0), {id, holds, left ms, …}, {}
-- Reads only. Readers that died while others kept the hash alive are passed over.
local name, base, most = KEYS[1], KEYS[2], tonumber(ARGV[1])
local owner = ''
-- @include shared/answer.lua
-- @include shared/rw.lua
local held, refusal = read_mode()
if refusal then
	return refusal
end
local parties, holders = {}, 0
local function add(letter, who, holds, left)
	holders = holders + 1
	if holders <= most then
		local n = #parties
		parties[n + 1], parties[n + 2], parties[n + 3] = letter .. who, holds, left
	end
end
local fields = held and call('HGETALL', name) or {}
for i = 1, #fields, 2 do
	local who, holds = fields[i], fields[i + 1]
	if who ~= 'mode' and not is_count(holds) then
		return strange('a field of this hash is no count of holds')
	elseif held == 'write' and string.sub(who, -6) == ':write' then
		add('W', string.sub(who, 1, -7), holds, time_left(name))
	elseif held == 'read' and who ~= 'mode' then
		local left = reads_left(who, tonumber(holds))
		if left > 0 then
			add('R', who, holds, left)
		end
	end
end
local mode = holders == 0 and '' or held == 'write' and 'W' or 'R'
return { 'lock', us, token, mode, holders, 0, parties, {} }
