# SPDX-License-Identifier: MIT
# The tokens of C and Lua sources, one in a line: what is left of a text when its comments and its white space
# are taken away. Two texts with the same tokens are the same program, so a result that holds for one holds for
# the other.
#
#   … names of files, one in a line | LC_ALL=C awk -f source-tokens.awk
#
# It is written here, and not left to a compiler, because the output of every version of every awk must be the
# same. What looks like white space and is none stays visible: the inside of strings, the end of a directive,
# and the bracket that follows the name of a macro at once. A comment that the build reads (`-- @include`, see
# cmake/EmbedScripts.cmake) is a token. The one thing that is not seen is white space in an argument that a
# macro makes a string of. A text that ends within a comment or a string is an error, not a guess.

function fail(why) {
	print path ": " why > "/dev/stderr"
	failed = 1
	exit 1
}

# The first n characters of `text` are a token.
function take(n) {
	print substr(text, 1, n)
	text = substr(text, n + 1)
}

# The first n characters of `text` mean nothing.
function skip(n) {
	text = substr(text, n + 1)
}

function begins(pattern) {
	return match(text, pattern) == 1
}

# Forget everything up to the end of a comment. Is there none in this line, all of it is comment.
function skip_comment(end) {
	if (index(text, end)) {
		skip(index(text, end) + length(end) - 1)
		comment_end = ""
	} else {
		text = ""
	}
}

# What a directive of the preprocessor treats in its own way. Returns whether it has taken anything.
function take_of_directive() {
	if (directive == "?" && begins("^[A-Za-z_]+")) {
		directive = substr(text, 1, RLENGTH)
	} else if (directive == "include" && begins("^<[^>]*>")) {
		;
	} else if (directive == "define" && begins("^[A-Za-z_][A-Za-z0-9_]*[(]?")) {
		directive = "-"
	} else {
		return 0
	}
	take(RLENGTH)
	return 1
}

# One logical line of C: lines that a backslash joins have been joined.
function c_line() {
	while (text != "") {
		if (comment_end != "") {
			skip_comment(comment_end)
		} else if (begins("^[ \t\r\f\v]+")) {
			skip(RLENGTH)
		} else if (begins("^/[*]")) {
			skip(2)
			comment_end = "*/"
		} else if (begins("^//")) {
			text = ""
		} else if (!within && begins("^#")) {
			take(1)
			within = 1
			directive = "?"
		} else {
			within = 1
			if (directive == "" || !take_of_directive())
				c_token()
		}
	}
	# A comment that goes on does not end the line.
	if (comment_end != "")
		return
	if (directive != "")
		print ""
	within = 0
	directive = ""
}

function c_token() {
	if (begins("^(L|u8|u|U)?\"([^\"\\\\]|\\\\.)*\"") || begins("^(L|u|U)?'([^'\\\\]|\\\\.)*'") ||
	    begins("^[.]?[0-9]([eEpP][-+]|[A-Za-z0-9_.])*") || begins("^[A-Za-z_][A-Za-z0-9_]*") ||
	    begins("^([.][.][.]|<<=|>>=)") || begins("^([-+*/%&^|<>=!]=|->|[+][+]|--|<<|>>|&&|[|][|]|##)"))
		take(RLENGTH)
	else if (begins("^[\"']"))
		fail("a string without an end: " text)
	else
		take(1)
}

# One line of Lua. `held` is a string that a backslash carries on into the next line. What is included stands at
# the end of its line, behind the code that is there.
function lua_line(    include) {
	include = match(text, "-- @include [A-Za-z0-9_/]+[.]lua$") ? substr(text, RSTART, RLENGTH) : ""
	text = held text
	held = ""
	while (text != "") {
		if (comment_end != "") {
			skip_comment(comment_end)
		} else if (string_end != "") {
			take_long_string()
		} else if (begins("^[ \t\r\f\v]+")) {
			skip(RLENGTH)
		} else if (begins("^--\\[=*\\[")) {
			comment_end = closing(substr(text, 3, RLENGTH - 2))
			skip(RLENGTH)
		} else if (begins("^--")) {
			text = ""
		} else if (begins("^\\[=*\\[")) {
			string_end = closing(substr(text, 1, RLENGTH))
			printf "%s", substr(text, 1, RLENGTH)
			skip(RLENGTH)
		} else {
			lua_token()
		}
	}
	if (string_end != "")
		print ""
	if (include != "")
		print include
}

# [==[ is closed by ]==]
function closing(bracket) {
	gsub("\\[", "]", bracket)
	return bracket
}

function take_long_string(    n) {
	n = index(text, string_end)
	if (n) {
		take(n + length(string_end) - 1)
		string_end = ""
	} else {
		printf "%s", text
		text = ""
	}
}

function lua_token() {
	if (begins("^\"([^\"\\\\]|\\\\.|\\\\\n)*\"") || begins("^'([^'\\\\]|\\\\.|\\\\\n)*'") ||
	    begins("^[.]?[0-9]([eE][-+]|[A-Za-z0-9_.])*") || begins("^[A-Za-z_][A-Za-z0-9_]*") ||
	    begins("^[.][.][.]") || begins("^([.][.]|==|~=|<=|>=)")) {
		take(RLENGTH)
	} else if (begins("^[\"']")) {
		if (text !~ /\\$/)
			fail("a string without an end: " text)
		held = text "\n"
		text = ""
	} else {
		take(1)
	}
}

function tokens_of(file,    lua, line, got) {
	path = file
	lua = file ~ /[.]lua$/
	comment_end = string_end = held = directive = ""
	within = 0
	joined = ""
	print "file " file
	while ((got = (getline line < file)) > 0) {
		if (!lua && line ~ /\\$/) {
			joined = joined substr(line, 1, length(line) - 1)
			continue
		}
		text = joined line
		joined = ""
		if (lua)
			lua_line()
		else
			c_line()
	}
	close(file)
	if (got < 0)
		fail("cannot be read")
	if (comment_end string_end held joined != "")
		fail("it ends within a comment or a string")
}

{ tokens_of($0) }

END { exit failed }
