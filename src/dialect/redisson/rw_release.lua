-- KEYS lock, {lock}, channel; ARGV PUBLISH|SPUBLISH, owner, mode (R|W), what (release|cancel), bury ms, owners to bury…
-- REPLY done|gone, us, owner, '0', 1 (cancel: it had been granted) or 0, '', '1', '0' or 'nil'
local name, base, channel = KEYS[1], KEYS[2], KEYS[3]
local owner, cancel = ARGV[2], ARGV[4] == 'cancel'
-- @include shared/answer.lua
-- @include shared/rw.lua
-- @include shared/rw_remove.lua
-- @include shared/bury.lua
local mode, refusal = read_mode()
if refusal then
	return refusal
end
-- A read hold that died while others kept the hash alive is still in it, but was lost.
local count = tonumber((call('HGET', name, owner))) or 0
local reading = ARGV[3] == 'R' and reads_left(owner, count) > 0
-- The first command that writes is one that works when memory is full; after it all others do.
local reads, writes = remove_owner(owner)
local alive = writes or reading
local any, wrote = reads or writes, writes
bury(6, function(who)
	local some_reads, some_writes = remove_owner(who)
	any, wrote = any or some_reads or some_writes, wrote or some_writes
end)
local free = any and settle(mode, channel, wrote)
if alive then
	return answer('done', cancel and 1 or 0, '', (free or writes) and '1' or '0')
end
return answer(cancel and 'done' or 'gone', 0, '', 'nil')
