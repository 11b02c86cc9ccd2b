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

[ "$failures" = 0 ]
