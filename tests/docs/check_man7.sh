#!/bin/sh
# SPDX-License-Identifier: MIT
# The short pages of section 7 against what they are short for: every kind of member and every script of the
# protocol is named, and no script that is not there; the guarantees are given for the same places, with the same
# settings and the same figures; the pages that refer to each other exist and render without a complaint.
#
#   tests/docs/check_man7.sh SOURCE_DIR
set -eu

root=$1
man=$root/docs/man
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0

complain() {
	echo "$*" >&2
	bad=1
}

# Scripts: those that only write a record or ask for rights are no operations on locks.
find "$root/src/dialect/native" -maxdepth 1 -name '*.lua' | sed 's/.*\///; s/\.lua$//' | grep -vxE 'record|rights' |
	sort >"$work/scripts"
[ "$(wc -l <"$work/scripts")" -ge 10 ]
sed -nE 's/^\.Li (acquire .*) \.$/\1/p' "$man/sneck-protocol.7" | tr -d ' ' | tr ',' '\n' | sort >"$work/named"
diff "$work/scripts" "$work/named" >&2 || complain "sneck-protocol.7 does not name the scripts that there are"

# Kinds of members: the letters in the first column of the table in docs/protocol.md, section 2.
sed -n '/^## 2\./,/^## 3\./p' "$root/docs/protocol.md" | grep -E '^\| `[a-zA-Z]<' | grep -oE '`[a-zA-Z]<' | tr -d '`<' | sort -u >"$work/kinds"
[ "$(wc -l <"$work/kinds")" -ge 8 ]
while read -r kind; do
	grep -qE "^\.It Li ([a-zA-Z] , )*$kind( |$)" "$man/sneck-protocol.7" || complain "sneck-protocol.7 lacks the member $kind"
done <"$work/kinds"

# Guarantees: a section for each place where a lock can live, a line for each setting, a row for each failover.
guarantees=$root/docs/guarantees.md short=$man/sneck-guarantees.7
same() { # what; the two lists are in $work/long and $work/short
	[ "$(wc -l <"$work/long")" -ge 3 ] || complain "guarantees.md: no $1 found"
	diff "$work/long" "$work/short" >&2 || complain "guarantees.md and sneck-guarantees.7 differ in the $1"
}
sed -n '/^## Tiers/,/^## Order/s/^### //p' "$guarantees" >"$work/long"
sed -nE '/^\.Ss Order/q; s/^\.Ss //p' "$short" >"$work/short"
same tiers
sed -n '/^### On the servers/,/^### The lease/p' "$guarantees" | sed -nE 's/^\| `?([a-z-]+)`? \|.*/\1/p' | grep -vx setting >"$work/long"
sed -n '/^\.Ss What to set/,/^\.El/s/^\.It Li //p' "$short" >"$work/short"
same settings
sed -nE 's/^\| ((Sentinel|Cluster), [^|]*) \| ([0-9.]+ s) \| ([0-9]+ s) \|$/\1|\3|\4/p' "$guarantees" | tr -d '`' >"$work/long"
sed -nE 's/^\.It ((Sentinel|Cluster), .*) Ta ([0-9.]+ s) Ta ([0-9]+ s)$/\1|\3|\4/p' "$short" >"$work/short"
same failovers

for page in "$man"/*.[137]; do
	grep -ohE '^\.Xr (sneck[a-z-]*|libsneck) [0-9]' "$page" | while read -r _ name section; do
		[ -e "$man/$name.$section" ] || echo "$page refers to $name($section), which is not there"
	done >"$work/dangling"
	[ ! -s "$work/dangling" ] || complain "$(cat "$work/dangling")"
	groff -mdoc -Tutf8 -ww "$page" 2>&1 >/dev/null | tee "$work/complaints" >&2
	[ ! -s "$work/complaints" ] || bad=1
done
exit "$bad"
