-- KEYS lock, what graves begin with, channel, mark of the waiting upgrader; ARGV owner that will write, lease ms, waits (0|1), owner that reads, waiter lease ms, own owners…
-- REPLY granted|waiting|busy|deadlock|buried|gone, us, owner, 0, ms left, who stands in the way, 1 or 0 and ms left
local key, graves, mark = KEYS[1], KEYS[2], KEYS[4]
local owner, lease, waits, old, wait_lease = ARGV[1], tonumber(ARGV[2]), ARGV[3] == '1', ARGV[4], ARGV[5]
-- @include shared/state.lua
-- @include shared/take.lua

if is_buried() then
	return answer('buried', 0)
elseif writer == owner then
	return answer('granted', lengthen())
end
local reads = reads_of(old)
if reads == 0 then
	return answer('gone', 0)
end

-- The mark is sneck's own: two that read and both wait to write would wait for each other.
local marked = call('GET', mark)
if mode == 'read' and reads + reads_of_own(6) == rcount then
	call('HDEL', key, 'r:' .. old)
	call('HSET', key, 'mode', 'write', 'writer', owner, 'wcount', '1', 'r:' .. owner, digits(reads))
	if marked == owner then
		call('DEL', mark)
	end
	return answer('granted', lengthen())
elseif waits and marked and marked ~= owner then
	return answer('deadlock', 0, 'R' .. marked)
elseif waits then
	call('SET', mark, owner, 'PX', wait_lease)
end
if some_reader == old then
	some_reader = nil
end
return refused()
