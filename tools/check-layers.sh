#!/bin/sh
# SPDX-License-Identifier: MIT
# Check that every #include goes downwards (see ARCHITECTURE.md):
#
#   api > client > dialect > topology > net > base, and lock on base alone;
#   the command sees the public headers alone; nothing in src reaches into cli or tests.
#
#   tools/check-layers.sh [root]
#
# Exit 1 and one line for each wrong include.
set -eu

root=${1:-$(dirname "$0")/..}
cd "$root"

# What a layer may include besides itself, the public headers and the system's.
allowed() {
	case $1 in
	base) echo "" ;;
	lock) echo "base" ;;
	net) echo "base" ;;
	topology) echo "net base" ;;
	dialect) echo "topology net base lock/op.h" ;;
	client) echo "dialect topology net lock base" ;;
	api) echo "client dialect topology net lock base" ;;
	*) return 1 ;;
	esac
}

bad=0
complain() {
	echo "$1" >&2
	bad=1
}

# Prints "file:line:header" for each #include "…" below a directory.
includes() {
	grep -rnE --include='*.c' --include='*.h' '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' "$1" |
		sed -E 's/^([^:]*:[0-9]+):[^"]*"([^"]*)".*/\1:\2/'
}

for dir in src/*/; do
	layer=$(basename "$dir")
	if ! may=$(allowed "$layer"); then
		complain "$dir: not a layer; give it a place in tools/check-layers.sh and ARCHITECTURE.md"
		continue
	fi
	for found in $(includes "src/$layer"); do
		header=${found##*:}
		place=${found%:*}
		case $header in
		../* | */../*)
			complain "$place: \"$header\": name the layer instead of climbing"
			continue
			;;
		"$layer"/*) continue ;;
		*/*) ;;
		*)
			complain "$place: \"$header\": write \"$layer/$header\""
			continue
			;;
		esac
		fine=no
		for one in $may; do
			case $header in
			"$one" | "$one"/*) fine=yes ;;
			esac
		done
		# Generated headers lie in the folder of their layer in the build directory.
		if [ "$fine" = no ]; then
			complain "$place: \"$header\": $layer may include only: $layer $may"
		fi
	done
done

for found in $(includes cli); do
	header=${found##*:}
	case $header in
	*/*) complain "${found%:*}: \"$header\": the command uses <sneck/sneck.h> alone" ;;
	esac
done

for found in $(includes include); do
	complain "${found%:*}: public headers include <sneck/…> alone"
done

# <sneck/…> from the inside is for the types and codes of the public headers; the other direction, a
# public header that includes an internal one by <>, would not survive installation.
if grep -rnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*<(api|client|dialect|topology|net|lock|base)/' src include cli; then
	complain "internal headers are included with quotes"
fi

if [ "$bad" = 0 ]; then
	echo "layers: every include goes downwards"
fi
exit "$bad"
