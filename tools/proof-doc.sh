#!/bin/sh
# SPDX-License-Identifier: MIT
# The figures of docs/proof.md, from the results that the campaigns have written to docs/proof/*.json.
#
#   tools/proof-doc.sh           write them into docs/proof.md, between its two marks
#   tools/proof-doc.sh --check   exit 1 when they are not what the results say
#   tools/proof-doc.sh --print   only print them
#   tools/proof-doc.sh --sum     the sum over the sources that the claims cover
#
# A result speaks of the sources that it was made with. When they have changed since, its row says so, and
# the figure claims nothing about what is there now. Comments and white space are no part of what was tested:
# the sum is over the tokens (source-tokens.awk), and the same wherever it is made.
set -eu

cd "$(dirname "$0")/.."
document=docs/proof.md
results=${PROOF_RESULTS:-docs/proof}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The sum's name says how it was made. Another way needs another name: sums of two ways cannot be compared.
way=tokens

# What is tested is the library, its native scripts, and the command; the other dialects are not a part of these claims.
# Names and contents, in one order everywhere.
sum_sources() {
	find src include cli -type f \( -name '*.[ch]' -o -name '*.lua' \) |
		grep -vE '^src/dialect/(redisson|counted|intent)/' | LC_ALL=C sort |
		LC_ALL=C awk -f tools/source-tokens.awk >"$work/tokens" || return 1
	if [ ! -s "$work/tokens" ]; then
		echo "$0: no sources" >&2
		return 1
	fi
	echo "$way:$(sha256sum <"$work/tokens" | cut -c1-16)"
}

# field NAME FILE: the value, without quotes; empty when it is not there.
field() {
	sed -nE 's/^ *"'"$1"'": "?([^",]*)"?,?$/\1/p' "$2"
}

# 2000000 -> 2,000,000
thousands() {
	echo "$1" | sed -E ':a; s/^([0-9]+)([0-9]{3})/\1,\2/; ta'
}

# What n trials without a failure leave possible, with 95 % confidence.
bound() {
	awk -v n="$1" 'BEGIN { if (n > 0) printf "%.2g", 3 / n; else print "–" }'
}

# Does a result hold for the sources of now?
state() { # name of the result
	case $(field sources "$results/$1.json") in
	"$sources") echo current ;;
	"$way":*) echo "**stale**: the sources have changed since" ;;
	*) echo "**stale**: its sources were summed up in another way, so that it is not known whether they have changed" ;;
	esac
}

row() { # claim, trials, violations, campaign
	if [ "$3" = 0 ]; then
		limit="< $(bound "$2")"
	else
		limit="–"
	fi
	echo "| $1 | $(thousands "$2") | $(thousands "$3") | $limit | $(field date "$results/$4.json"), seed \`$(field seed "$results/$4.json")\`, commit \`$(field commit "$results/$4.json")\`; $(state "$4") |"
}

# Defects that were put in are a choice, not trials: no rate follows from them.
row_of_mutants() { # name of the result, who was to catch them
	if [ ! -e "$results/$1.json" ]; then
		echo "| \`$1\` | – | – | – | not run yet |"
		return
	fi
	echo "| defects put into sneck one by one: each is noticed by $2 | $(thousands "$(field counted "$results/$1.json")") | $(thousands "$(field violations "$results/$1.json")") | – | $(field date "$results/$1.json"), commit \`$(field commit "$results/$1.json")\`; $(state "$1") |"
}

# What a failover may cost is told beside what it must not.
row_of_failovers() { # topology, for people
	file=$results/failover-$1.json
	if [ ! -e "$file" ]; then
		echo "| \`failover-$1\` | – | – | – | not run yet |"
		return
	fi
	row "failovers of $2 under load ($(thousands "$(field acquisitions "$file")") acquisitions): every invariant of the checker; $(thousands "$(field lost "$file")") holds were lost and told, $(thousands "$(field excused_by_wipe "$file")") overlapped with another until then, longest time without a grant $(thousands "$(field longest_absence_ms "$file")") ms" "$(field counted "$file")" "$(field violations "$file")" "failover-$1"
}

