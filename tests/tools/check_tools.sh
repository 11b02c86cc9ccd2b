#!/bin/sh
# SPDX-License-Identifier: MIT
# The checks in tools/ can fail: each is shown a tree with one fault, and one without.
#
#   tests/tools/check_tools.sh SOURCE_DIR
set -eu

root=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

expect() { # pass|fail description command…
	want=$1
	what=$2
	shift 2
	got=pass
	"$@" >"$work/out" 2>&1 || got=fail
	if [ "$got" != "$want" ]; then
		echo "FAILED: $what: expected $want, got $got"
		cat "$work/out"
		failures=$((failures + 1))
	else
		echo "ok: $what"
	fi
}

fresh_tree() {
	rm -rf "$work/tree"
	mkdir -p "$work/tree"
	for layer in base lock net topology dialect client api; do
		mkdir -p "$work/tree/src/$layer"
		printf '#include "%s/a.h"\n#include <stdio.h>\n' "$layer" >"$work/tree/src/$layer/a.c"
		: >"$work/tree/src/$layer/a.h"
	done
	mkdir -p "$work/tree/cli" "$work/tree/include/sneck" "$work/tree/tests" "$work/tree/proof" "$work/tree/bench" "$work/tree/examples"
	printf '#include <sneck/sneck.h>\n#include "own.h"\n' >"$work/tree/cli/a.c"
	printf '#include "base/a.h"\n#include "net/a.h"\n#include "lock/op.h"\n' >"$work/tree/src/dialect/b.c"
}

layers="$root/tools/check-layers.sh"
wrong() { # file include-line description
	fresh_tree
	printf '%s\n' "$2" >>"$work/tree/$1"
	expect fail "layers: $3" "$layers" "$work/tree"
}
fresh_tree
expect pass "layers: a tree in order" "$layers" "$work/tree"
wrong src/base/a.c '#include "net/conn.h"' "base includes net"
wrong src/net/a.h '#include "dialect/dialect.h"' "net includes dialect"
wrong src/lock/a.c '#include "net/conn.h"' "lock includes net"
wrong src/dialect/a.c '#include "lock/core.h"' "dialect includes more of lock than op.h"
wrong src/client/a.c '  #  include "api/x.h"' "client includes api, with spaces"
wrong src/net/a.c '#include "../client/x.h"' "climbing out of the layer"
wrong src/net/a.c '#include "x.h"' "a header without its layer"
wrong src/net/a.c '#include <client/x.h>' "an internal header in angle brackets"
wrong cli/a.c '#include "base/clock.h"' "the command includes an internal header"
wrong include/sneck/a.h '#include "base/clock.h"' "a public header includes an internal one"
fresh_tree
mkdir "$work/tree/src/misc"
expect fail "layers: an unknown layer" "$layers" "$work/tree"

fresh_tree
yes 'int x;' | head -n 700 >"$work/tree/src/net/long.c"
expect pass "size: 700 lines are a warning" "$root/tools/check-size.sh" "$work/tree"
yes 'int x;' | head -n 801 >"$work/tree/src/net/long.c"
expect fail "size: 801 lines" "$root/tools/check-size.sh" "$work/tree"

if command -v clang-format >/dev/null 2>&1; then
	fresh_tree
	mkdir "$work/tree/tools"
	cp "$root/tools/check-format.sh" "$work/tree/tools/"
	cp "$root/.clang-format" "$work/tree/"
	expect pass "format: a tree in order" "$work/tree/tools/check-format.sh"
	printf 'int  main( void ){return 0;}\n' >"$work/tree/src/net/ugly.c"
	expect fail "format: a file that is not" "$work/tree/tools/check-format.sh"
	expect pass "format: --fix" "$work/tree/tools/check-format.sh" --fix
	expect pass "format: after --fix" "$work/tree/tools/check-format.sh"
fi

