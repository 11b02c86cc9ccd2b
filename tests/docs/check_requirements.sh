#!/bin/sh
# SPDX-License-Identifier: MIT
# docs/requirements.md and ARCHITECTURE.md name tests, files and functions. Each of them must exist, so
# that a page cannot outlive what it speaks of.
#
#   tests/docs/check_requirements.sh SOURCE_DIR
set -eu

cd "$1"
pages="docs/requirements.md ARCHITECTURE.md"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
missing=0

complain() {
	echo "$pages: $*" >&2
	missing=$((missing + 1))
}

# shellcheck disable=SC2086 # a list of files
grep -ohE '`[^`]+`' $pages | tr -d '`' | sort -u >"$work/quoted"

# `program/test`: a test is in its program's table, in whatever macro.
tests=0
grep -E '^test_[a-z_]+/[a-z_0-9]+$' "$work/quoted" >"$work/tests"
while IFS=/ read -r program name; do
	tests=$((tests + 1))
	file=$(ls tests/*/"$program.c" 2>/dev/null || true)
	if [ -z "$file" ]; then
		complain "no program $program"
	elif ! grep -qE "^[[:space:]]+[a-zA-Z_]+\($name(,|\))" "$file"; then
		complain "$program has no test $name"
	fi
done <"$work/tests"

# `layer/file` or `layer/file: name`: a file under src, or of the whole tree, and a name in it.
files=0
grep -E '^[a-z]+/[a-zA-Z_/.-]+\.(c|h|lua|sh)(: [a-z_]+)?$' "$work/quoted" >"$work/files"
while read -r path name; do
	files=$((files + 1))
	path=${path%:}
	found=
	for file in "src/$path" "src/dialect/$path" "$path"; do
		[ -f "$file" ] && found=$file && break
	done
	if [ -z "$found" ]; then
		complain "no file $path"
	elif [ -n "$name" ] && ! grep -qw -- "$name" "$found"; then
		complain "$found has no $name"
	fi
done <"$work/files"

echo "$tests tests and $files places are there, $missing are not"
[ "$missing" = 0 ] && [ "$tests" -gt 100 ] && [ "$files" -gt 40 ]
