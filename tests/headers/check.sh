#!/bin/sh
# SPDX-License-Identifier: MIT
# Each public header compiles alone and twice, as C11 and as C++17, by every compiler that is here,
# with warnings as errors; a program that uses the macros does so too and runs.
#
#   tests/headers/check.sh SOURCE_DIR
set -eu

root=$1
warnings="-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
checked=0

compile() { # language-option standard compiler extra-warnings
	for header in "$root"/include/sneck/*.h; do
		name=sneck/${header##*/}
		printf '#include <%s>\n#include <%s>\nint main(void);\nint main(void) { return 0; }\n' "$name" "$name" >"$work/one"
		# shellcheck disable=SC2086 # lists of options
		"$3" $warnings $4 -std="$2" -I "$root/include" -x "$1" -c "$work/one" -o "$work/one.o"
		checked=$((checked + 1))
	done
	# shellcheck disable=SC2086
	"$3" $warnings $4 -std="$2" -I "$root/include" -x "$1" "$root/tests/headers/use.c" -o "$work/use"
	"$work/use"
}

for cc in gcc clang; do
	if command -v $cc >/dev/null 2>&1; then
		compile c c11 $cc "-Wstrict-prototypes -Wc++-compat"
	fi
done
for cxx in g++ clang++; do
	if command -v $cxx >/dev/null 2>&1; then
		compile c++ c++17 $cxx "-Wold-style-cast"
	fi
done
echo "$checked header compilations"
[ "$checked" -gt 0 ]
