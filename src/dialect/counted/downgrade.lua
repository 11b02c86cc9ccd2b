-- KEYS lock, what graves begin with, channel; ARGV owner that will read, lease ms, owner that writes, holds
-- REPLY granted|buried|gone, us, owner, 0, ms left, '', 1 or 0 and ms left
local key, graves, channel = KEYS[1], KEYS[2], KEYS[3]
local owner, lease, old, holds = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local waits = false
-- @include shared/state.lua
-- @include shared/take.lua

if is_buried() then
	return answer('buried', 0)
elseif reads_of(owner) > 0 then
	return answer('granted', lengthen())
elseif not writer or writer ~= old then
	return answer('gone', 0)
end
rcount = rcount - reads_of(old) + holds
call('HDEL', key, 'writer', 'wcount', 'r:' .. old) -- first, because it works when memory is full
call('HSET', key, 'mode', 'read', 'rcount', digits(rcount), 'r:' .. owner, digits(holds))
local left = lengthen()
call('PUBLISH', channel, 'free')
return answer('granted', left)
