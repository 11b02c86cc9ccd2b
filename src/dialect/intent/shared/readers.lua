-- Readers that died leave their fields behind, and the hash would grow for as long as others come. Whoever
-- has to look anyway removes those it finds, a few at a time.
-- Gives what the living have left, one of them, and whether these are all there are.
local function look_at_readers(except)
	local left, living, all = 0, nil, size - 1 <= SOME
	local fields = all and call('HKEYS', key) or call('HRANDFIELD', key, SOME)
	for i = 1, #fields do
		local id = fields[i]
		if id ~= 'mode' and id ~= except then
			local holds = reads_of(id)
			local its = holds > 0 and life(id, holds) or 0
			if its > 0 then
				left, living = math.max(left, its), id
			else
				call('HDEL', key, id)
				size = size - 1
			end
		end
	end
	return left, living, all
end
