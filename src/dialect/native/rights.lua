-- KEYS lock, or in a cluster none; ARGV words of a command, word, word…, words of the next, …
-- REPLY numbers, from 1, of the commands that this user may not call
-- Reads only. The server's own check, keys and channels included; nothing is called.
local denied, at, number = {}, 1, 0
while at <= #ARGV do
	local words = tonumber(ARGV[at])
	local known, allowed = pcall(redis.acl_check_cmd, unpack(ARGV, at + 1, at + words))
	number = number + 1
	if not (known and allowed) then
		denied[#denied + 1] = number
	end
	at = at + words + 1
end
return denied
