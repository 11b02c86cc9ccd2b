#!/bin/bash
# SPDX-License-Identifier: MIT
# bash completion at work: commands, options, their values, and the names of locks that are held at that
# moment. A lock's name is somebody else's choice: whatever it looks like, it is text.
#
#   tests/cli/check_completion.sh SNECK
set -eu

sneck=$1
work=$(mktemp -d)
export SNECK_LOCAL_DIR=$work/local SNECK_URL=local: HOME=$work
mkdir "$work/bin"
ln -s "$sneck" "$work/bin/sneck"
PATH=$work/bin:$PATH
mkfifo "$work/open" "$work/held"
holder=
# shellcheck disable=SC2317 # the trap calls it
cleanup() {
	[ -z "$holder" ] || kill "$holder" 2>/dev/null || true
	sneck server stop -q || true
	rm -rf "$work"
}
trap cleanup EXIT
bad=0

# Words of a command line, the last one being typed; prints what is offered, one per line.
offers() {
	COMP_WORDS=("$@")
	COMP_CWORD=$(($# - 1))
	COMPREPLY=()
	_sneck || true
	printf '%s\n' "${COMPREPLY[@]}"
}
expect() { # what is offered, then the words
	local expected=$1
	shift
	if ! offers "$@" | grep -qxF -e "$expected"; then
		echo "completion of \"$*\" does not offer $expected, but:"
		offers "$@"
		bad=1
	fi
}

source /dev/stdin <<<"$(sneck completion bash)"
hostile="\$(touch $work/executed)"
sneck run plain -- sneck run 'two words' -- sneck run "$hostile" -- sh -c "echo >$work/held; cat $work/open" &
holder=$!
read -r _ <"$work/held"

expect run sneck r
expect --on-lost sneck run --on
expect warn sneck run --on-lost ""
expect stop sneck server ""
expect exit-codes sneck help ex
expect 'two\ words' sneck show tw
expect plain sneck run -w 3 pl
expect "$(printf %q "$hostile")" sneck show ""
if [ -e "$work/executed" ]; then
	echo "the name of a lock was executed"
	bad=1
fi
: >"$work/open"
wait "$holder"
holder=
exit "$bad"
