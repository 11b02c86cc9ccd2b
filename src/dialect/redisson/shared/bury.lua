-- Bury the owners ARGV[first] and after for ARGV[first - 1] milliseconds; `remove` ends what they hold.
-- Expects shared/answer.lua.
local function bury(first, remove)
	for i = first, #ARGV do
		remove(ARGV[i])
		call('SET', base .. ':sneck_buried:' .. ARGV[i], '1', 'PX', ARGV[first - 1])
	end
end
