#!/bin/bash
# SPDX-License-Identifier: MIT
# The first five minutes of somebody who has never seen sneck, step by step, with nothing configured:
# doctor, run, ls, being refused with the holder's name, waiting, kill -9 and take-over, a token that
# grew, break, the cron line, and the C program of the README.
#
#   tests/cli/first_five_minutes.sh SNECK SOURCE_DIR LIBRARY…      what to link, in this order
set -eu

sneck=$1
root=$2
shift 2
work=$(mktemp -d)
jobs_running=
export HOME="$work/home" SNECK_LOCAL_DIR="$work/local"
unset SNECK_URL REDIS_URL XDG_CONFIG_HOME XDG_CACHE_HOME 2>/dev/null || true
mkdir "$HOME"

finish() {
	code=$?
	for job in $jobs_running; do
		kill -9 "$job" 2>/dev/null || true
	done
	"$sneck" server stop >/dev/null 2>&1 || true
	[ "$code" -eq 0 ] || cat "$work"/*.err 2>/dev/null || true
	rm -rf "$work"
}
trap finish EXIT

fail() {
	echo "FAILED: $*" >&2
	exit 1
}

# hears SECONDS PIPE PATTERN: wait for a line that matches; what comes is kept in PIPE.err.
hears() {
	local line deadline=$((SECONDS + $1))
	while read -r -t $((deadline - SECONDS)) line; do
		printf '%s\n' "$line" >>"$work/$2.err"
		[[ $line =~ $3 ]] && return 0
	done <>"$work/$2"
	fail "in vain: $3 from $2"
}

# expect CODE command…: it exits with CODE; what it prints is in out and err.
expect() {
	want=$1
	shift
	got=0
	"$@" >"$work/out" 2>"$work/err" || got=$?
	[ "$got" -eq "$want" ] || fail "exit $got instead of $want: $* $(cat "$work/out" "$work/err")"
}

has() { # file text
	grep -qF -- "$2" "$work/$1" || fail "\"$2\" is not in $1: $(cat "$work/$1")"
}

holder_id() {
	"$sneck" show demo --json | sed -nE '/"holders"/,/]/s/.*"id": "([^"]*)".*/\1/p' | head -n 1
}

echo "1. sneck alone says what it is and gives examples"
expect 64 "$sneck"
has err "sneck run backup"

echo "2. doctor: something useful with no configuration"
expect 0 "$sneck" doctor
has out "PASS  reach"
has out "OK: this server is fit for locks"

echo "3. run: the command's output and exit code, and one line about local:"
expect 3 "$sneck" run demo -- sh -c 'echo "it is mine"; exit 3'
has out "it is mine"
has err "this machine only"
expect 0 "$sneck" run --server local: demo -- true
[ ! -s "$work/err" ] || fail "naming local: does not silence: $(cat "$work/err")"
export SNECK_URL=local:
first_token=$("$sneck" run demo -- sh -c 'echo $SNECK_TOKEN')

echo "4. ls: who holds what"
mkfifo "$work/begun" "$work/alive" "$work/waiter" "$work/in"
"$sneck" run --lease 3s -m "first steps" demo -- \
	sh -c 'echo begun >"$0"; exec sleep 600 >"$1"' "$work/begun" "$work/alive" 2>"$work/holder.err" &
holder=$!
jobs_running="$jobs_running $holder"
hears 10 begun begun
exec 5<"$work/alive" # the command has the other end, and nobody else
expect 0 "$sneck" ls
has out "NAME  MODE   HOLDER"
has out ":$holder "
has out "first steps"

echo "5. refused, with the holder named and what to type next"
expect 75 "$sneck" run -n demo -- echo never
has err '"demo" is held'
has err ", pid $holder"
has err "note:    first steps"
has err "sneck break demo --id $(holder_id) -m"
[ ! -s "$work/out" ] || fail "the command ran"
expect 75 "$sneck" try demo

echo "6. waiting: whoever waits is told for whom"
exec 6<>"$work/waiter" # stays open when nobody listens
"$sneck" run demo -- echo "my turn" >"$work/waiter.out" 2>&6 &
waiter=$!
jobs_running="$jobs_running $waiter"
hears 10 waiter 'waiting for "demo", held by .*first steps.*0 ahead of you'
expect 0 "$sneck" show demo
has out "1 holding, 1 waiting"

echo "7. kill -9: the command dies with its wrapper, and the next one takes over when the lease has ended"
kill -9 "$holder"
timeout 10 cat <&5 >/dev/null || fail "the command lives on"
wait "$holder" 2>/dev/null || true
wait "$waiter" || fail "the waiter did not get it: $(cat "$work/waiter.err")"
grep -qx "my turn" "$work/waiter.out" || fail "no turn"

echo "8. a token that grew"
second_token=$("$sneck" run demo -- sh -c 'echo $SNECK_TOKEN')
[ "$second_token" -gt "$first_token" ] || fail "$second_token is not greater than $first_token"

echo "9. break: exactly that hold; its holder is told who and why, and stops"
"$sneck" run demo -- sh -c 'echo begun >"$0"; exec sleep 600' "$work/in" 2>"$work/victim.err" &
victim=$!
jobs_running="$jobs_running $victim"
hears 10 in begun
id=$(holder_id)
expect 0 "$sneck" break demo --id "$id" -m "only a test"
got=0
wait "$victim" || got=$?
[ "$got" -eq 79 ] || fail "the victim exits with $got"
has victim.err "only a test"
expect 75 "$sneck" break demo --id "$id" -m "once more"
expect 0 "$sneck" try demo

echo "10. the cron line, with cron's environment: it runs, and is skipped quietly while another has it"
"$sneck" help cron >"$work/cron"
has cron "sneck run --skip --min-hold 30s report"
grep -qF "sneck run --skip --min-hold 30s report" "$root/README.md" || fail "the README has no cron line"
for step in first second; do
	expect 0 env -i HOME="$HOME" PATH=/usr/bin:/bin SHELL=/bin/sh SNECK_LOCAL_DIR="$SNECK_LOCAL_DIR" \
		/bin/sh -c "$sneck run --server local: --skip --min-hold 30s report -- touch '$work/report-$step'"
	[ ! -s "$work/out" ] && [ ! -s "$work/err" ] || fail "cron would send mail: $(cat "$work/out" "$work/err")"
done
[ -e "$work/report-first" ] || fail "the report did not run"
[ ! -e "$work/report-second" ] || fail "the report ran twice"

echo "11. the C program of the README"
sed -n '/^```c$/,/^```$/p' "$root/README.md" | sed '1d;$d' >"$work/order.c"
lines=$(grep -c . "$work/order.c")
[ "$lines" -ge 10 ] && [ "$lines" -le 15 ] || fail "the program has $lines lines"
# shellcheck disable=SC2086 # a list of options
"${CC:-cc}" ${CFLAGS:-} -std=c11 -Wall -Wextra -Werror -I "$root/include" "$work/order.c" "$@" -o "$work/order"
expect 0 "$work/order"
grep -qE '^order 42, token [0-9]+$' "$work/out" || fail "the program said: $(cat "$work/out")"

echo "done"