# The sum over the sources: what is not part of the program changes nothing, everything else does.
fresh_tree
mkdir -p "$work/tree/tools" "$work/tree/src/dialect/counted"
cp "$root/tools/proof-doc.sh" "$root/tools/source-tokens.awk" "$work/tree/tools/"
source_sum() { # file, its text
	printf '%b' "$2" >"$work/tree/$1"
	"$work/tree/tools/proof-doc.sh" --sum
}
same() { # file, a text, another one that is the same program, description
	one=$(source_sum "$1" "$2")
	two=$(source_sum "$1" "$3")
	expect pass "sum: $4" test "$one" = "$two"
}
other() { # file, a text, another program, description
	one=$(source_sum "$1" "$2")
	two=$(source_sum "$1" "$3")
	expect pass "sum: $4" test "$one" != "$two"
}
c=src/net/a.c
same $c 'int x;\n' '/* why */ int x; // so\n' "a comment in C"
same $c 'int x;\n' 'int\n\n\t x ;' "white space in C"
same $c 'int x;\n' '/* one\n * "two */\nint x;\n' "a comment of two lines, with a quote"
same $c 'int x;\n' '// one \\\ntwo\nint x;\n' "a comment that a backslash carries on"
same $c '#define A(x) \\\n\tx\n' '#define A(x) x\n' "a directive on two lines"
same $c '#define A /* one\n two */ 1\nint x;\n' '#define A 1\nint x;\n' "a comment within a directive"
other $c 'int x;\n' 'int y;\n' "another name"
other $c 'int x;\n' 'intx;\n' "two tokens, or one"
other $c 'a - -b;\n' 'a--b;\n' "two operators, or one"
other $c 'f("a b");\n' 'f("a  b");\n' "white space in a string"
other $c 'f("/* a */");\n' 'f("/* b */");\n' "what looks like a comment in a string"
other $c 'f("\\"//a");\n' 'f("\\"//b");\n' "a string with a quote"
other $c "f('\"', \"//a\");\n" "f('\"', \"//b\");\n" "a quote as a character"
other $c '#define A (x)\n' '#define A(x)\n' "a macro with and without an argument"
other $c '#define A\nint x;\n' '#define A int x;\n' "the end of a directive"
other $c '#include <a//b.h>\n' '#include <a//c.h>\n' "the name of a header"
lua=src/dialect/a.lua
same $lua 'local x = 1\n' '-- why\nlocal  x=1 -- so\n' "a comment in Lua"
same $lua 'local x = 1\n' '--[[ one\ntwo ]] local x = 1 --[==[ ]] ]==]\n' "a long comment in Lua"
other $lua 'local x = 1\n' 'local x = 2\n' "another number in Lua"
other $lua "f('--a')\n" "f('--b')\n" "what looks like a comment in a string of Lua"
other $lua "f('\\\\'--a')\n" "f('\\\\'--b')\n" "a string of Lua with a quote"
other $lua 'f("a\\\n--b")\n' 'f("a\\\n--c")\n' "a string of Lua on two lines"
other $lua 'f([[\n--a ]])\n' 'f([[\n--b ]])\n' "a long string of Lua"
other $lua 'a = b - - c\n' 'a = b -- c\n' "two operators, or a comment"
other $lua '-- @include shared/a.lua\n' '-- @include shared/b.lua\n' "a file that is included in Lua"
other $lua 'a = 1 -- @include shared/a.lua\n' '-- @include shared/a.lua\na = 1\n' "what comes first, a line of Lua or a file that is included"
same src/dialect/counted/a.lua 'a = 1\n' 'a = 2\n' "a dialect that is not part of the claims"
source_sum $c 'int x; /* no end' >/dev/null 2>&1 || true
expect fail "sum: a comment without an end" "$work/tree/tools/proof-doc.sh" --sum
source_sum $c 'f("no end);' >/dev/null 2>&1 || true
expect fail "sum: a string without an end" "$work/tree/tools/proof-doc.sh" --sum

# What a row says of itself.
source_sum $c 'int x;\n' >"$work/sum"
result_with_sum() {
	printf '{\n  "sources": "%s",\n  "date": "2000-01-01",\n  "counted": 10,\n  "violations": 0\n}\n' "$1" >"$work/tree/kill.json"
	PROOF_RESULTS=. "$work/tree/tools/proof-doc.sh" --print | grep 'kill -9' >"$work/row"
}
result_with_sum "$(cat "$work/sum")"
expect pass "rows: of these sources" grep '; current |$' "$work/row"
source_sum $c 'int x; /* and why */\n' >/dev/null
result_with_sum "$(cat "$work/sum")"
expect pass "rows: of these sources, with another comment" grep '; current |$' "$work/row"
source_sum $c 'int y;\n' >/dev/null
result_with_sum "$(cat "$work/sum")"
expect pass "rows: of other sources" grep 'stale.*have changed since |$' "$work/row"
result_with_sum "$(cut -d: -f2 "$work/sum")"
expect pass "rows: with a sum of another way" grep 'stale.*in another way.*not known' "$work/row"

[ "$failures" = 0 ]
