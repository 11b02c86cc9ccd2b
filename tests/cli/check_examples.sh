#!/bin/bash
# SPDX-License-Identifier: MIT
# Every example of the help texts and of the manual is a command line that works: the shell parses it, sneck
# accepts it, and what it runs was run. Programs that the examples run are stand-ins which do nothing but
# leave a trace; the servers they name are the private one.
#
#   tests/cli/check_examples.sh SNECK MANUAL
set -eu

sneck=$1
manual=$2
work=$(mktemp -d)
export SNECK_LOCAL_DIR=$work/local SNECK_URL=local: HOME=$work
unset SNECK_HELD REDIS_URL
mkdir "$work/bin"
ln -s "$sneck" "$work/bin/sneck"
for name in backup report rsync make put tar; do
	printf '#!/bin/sh\n: >%s/ran\n' "$work" >"$work/bin/$name"
	chmod +x "$work/bin/$name"
done
PATH=$work/bin:$PATH
# shellcheck disable=SC2317 # the trap calls it
cleanup() {
	sneck server stop -q || true
	rm -rf "$work"
}
trap cleanup EXIT
bad=0
count=0

# As it would be typed on a machine where those servers and places exist.
adapt() {
	sed -E -e 's|redis://cache-1|local:|g' -e 's|/usr/local/bin/||g' -e 's|> (/etc\|/usr\|~)[^ ]*|>/dev/null|' \
		-e 's|^\*/5 \* \* \* \* ||'
}
# The hold that some of them speak of. A server that is stopped has forgotten those before.
begin() {
	sneck server stop -q
	id=
	case $1 in
	unlock | renew | try | break | show | server)
		id=$(sneck lock -n --lease 10m deploy)
		id=${id% *}
		;;
	esac
}
try() { # the codes that are fine, the line
	local code=0
	count=$((count + 1))
	rm -f "$work/ran"
	eval "$2" >"$work/out" 2>"$work/err" </dev/null || code=$?
	case " $1 " in
	*" $code "*) ;;
	*)
		printf 'exit %s of: %s\n' "$code" "$2"
		cat "$work/err"
		bad=1
		;;
	esac
	if [[ $2 =~ ^sneck\ run.*\ (--|-c)\ .*(backup|report|rsync|make|put|tar) && ! -e $work/ran ]]; then
		printf 'nothing was run by: %s\n' "$2"
		bad=1
	fi
}

sneck --help | sed -nE '/^Commands:/,/^$/s/^  ([a-z]+) .*/\1/p' >"$work/commands"
while read -r command; do
	begin "$command"
	codes=0
	case $command in
	try) codes=75 ;; # held, and that is an answer
	break) codes="0 75" ;; # the id is another machine's
	esac
	sneck help "$command" | sed -n '5,/^$/p' | sed -E -e '/^$/d' -e 's/^  //' -e 's/ {3,}.*//' | adapt >"$work/examples"
	[ -s "$work/examples" ] || {
		echo "sneck help $command has no examples"
		bad=1
	}
	while IFS= read -r line; do
		try "$codes" "$line"
	done <"$work/examples"
done <"$work/commands"
sneck --help | sed -nE 's/^  (sneck run .*[^ ])  +[a-z].*/\1/p' | adapt >"$work/examples"
[ "$(wc -l <"$work/examples")" = 3 ]
while IFS= read -r line; do
	try 0 "$line"
done <"$work/examples"

# The manual's, as man shows them.
begin manual
sed -n '/^\.Sh EXAMPLES/,/^\.Sh SEE/p' "$manual" | sed -nE 's/^\.Dl //p' | sed -e 's/\\(dq/"/g' -e 's/\\&//g' |
	adapt >"$work/examples"
[ "$(wc -l <"$work/examples")" -ge 5 ]
while IFS= read -r line; do
	try "0" "$line"
done <"$work/examples"
echo "$count examples"
[ "$count" -ge 30 ] || bad=1
exit "$bad"
