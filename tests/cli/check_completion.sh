#!/bin/bash
# SPDX-License-Identifier: MIT
# Completion at work in the shell itself: commands, options, their values, the command behind `run NAME`,
# and the names of locks that are held at that moment. A lock's name is somebody else's choice:
# whatever it looks like, it is text. A shell that is not installed is a failure, not a pass.
#
#   tests/cli/check_completion.sh SNECK bash|zsh|fish
set -eu

sneck=$1
shell=$2
if ! command -v "$shell" >/dev/null; then
	echo "$shell is not installed, so its completion was not tested; tools/setup dev installs it"
	exit 1
fi
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
export SNECK_LOCAL_DIR=$work/local SNECK_URL=local: HOME=$work
unset XDG_CONFIG_HOME XDG_DATA_HOME SNECK_HELD
mkdir "$work/bin"
ln -s "$sneck" "$work/bin/sneck"
# Names are waited for 200 ms at most. On a machine where that is not enough for any program the
# names would be missing, and nothing wrong with the completion.
printf '#!/bin/sh\nshift\nexec "$@"\n' >"$work/bin/timeout"
chmod +x "$work/bin/timeout"
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

# offers_SHELL WORD…: the words of a command line, the last one being typed; prints what is offered, one
# per line. zsh is typed at: it prints the line after Tab.
# shellcheck disable=SC2317 # called by its name
offers_bash() {
	COMP_WORDS=("$@")
	COMP_CWORD=$(($# - 1))
	COMPREPLY=()
	_sneck || true
	printf '%s\n' "${COMPREPLY[@]}"
}
# shellcheck disable=SC2317
offers_zsh() {
	zsh -f "$here/type_in_zsh.zsh" "$work/completion" "$*"
}
# shellcheck disable=SC2016,SC2317
offers_fish() {
	fish --no-config -c 'source $argv[1]; complete -C "$argv[2]"' "$work/completion" "$*" | cut -f 1
}
expect() { # what is offered, then the words
	local expected=$1 got
	shift
	got=$("offers_$shell" "$@")
	if ! grep -qxF -e "$expected" <<<"$got"; then
		printf 'completion of "%s" does not offer %s, but:\n%s\n' "$*" "$expected" "$got"
		bad=1
	fi
}
expect_not() {
	local unexpected=$1 got
	shift
	got=$("offers_$shell" "$@")
	if grep -qF -e "$unexpected" <<<"$got"; then
		printf 'completion of "%s" offers %s\n' "$*" "$unexpected"
		bad=1
	fi
}

sneck completion "$shell" >"$work/completion"
# shellcheck source=/dev/null
[ "$shell" != bash ] || source "$work/completion"
hostile="\$(touch $work/executed)"
sneck run plain -- sneck run 'two words' -- sneck run "$hostile" -- sh -c "echo >$work/held; cat $work/open" &
holder=$!
read -r _ <"$work/held"

case $shell in
bash)
	expect run sneck r
	expect --on-lost sneck run --on
	expect warn sneck run --on-lost ""
	expect redisson:fair sneck run --dialect red
	expect fair sneck run --dialect redisson : f # readline cuts words at a colon
	expect fair sneck run --dialect redisson :
	expect 'two\ words' sneck show tw
	expect "$(printf %q "$hostile")" sneck show ""
	;;
zsh)
	# What is typed is completed as far as it is certain.
	expect 'sneck run ' sneck ru
	expect 'sneck run --on-lost=' sneck run --on
	expect 'sneck run --on-lost=warn ' sneck run --on-lost=w
	expect 'sneck run --dialect=redisson:rwlock ' sneck run --dialect=redisson:r
	expect 'sneck show two\ words ' sneck show tw
	expect "sneck show \\\$\\(touch\\ $work/executed\\) " sneck show "\\\$"
	;;
fish)
	expect run sneck r
	expect --on-lost sneck run --on
	expect warn sneck run --on-lost ""
	expect redisson:fair sneck run --dialect redisson:f
	expect 'two words' sneck show tw
	expect "$hostile" sneck show ""
	;;
esac
line() { # what the line is after Tab, and in other shells what is offered
	[ "$shell" = zsh ] && printf '%s %s ' "$1" "$2" || printf %s "$2"
}
expect "$(line 'sneck server' stop)" sneck server sto
expect "$(line 'sneck help' exit-codes)" sneck help ex
expect "$(line 'sneck ls' --json)" sneck ls --js
expect "$(line 'sneck run -w 3' plain)" sneck run -w 3 pl
expect "$(line 'sneck unlock' plain)" sneck unlock pl
expect "$(line 'sneck run plain --' false)" sneck run plain -- fals
expect "$(line 'sneck run plain' false)" sneck run plain fals
# Behind NAME the options are the command's.
expect_not --kill-after sneck run plain true --kil
if [ -e "$work/executed" ]; then
	echo "the name of a lock was executed"
	bad=1
fi
: >"$work/open"
wait "$holder"
holder=
exit "$bad"
