-- KEYS lock, {lock}, channel, counter of tokens (fenced; else none); ARGV most parties to list
-- REPLY lock, us, token, mode ('' or W), holders, waiters, {id, holds, left ms}, {}
-- Reads only.
local name, base, counter = KEYS[1], KEYS[2], KEYS[4]
local owner = ''
-- @include shared/answer.lua
-- @include shared/mutex.lua
local holder, refusal = read_mutex()
token = read_token(counter)
if refusal or not token then
	return refusal or strange('the counter of tokens beside this lock is no number')
elseif not holder then
	return { 'lock', us, token, '', 0, 0, {}, {} }
end
return { 'lock', us, token, 'W', 1, 0, { 'W' .. holder, call('HGET', name, holder), time_left(name) }, {} }
