-- KEYS lock, {lock}, channel, counter of tokens (fenced; else none); ARGV PUBLISH|SPUBLISH, owner, mode (W), what (release|cancel), bury ms, owners to bury…
-- REPLY done|gone, us, owner, token, 1 (cancel: it had been granted) or 0, '', '1' or 'nil'
local name, base, channel = KEYS[1], KEYS[2], KEYS[3]
local owner, cancel = ARGV[2], ARGV[4] == 'cancel'
-- First a command that works when memory is full; after it all others do. It also refuses a key of another
-- type before anything is written.
local removed = redis.call('HDEL', name, owner)
-- @include shared/answer.lua
-- @include shared/mutex.lua
-- @include shared/bury.lua
token = read_token(KEYS[4]) or '0'
local freed = removed
bury(6, function(who)
	freed = freed + call('HDEL', name, who)
end)
if freed > 0 then
	call(ARGV[1], channel, '0')
end
if removed == 1 then
	return answer('done', cancel and 1 or 0, '', '1')
end
return answer(cancel and 'done' or 'gone', 0, '', 'nil')
