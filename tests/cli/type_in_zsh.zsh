#!/bin/zsh -f
# SPDX-License-Identifier: MIT
# Types a line into an interactive zsh that has the completion script, then Tab, and prints the line.
#
#   zsh -f type_in_zsh.zsh COMPLETION LINE
set -eu
zmodload zsh/zpty

functions_dir=${1:h}/zsh-functions
mkdir -p $functions_dir
cp $1 $functions_dir/_sneck

zpty shell zsh -f -i
# What it prints between the marks is the line that it would run. Commands are typed in one line, so that
# the echo of the marks comes before their meaning.
zpty -w shell "PS1= fpath=(${(q)functions_dir} \$fpath); autoload -U compinit; compinit -D -u; setopt no_beep" \
	"; show() { print -r -- \"<\${:-<}\$BUFFER>\${:->}\"; BUFFER= }; zle -N show; bindkey '^Xs' show" \
	"; print REA\${:-DY}"
zpty -r -m shell answer '*READY*'
zpty -w -n shell "$2"$'\t\x18s'
zpty -r -m shell answer '*<<*>>*'
print -r -- ${${answer##*<<}%%>>*}
zpty -d shell
