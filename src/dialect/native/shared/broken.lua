-- Attempts that an operator has broken. Expects shared/advance.lua.

-- The notice of `id`: nil when there is none, else the member that holds its text ('' if that is gone).
local function find_notice(id)
	local ends = score_of('b' .. id)
	if not ends then
		return nil
	end
	local at = digits(ends - BROKEN + REASON)
	for _, member in ipairs(call('ZRANGE', key, at, at, 'BYSCORE', 'LIMIT', '0', '64')) do
		if string.sub(member, 2, #id + 2) == id .. ' ' then
			return member
		end
	end
	return ''
end

-- `deadline`: of what the victim still holds, when only its wait was broken. The notice stays, for this
-- answer may get lost, and a late request must find it; and so does what is left of the victim's grace, for
-- the program behind it has only begun to stop. Its release ends both.
local function reply_broken(id, notice, deadline)
	advance()
	local kept = score_of('W' .. id .. '!') or score_of('R' .. id .. '!') or 0
	local answer = reply('broken', deadline)
	answer[7], answer[8] = string.sub(notice, #id + 3), math.max(kept - now, 0)
	return answer
end

-- `broken` if any of the attempts was, else `gone`.
local function reply_lost(...)
	for _, id in ipairs({ ... }) do
		local notice = find_notice(id)
		if notice then
			return reply_broken(id, notice)
		end
	end
	return reply('gone')
end
