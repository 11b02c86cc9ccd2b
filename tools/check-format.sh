#!/bin/sh
# SPDX-License-Identifier: MIT
# Check (or with --fix: apply) the formatting of every C file that git knows or would know.
#
#   tools/check-format.sh [--fix]
#
# Exit 1 and the places when a file differs from what clang-format makes of it.
set -eu

cd "$(dirname "$0")/.."
if ! command -v clang-format >/dev/null 2>&1; then
	echo "check-format: clang-format is not installed; run tools/setup dev" >&2
	exit 1
fi
if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
	files=$(git ls-files --cached --others --exclude-standard '*.c' '*.h' '*.cpp' '*.hpp')
else
	files=$(find include src cli tests proof bench examples -name '*.[ch]' -o -name '*.[ch]pp')
fi
list=
for file in $files; do
	if [ -e "$file" ]; then
		list="$list $file"
	fi
done
if [ "${1:-}" = --fix ]; then
	# shellcheck disable=SC2086 # names without spaces: a rule of this repository
	exec clang-format -i $list
fi
# shellcheck disable=SC2086
if ! clang-format --dry-run --Werror $list; then
	echo "check-format: run make format" >&2
	exit 1
fi
echo "format: $(echo "$list" | wc -w) files as they should be"
