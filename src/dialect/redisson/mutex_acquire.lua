-- KEYS lock, {lock}, channel, counter of tokens (fenced; else none); ARGV PUBLISH|SPUBLISH, owner, mode (W), lease ms, queue (0|1)
-- REPLY granted|waiting|busy|buried, us, owner, token, left ms, holder, 'nil' or the time left
local name, base, counter = KEYS[1], KEYS[2], KEYS[4]
local owner, lease, queue = ARGV[2], ARGV[4], ARGV[5] == '1'
-- @include shared/answer.lua
-- @include shared/mutex.lua
local holder, refusal = read_mutex()
token = read_token(counter)
if refusal or not token then
	return refusal or strange('the counter of tokens beside this lock is no number')
elseif is_buried(owner) then
	return answer('buried')
elseif holder == owner then -- the same request once more: nobody else has taken a token since
	return answer('granted', lengthen(tonumber(lease)), '', 'nil')
elseif holder then
	local left = call('PTTL', name)
	return answer(queue and 'waiting' or 'busy', math.max(left, 0), 'W' .. holder, tostring(left))
end
call('HSET', name, owner, '1')
call('PEXPIRE', name, lease)
if counter then
	token = string.format('%d', call('INCR', counter))
end
return answer('granted', tonumber(lease), '', 'nil')
