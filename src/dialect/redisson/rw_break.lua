-- KEYS lock, {lock}, channel; ARGV PUBLISH|SPUBLISH, owner to remove
-- REPLY done|gone
-- That owner alone, unlike Redisson's forceUnlock. The victim learns it from its next renewal.
local name, base, channel = KEYS[1], KEYS[2], KEYS[3]
local owner = ARGV[2]
-- @include shared/answer.lua
-- @include shared/rw.lua
-- @include shared/rw_remove.lua
local mode, refusal = read_mode()
if refusal then
	return refusal
elseif owner == 'mode' then
	return 'gone'
end
local reads, writes = remove_owner(owner)
if not (reads or writes) then
	return 'gone'
end
settle(mode, channel, writes)
return 'done'