row_of_moves() {
	file=$results/slots-cluster.json
	if [ ! -e "$file" ]; then
		echo "| \`slots-cluster\` | – | – | – | not run yet |"
		return
	fi
	row "moves of a busy slot to another primary ($(thousands "$(field acquisitions "$file")") acquisitions): no hold lost, no renewal failed, nobody waited for more than a second for a lock that nobody had (longest: $(thousands "$(field longest_sleep_ms "$file")") ms)" "$(field counted "$file")" "$(field violations "$file")" slots-cluster
}

figures() {
	sources=$(sum_sources)
	echo "| claim | trials | violations | rate, if none was seen (3/n) | run |"
	echo "|---|---:|---:|---|---|"
	for campaign in mixed kill messages stop cancel silence; do
		file=$results/$campaign.json
		if [ ! -e "$file" ]; then
			echo "| \`$campaign\` | – | – | – | not run yet |"
			continue
		fi
		counted=$(field counted "$file")
		bad=$(field violations "$file")
		case $campaign in
		mixed)
			row "acquisitions under $(thousands "$counted") faults of $(field kinds "$file") kinds: every invariant of the checker" "$(field acquisitions "$file")" "$bad" mixed
			row "the same, for each fault that counted ($(thousands "$(field injected "$file")") injected, $(thousands "$(field bit "$file")") bit)" "$counted" "$bad" mixed
			;;
		kill) row "kill -9 of a process that holds or waits: no lock is stuck (longest absence of a lock $(thousands "$(field longest_absence_ms "$file")") ms)" "$counted" "$bad" kill ;;
		messages) row "a message lost, late or answered with an error, at every index of every operation: no double count, no orphan" "$counted" "$bad" messages ;;
		stop) row "stale writes offered after $(thousands "$counted") SIGSTOPs of a holder beyond its lease: the store that checks tokens takes none (one that does not check was overwritten $(thousands "$(field stale_taken "$file")") times)" "$(field stale_refused "$file")" "$bad" stop ;;
		cancel) row "races of cancel against grant ($(thousands "$(field granted "$file")") granted): no hold without an owner" "$counted" "$bad" cancel ;;
		silence) row "holds whose lease ended in $(thousands "$counted") silences of the line: notice before the end" "$(field notices "$file")" "$bad" silence ;;
		esac
	done
	row_of_failovers sentinel "a primary with two replicas and three sentinels"
	row_of_failovers sentinel-acknowledged "the same, where a grant counts only when a replica has it,"
	row_of_failovers cluster "primaries of a cluster"
	row_of_moves
	row_of_mutants mutants "the test that is named for it"
	row_of_mutants mutants-harness "the nemesis"
}

begin='<!-- figures: tools/proof-doc.sh -->'
end='<!-- end of figures -->'

# The document with fresh figures. Whether a row is stale depends on the sources of this moment.
render() {
	awk -v begin="$begin" -v end="$end" -v figures="$1" '
		$0 == begin { print; while ((getline line < figures) > 0) print line; inside = 1; next }
		$0 == end { inside = 0 }
		!inside { print }' "$document"
}

case ${1:-} in
--sum)
	sum_sources
	;;
--print)
	figures
	;;
--check | "")
	figures >"$work/figures"
	render "$work/figures" >"$work/document"
	if [ "${1:-}" = --check ]; then
		diff "$document" "$work/document" || {
			echo "docs/proof.md: run tools/proof-doc.sh" >&2
			exit 1
		}
		echo "docs/proof.md: the figures are what the results say"
	elif ! cmp -s "$document" "$work/document"; then
		cat "$work/document" >"$document"
	fi
	;;
*)
	sed -n '3,12p' "$0" >&2
	exit 64
	;;
esac
