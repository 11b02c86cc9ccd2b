-- KEYS lock, {lock}, channel, counter of tokens (fenced) or queue, timeouts (fair); ARGV PUBLISH|SPUBLISH, owner, mode (W), lease ms, reads (0), writes
-- REPLY granted|gone, us, owner, token, left ms, '', '1' or '0'
-- Never creates and never shortens. Redisson's own renewal does shorten; a later one of ours mends that.
local name, base, counter = KEYS[1], KEYS[2], #KEYS == 4 and KEYS[4]
local owner, lease, holds = ARGV[2], tonumber(ARGV[4]), ARGV[6]
-- @include shared/answer.lua
-- @include shared/mutex.lua
local had = call('HGET', name, owner)
token = read_token(counter) or '0'
if not had then
	return answer('gone', 0, '', '0')
elseif not is_count(had) then
	return strange('the count of holds is no positive number')
end
local left = lengthen(lease)
if had ~= holds then
	call('HSET', name, owner, holds)
end
return answer('granted', left, '', '1')
