#!/bin/sh
# SPDX-License-Identifier: MIT
# The nemesis itself: a seed gives the same plan again and another seed another, there are faults enough,
# every fault of a run is seen to bite, and a run on libsneck ends well.
#
#   check_nemesis.sh SNECK_NEMESIS
set -eu

nemesis=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
	echo "check_nemesis: $*" >&2
	exit 1
}

"$nemesis" --plan --count 200 --seed 11 >"$work/one"
"$nemesis" --plan --count 200 --seed 11 >"$work/two"
"$nemesis" --plan --count 200 --seed 12 >"$work/three"
cmp "$work/one" "$work/two" || fail "the same seed gave another plan"
! cmp -s "$work/one" "$work/three" || fail "another seed gave the same plan"

kinds=$("$nemesis" --list | wc -l)
[ "$kinds" -ge 25 ] || fail "only $kinds kinds of faults"
planned=$(awk '{ print $2 }' "$work/one" | sort -u | wc -l)
[ "$planned" = "$kinds" ] || fail "the plan has $planned of $kinds kinds"

# One of each group, on a server of its own.
for kind in reply-lost kill-holder script-flush clock-back; do
	"$nemesis" --only "$kind" --count 1 --seed 11 >"$work/out" 2>&1 || {
		cat "$work/out"
		fail "$kind"
	}
	grep -q '^1 faults, 1 bit, 1 counted' "$work/out" || {
		cat "$work/out"
		fail "$kind did not bite"
	}
done

# More than one server: another list of faults, and a failover that is survived.
"$nemesis" --topology sentinel --list | grep -q '^failover-killed ' || fail "no failover among the faults of sentinels"
"$nemesis" --topology cluster --list | grep -q '^slot-moved ' || fail "no slot moves among the faults of clusters"
"$nemesis" --topology sentinel --campaign failover --only failover-cut-off --count 1 --seed 11 >"$work/out" 2>&1 || {
	cat "$work/out"
	fail "failover-cut-off"
}
grep -q '^1 faults, 1 bit, 1 counted' "$work/out" || {
	cat "$work/out"
	fail "failover-cut-off did not bite"
}

# The same on a layout of another program, and what cannot be asked of one is refused.
"$nemesis" --dialect redisson:fenced --only reply-lost --count 1 --seed 11 >"$work/out" 2>&1 || {
	cat "$work/out"
	fail "redisson:fenced"
}
grep -q '^campaign mixed, topology single, dialect redisson:fenced' "$work/out" || fail "it was another dialect"
grep -q '^1 faults, 1 bit, 1 counted' "$work/out" || fail "nothing bit on redisson:fenced"
grep -q '^I2 .* ok ' "$work/out" || fail "the tokens of redisson:fenced were not looked at"
refuses() {
	status=0
	"$nemesis" "$@" >"$work/out" 2>&1 || status=$?
	[ "$status" = 64 ] || fail "$* was not refused"
}
refuses --dialect nonsense
refuses --topology nonsense
refuses --topology sentinel --campaign kill
refuses --campaign failover
refuses --topology sentinel --campaign slots
refuses --dialect counted --campaign messages
refuses --dialect counted --results "$work"
echo "$kinds kinds of faults; plans repeat; four of them bit"
