#!/bin/sh
# SPDX-License-Identifier: MIT
# sneck and the real Redisson, an old version and the newest, each with a server of its own, at once, and then
# each in a cluster of its own.
#
#   tests/interop/run.sh BUILD_DIR
#
# Maven fetches Redisson; what it has fetched once it keeps. Without it this fails: nothing was shown then. The
# last line is "N passed, N failed".
set -eu

build=$(readlink -f "$1")
here=$(dirname "$(readlink -f "$0")")
versions="3.52.0 4.7.0"

for tool in java mvn; do
	if ! command -v $tool >/dev/null; then
		echo "interop: there is no $tool; install default-jdk-headless and maven" >&2
		exit 1
	fi
done
programs="test_interop test_interop_cluster"
for program in $programs; do
	if [ ! -x "$build/tests/interop/$program" ]; then
		echo "interop: $build/tests/interop/$program is not built" >&2
		exit 1
	fi
done

for version in $versions; do
	out=$build/interop/$version
	mkdir -p "$out"
	if [ "$out/built" -nt "$here/pom.xml" ] && [ "$out/built" -nt "$here/src/main/java/sneck/Driver.java" ]; then
		continue
	fi
	if ! mvn -B -q -f "$here/pom.xml" compile -Dredisson.version="$version" -Dout="$out" >"$out/maven.log" 2>&1; then
		tail -n 20 "$out/maven.log" >&2
		echo "interop: Maven cannot build the Java program with Redisson $version; is its repository reachable?" >&2
		exit 1
	fi
	touch "$out/built"
done

# All programs, whatever becomes of the first.
run_all() {
	result=0
	for program in $programs; do
		SNECK_INTEROP_JAVA=$build/interop/$1 "$build/tests/interop/$program" || result=1
	done
	return $result
}

pids=
for version in $versions; do
	run_all "$version" >"$build/interop/$version/log" 2>&1 &
	pids="$pids $!"
done
passed=0
failed=0
for version in $versions; do
	pid=${pids# }
	pid=${pid%% *}
	pids=${pids# "$pid"}
	status=0
	wait "$pid" || status=$?
	log=$build/interop/$version/log
	echo "Redisson $version"
	cat "$log"
	passed=$((passed + $(grep -c '^\[       OK' "$log" || true)))
	bad=$(grep -c '^\[  FAILED  \] [a-z_]*$' "$log" || true)
	# Each is named where it fails and once more at the end; a run that broke off counts as one.
	if [ "$status" != 0 ]; then
		failed=$((failed + (bad > 1 ? bad / 2 : 1)))
	fi
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
