-- KEYS lock, what graves begin with, channel, mark of the waiting upgrader; ARGV owner, bury ms, owner that reads ('' unless an upgrade), owners to bury…
-- REPLY done|gone, us, owner, 0, 1 if it had been granted (an upgrade keeps it), '', ''
local key, graves, channel, mark = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local owner, old = ARGV[1], ARGV[3]
-- @include shared/state.lua
-- @include shared/leave.lua

local granted, word = false, 'done'
if old == '' then
	granted = remove(owner)
else
	granted = writer == owner
	if not granted and reads_of(old) == 0 then
		word = 'gone'
	end
	call('HDEL', key, 'r:') -- no such field: after this write others work when memory is full
end
if call('GET', mark) == owner then
	call('DEL', mark)
end
for i = 4, #ARGV do
	-- An upgrade that was granted is kept, and buried when it is given back.
	if not (granted and old ~= '' and ARGV[i] == owner) then
		bury(ARGV[i], ARGV[2])
	end
end
settle()
return { word, us, owner, '0', granted and 1 or 0, '', '' }
