#!/bin/sh
# SPDX-License-Identifier: MIT
# The manual of the library: it names every function, code, event, state, flag and option field of the
# headers, renders without a complaint, and its example compiles with warnings as errors and runs
# against a server.
#
#   tests/docs/check_libsneck.sh SOURCE_DIR LIBRARY…      what to link, in this order
set -eu

root=$1
shift
manual=$root/docs/man/libsneck.3
work=$(mktemp -d)
server=
finish() {
	[ -z "$server" ] || kill "$server" 2>/dev/null || true
	rm -rf "$work"
}
trap finish EXIT
missing=0

need() { # what pattern-to-find
	if ! grep -qE -- "$2" "$manual"; then
		echo "$manual: $1 is missing" >&2
		missing=$((missing + 1))
	fi
}

tr '\n' ' ' <"$root/include/sneck/sneck.h" >"$work/header"
functions=$(grep -oE 'SNECK_API [^;]*;' "$work/header" | grep -oE 'sneck_[a-z_]+\(' | tr -d '(' | sort -u)
[ "$(echo "$functions" | wc -l)" -ge 25 ]
for name in $functions; do
	need "$name" "^\.Fn $name( |$)"
done
for name in $(grep -oE 'X\(SNECK_[A-Z]+' "$root/include/sneck/error.h" | tr -d '(X'); do
	need "$name" "^\.It Dv $name$"
done
for name in $(grep -ohE '\bSNECK_(EVENT|OPEN|POLICY|LOG|OUTCOME)_[A-Z_]+|\bSNECK_(HELD|SUSPECT|LOST|BROKEN)\b' \
	"$root/include/sneck/sneck.h" "$root/include/sneck/error.h" | sort -u |
	grep -vE '^SNECK_(POLICY_DEFAULT|OUTCOME_OK)$'); do
	need "$name" "\b$name\b"
done
fields() {
	sed -E 's@/[*]([^*]|[*][^/])*[*]/@@g' "$work/header" | grep -oE "typedef struct $1 \{[^}]*\}" | grep -oE '[a-z_]+;' | tr -d ';' |
		grep -v '^size$'
}
for name in $(fields sneck_client_options) $(fields sneck_acquire_options); do
	need "option $name" "^\.It Va .*\b$name\b"
done

groff -mdoc -Tutf8 -ww "$manual" >/dev/null 2>"$work/complaints" || missing=$((missing + 1))
if [ -s "$work/complaints" ]; then
	cat "$work/complaints" >&2
	missing=$((missing + 1))
fi

# The example, as a reader would copy it.
awk '/^\.Bd -literal/ { on = 1; next } /^\.Ed/ { on = 0 } on' "$manual" | sed 's/\\e/\\/g' >"$work/example.c"
grep -q 'int main' "$work/example.c"
# shellcheck disable=SC2086 # a list of options
${CC:-cc} -std=c11 -Wall -Wextra -Wpedantic -Werror ${CFLAGS-} -I "$root/include" "$work/example.c" "$@" -o "$work/example"
${SNECK_TEST_SERVER:-redis-server} --port 0 --unixsocket "$work/s" --save '' --dir "$work" >"$work/log" 2>&1 &
server=$!
waited=0
until [ -S "$work/s" ]; do
	sleep 0.05
	waited=$((waited + 1))
	[ "$waited" -lt 200 ]
done
first=$("$work/example" "unix://$work/s")
second=$("$work/example" "unix://$work/s")
echo "$first, $second"
[ "${first#token }" -lt "${second#token }" ]
[ "$missing" = 0 ]
