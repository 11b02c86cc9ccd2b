#!/bin/sh
# SPDX-License-Identifier: MIT
# The manual, the command's help and its completion say the same: every exit code of --help, every
# command and every option of the tables, and no other. The manual renders without a complaint.
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

# Both ways: what the tables have is in the manual, and the manual has no option of its own.
"$sneck" help options | cut -f 3 | sort -u >"$work/options"
[ "$(wc -l <"$work/options")" -ge 30 ]
grep '^\.It .*Fl ' "$manual" | grep -oE '(Fl|,) -[a-z-]+' | sed -E 's/.* -//' | sort -u >"$work/documented"
if ! diff "$work/options" "$work/documented" >"$work/difference"; then
	echo "options of the command (<) and of $manual (>) differ:"
	grep '^[<>]' "$work/difference"
	bad=1
fi
"$sneck" help options | cut -f 2 | grep -v '^-$' | sort -u >"$work/letters"
while read -r letter; do
	if ! grep -qE "^\.It .*Fl $letter( |\$)" "$manual"; then
		echo "option -$letter is not in $manual"
		bad=1
	fi
done <"$work/letters"

# Each command has a synopsis, and help that begins with its usage and has examples.
"$sneck" --help | sed -nE '/^Commands:/,/^$/s/^  ([a-z]+) .*/\1/p' >"$work/commands"
[ "$(wc -l <"$work/commands")" -ge 13 ]
while read -r command; do
	if ! grep -qx "\.Cm $command" "$manual"; then
		echo "command $command is not in $manual"
		bad=1
	fi
	"$sneck" help "$command" >"$work/help"
	"$sneck" "$command" --help >"$work/its-help"
	if ! cmp -s "$work/help" "$work/its-help" || ! head -n 1 "$work/help" | grep -q "^usage: sneck $command" ||
		! sed -n 5p "$work/help" | grep -qE '^  .*sneck'; then
		echo "sneck $command --help does not begin with usage, summary and examples"
		bad=1
	fi
done <"$work/commands"

# The completion scripts are scripts, and know every command and option.
for shell in bash zsh fish; do
	"$sneck" completion "$shell" >"$work/completion.$shell"
	if ! "$shell" -n "$work/completion.$shell"; then
		echo "completion $shell is no script, or there is no $shell (tools/setup dev)"
		bad=1
	fi
	while read -r option; do
		if ! grep -qE -e "--$option|-l $option" "$work/completion.$shell"; then
			echo "completion $shell lacks --$option"
			bad=1
		fi
	done <"$work/options"
done

groff -mdoc -Tutf8 -ww "$manual" >/dev/null 2>"$work/complaints" || bad=1
if [ -s "$work/complaints" ]; then
	cat "$work/complaints"
	bad=1
fi
exit "$bad"
