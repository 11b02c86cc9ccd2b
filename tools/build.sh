#!/bin/sh
# SPDX-License-Identifier: MIT
# Configure and build one preset of CMakePresets.json in build/<preset>.
#
#   tools/build.sh PRESET [cmake --build options…]
#
# Several of these may run at once (two shells that call ./sneck): a lock beside the directory lets one
# build at a time, the others find the work done.
set -eu

preset=$1
shift
root=$(cd "$(dirname "$0")/.." && pwd -P)
build=$root/build/$preset

mkdir -p "$root/build"
exec 9>"$root/build/.$preset.lock"
flock 9

# A tree that was moved or copied with its build directory: CMake refuses such a cache.
if [ -e "$build/CMakeCache.txt" ] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$build/CMakeCache.txt"; then
	rm -rf "$build"
fi

cd "$root"
if [ ! -e "$build/build.ninja" ]; then
	cmake --preset "$preset" 9>&-
fi
cmake --build "$build" "$@" 9>&-
