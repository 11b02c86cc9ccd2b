#!/bin/sh
# SPDX-License-Identifier: MIT
# Check the length of C files: one concept fits into 600 lines (a warning), 800 are too many (exit 1).
set -eu

cd "${1:-$(dirname "$0")/..}"
bad=0
for file in $(find include src cli tests proof bench examples -name '*.[ch]' -o -name '*.cpp' | sort); do
	lines=$(wc -l <"$file")
	if [ "$lines" -gt 800 ]; then
		echo "$file: $lines lines; at most 800, better 600" >&2
		bad=1
	elif [ "$lines" -gt 600 ]; then
		echo "$file: warning: $lines lines; split it before it passes 800" >&2
	fi
done
if [ "$bad" = 0 ]; then
	echo "size: no file is too long"
fi
exit "$bad"
