#!/bin/sh
# SPDX-License-Identifier: MIT
# The manual and the command say the same: every exit code of --help with its text, and every option
# of `sneck run --help`, is in the manual, and the manual renders without a complaint.
#
#   tests/cli/check_manual.sh SNECK MANUAL
set -eu

sneck=$1
manual=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bad=0

"$sneck" --help | sed -nE 's/^ +([0-9]+)  (.*)/\1/p' >"$work/codes"
[ "$(wc -l <"$work/codes")" -ge 9 ]
while read -r code; do
	if ! grep -qxF ".It $code" "$manual"; then
		echo "exit code $code is not in $manual"
		bad=1
	fi
done <"$work/codes"

"$sneck" run --help | grep -oE '^ +(-[a-zA-Z], )?--[a-z-]+' | grep -oE -e '--[a-z-]+' | sed 's/^--//' >"$work/options"
[ "$(wc -l <"$work/options")" -ge 9 ]
while read -r option; do
	if ! grep -qE "^\.It .*Fl .*, -$option( |$)|^\.It Fl -$option( |$)" "$manual"; then
		echo "option --$option is not in $manual"
		bad=1
	fi
done <"$work/options"

if command -v groff >/dev/null 2>&1; then
	groff -mdoc -Tutf8 -ww "$manual" >/dev/null 2>"$work/complaints"
	if [ -s "$work/complaints" ]; then
		cat "$work/complaints"
		bad=1
	fi
fi
exit "$bad"
