#!/bin/sh
# SPDX-License-Identifier: MIT
# tools/mutants can fail: a tree of one function and its test, with a mutant for each thing that can happen.
#
#   tests/tools/check_mutants.sh SOURCE_DIR
set -eu

root=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tree=$work/tree
mkdir -p "$tree/tools" "$tree/proof/mutants" "$tree/src" "$tree/include" "$tree/cli"
cp "$root/tools/mutants" "$tree/tools/"
failures=0

cat >"$tree/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.25)
project(sums C)
add_executable(test_sums src/sums.c src/test.c)
END
cat >"$tree/src/sums.c" <<'END'
int sum(int a, int b);
int sum(int a, int b) {
	return a + b; /* 100 % & */
}
/* twice */
/* twice */
END
cat >"$tree/src/test.c" <<'END'
#include <stdio.h>
#include <stdlib.h>
int sum(int a, int b);
int main(int argc, char **argv) {
	const char *only = getenv("SNECK_TEST_FILTER");
	if (!only || only[0] == 's')
		puts("[ RUN      ] sums");
	return argc > 1 ? sum(atoi(argv[1]), 0) != 0 : sum(2, 2) != 4;
}
END

mutant() { # name test old new [line]
	{
		printf 'title: %s\nhazard: A1\ntest: %s\n' "$1" "$2"
		[ -z "${5:-}" ] || echo "$5"
		printf -- '--- src/sums.c\n%s\n+++\n%s\n' "$3" "$4"
	} >"$tree/proof/mutants/$1.mutant"
}

expect() { # name result exit-code
	status=0
	"$tree/tools/mutants" --jobs=1 --json="$work/json" "$1" >"$work/out" 2>&1 || status=$?
	word=$(sed -nE "s/^([A-Za-z]+) .* $1 .*/\1/p" "$work/out")
	if [ "$word" != "$2" ] || [ "$status" != "$3" ] || ! grep -q "\"result\": \"$2\"" "$work/json"; then
		echo "FAILED: $1: expected $2 ($3), got $word ($status)"
		cat "$work/out"
		failures=$((failures + 1))
	else
		echo "ok: $1 is $word"
	fi
}

mutant minus test_sums/sums 'a + b; /* 100 % & */' 'a - b; /* & % \1 */'
mutant swapped test_sums/sums 'a + b; /*' 'b + a; /*'
mutant moved test_sums/sums 'a * b' 'a - b'
mutant ambiguous test_sums/sums '/* twice */' '/* once */'
mutant ungrammatical test_sums/sums 'return a + b;' 'return a +;'
mutant endless test_sums/sums 'return a + b;' 'while (a) { b++; } return b;' 'seconds: 1'
mutant endless-and-known test_sums/sums 'return a + b;' 'while (a) { b++; } return b;' "$(printf 'seconds: 1\nhangs: yes')"
mutant without-a-test test_sums/differences 'a + b' 'a - b'
mutant without-a-program test_products 'a + b' 'a - b'
mutant by-argument test_sums 'a + b' 'a + b + 1' 'args: 0'
mutant broken-before test_sums 'a + b' 'a - b' 'args: 3'

expect minus caught 0
expect swapped SURVIVED 1
expect moved STALE 1
expect ambiguous STALE 1
expect ungrammatical INVALID 1
expect endless HUNG 1
expect endless-and-known caught 0
expect without-a-test INVALID 1
expect without-a-program INVALID 1
expect by-argument caught 0
expect broken-before INVALID 1
# What the runs before have left in the copy does not change the result, and the tree is as it was.
expect minus caught 0
if ! grep -q 'return a + b; /\* 100 % & \*/' "$tree/src/sums.c"; then
	echo "FAILED: the tree itself was changed"
	failures=$((failures + 1))
fi
"$tree/tools/mutants" --jobs=2 minus by-argument endless >"$work/out" 2>&1 && failures=$((failures + 1))
if [ "$(tail -n 1 "$work/out")" != "2 passed, 1 failed" ]; then
	echo "FAILED: the count of three"
	cat "$work/out"
	failures=$((failures + 1))
fi
if "$tree/tools/mutants" --check moved >"$work/out" || ! grep -q 'moved.mutant: STALE' "$work/out"; then
	echo "FAILED: --check of one that does not fit"
	cat "$work/out"
	failures=$((failures + 1))
fi
# However long the building takes, what was built is tried.
mkdir "$work/aside" && mv "$tree"/proof/mutants/*.mutant "$work/aside/" && cp "$work/aside/minus.mutant" "$tree/proof/mutants/"
echo 'add_custom_command(TARGET test_sums PRE_LINK COMMAND sleep 2)' >>"$tree/CMakeLists.txt"
MUTANTS_DIR=$work/slow "$tree/tools/mutants" --quick --seconds=2 >"$work/out" 2>&1 || true
if [ "$(tail -n 1 "$work/out")" != "1 passed, 0 failed" ]; then
	echo "FAILED: a slow build leaves no time to try"
	cat "$work/out"
	failures=$((failures + 1))
fi
[ "$failures" = 0 ]
