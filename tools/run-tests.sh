#!/bin/sh
# SPDX-License-Identifier: MIT
# Run the tests of a build directory with the output of those that fail. The last line is
# "N passed, N failed"; the exit code says whether all passed. A run that finds no test has failed.
#
# Most tests wait for time to pass (a lease, a failover): three at a time for each processor keep it busy.
# SNECK_TEST_JOBS is another number.
#
#   tools/run-tests.sh BUILD_DIR [ctest options…]
set -eu

build=$1
shift
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# A pipe hides ctest's exit code: it is kept in the log's neighbour.
status=0
{
	ctest --test-dir "$build" -j "${SNECK_TEST_JOBS:-$((3 * $(nproc)))}" --output-on-failure --no-tests=error "$@" 2>&1 ||
		echo "ctest-exit: $?"
} | tee "$log" | grep -v '^ctest-exit: ' || true
if grep -q '^ctest-exit: ' "$log"; then
	status=1
fi

# "98% tests passed, 1 tests failed out of 42"
failed=$(sed -nE 's/.*tests passed, ([0-9]+) tests? failed out of ([0-9]+).*/\1/p' "$log" | tail -n 1)
total=$(sed -nE 's/.*tests passed, ([0-9]+) tests? failed out of ([0-9]+).*/\2/p' "$log" | tail -n 1)
if [ -z "$total" ]; then
	failed=1
	total=1
	status=1
fi
echo "$((total - failed)) passed, $failed failed"
if [ "$failed" != 0 ]; then
	status=1
fi
exit "$status"
