/* SPDX-License-Identifier: MIT */
/* Shell completion, made from the option tables: what the parser accepts is what is offered. Lock
 * names are asked of the server at that moment, and not waited for: 200 ms at most. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "command.h"
#include "options.h"

#define LIVE_NAMES "timeout 0.2 sneck ls -q --names 2>/dev/null"

/* Call `print` for every option of `command`, names of the same option included. */
static void each_option(
        const struct command *command, void (*print)(const struct command *, const struct option_row *)) {
	const struct option_row *rows = command->options;
	int step = 0;

	do {
		for (; rows && rows->name; rows++)
			print(command, rows);
	} while ((rows = common_options_next(command->common, &step)) != NULL);
}

/* The letter of the row that `row` is another name of was offered already. */
static void print_words(const struct command *command, const struct option_row *row) {
	(void)command;
	if (row->letter)
		printf(" -%c", row->letter);
	printf(" --%s", row->name);
}

/* "a|b:c" as "a b:c", or with the colon escaped. */
static void print_choices(const char *choices, bool escape) {
	for (; *choices; choices++) {
		if (*choices == ':' && escape)
			putchar('\\');
		putchar(*choices == '|' ? ' ' : *choices);
	}
}

static void print_command_names(void) {
	for (const struct command *const *command = commands; *command; command++)
		printf("%s%s", command == commands ? "" : " ", (*command)->name);
}

static void print_choice_list(const struct command *command) {
	for (const char *const *choice = command->choices; choice && *choice; choice++)
		printf("%s%s", choice == command->choices ? "" : " ", *choice);
}

/* ---- bash -----------------------------------------------------------------------------------*/

static void bash_value(const struct command *command, const struct option_row *row) {
	if (!row->value)
		return;
	printf("\t\t%s:--%s", command->name, row->name);
	if (row->letter)
		printf("|%s:-%c", command->name, row->letter);
	if (strchr(row->value, '|')) {
		fputs(") COMPREPLY=($(compgen -W '", stdout);
		print_choices(row->value, false);
		fputs("' -- \"$typed\"))", stdout);
		if (strchr(row->value, ':'))
			fputs("; COMPREPLY=(\"${COMPREPLY[@]#\"$lead\"}\")", stdout);
		fputs("; return ;;\n", stdout);
	} else if (!strcmp(row->value, "FILE")) {
		fputs(") COMPREPLY=($(compgen -f -- \"$word\")); return ;;\n", stdout);
	} else {
		fputs(") return ;;\n", stdout);
	}
}

static void bash_command(const struct command *command) {
	printf("\t%s)\n\t\tif [[ $word == -* ]]; then\n\t\t\tCOMPREPLY=($(compgen -W '", command->name);
	each_option(command, print_words);
	fputs(" ' -- \"$word\"))\n", stdout);
	if (command->word == WORD_LOCK || command->word == WORD_LOCK_COMMAND) {
		fputs("\t\telif [[ $words -eq 0 ]]; then\n\t\t\t_sneck_locks \"$word\"\n", stdout);
	} else if (command->word == WORD_CHOICE) {
		fputs("\t\telse\n\t\t\tCOMPREPLY=($(compgen -W '", stdout);
		print_choice_list(command);
		fputs("' -- \"$word\"))\n", stdout);
	}
	fputs("\t\tfi\n", stdout);
	if (command->word == WORD_LOCK_COMMAND)
		fputs("\t\t[[ $words -gt 0 ]] && COMPREPLY=($(compgen -c -f -- \"$word\"))\n", stdout);
	fputs("\t\t;;\n", stdout);
}

/* `with_value` lists the options whose next word is no word of the command's. */
static void bash_with_value(const struct command *command, const struct option_row *row) {
	if (!row->value)
		return;
	printf("|%s:--%s", command->name, row->name);
	if (row->letter)
		printf("|%s:-%c", command->name, row->letter);
}

static void print_bash(void) {
	/* Names are others' choice. compgen -W would expand what looks like a command in them. */
	fputs("# bash completion for sneck; made by `sneck completion bash`\n"
	      "_sneck_locks() {\n\tlocal name\n\twhile IFS= read -r name; do\n"
	      "\t\t[[ $name == \"$1\"* ]] && COMPREPLY+=(\"$(printf %q \"$name\")\")\n"
	      "\tdone < <(" LIVE_NAMES ")\n}\n"
	      "_sneck() {\n"
	      "\tlocal word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
	      "\tlocal command=${COMP_WORDS[1]} words=0 i\n\tCOMPREPLY=()\n"
	      "\tif [[ $COMP_CWORD -eq 1 ]]; then\n\t\tCOMPREPLY=($(compgen -W '",
	        stdout);
	print_command_names();
	/* Readline cuts words at a colon; what is offered stands in place of what is behind it. */
	fputs(" --help --version' -- \"$word\"))\n\t\treturn\n\tfi\n"
	      "\tlocal typed=$word lead=\n"
	      "\tif [[ $word == : && $COMP_CWORD -gt 2 ]]; then\n"
	      "\t\tlead=$previous: typed=$lead previous=${COMP_WORDS[COMP_CWORD-2]}\n"
	      "\telif [[ $previous == : && $COMP_CWORD -gt 3 ]]; then\n"
	      "\t\tlead=${COMP_WORDS[COMP_CWORD-2]}: typed=$lead$word previous=${COMP_WORDS[COMP_CWORD-3]}\n"
	      "\tfi\n"
	      "\tcase $command:$previous in\n",
	        stdout);
	for (const struct command *const *command = commands; *command; command++)
		each_option(*command, bash_value);
	fputs("\tesac\n\tfor ((i = 2; i < COMP_CWORD; i++)); do\n\t\tcase $command:${COMP_WORDS[i]} in\n"
	      "\t\tnone",
	        stdout);
	for (const struct command *const *command = commands; *command; command++)
		each_option(*command, bash_with_value);
	fputs(") ((i++)) ;;\n\t\t*:-*) ;;\n\t\t*) ((words++)) ;;\n\t\tesac\n\tdone\n\tcase $command in\n",
	        stdout);
	for (const struct command *const *command = commands; *command; command++)
		bash_command(*command);
	fputs("\tesac\n}\ncomplete -F _sneck sneck\n", stdout);
}

/* ---- zsh ------------------------------------------------------------------------------------*/

/* Help texts stand in single quotes and brackets there. */
static void print_zsh_text(const char *text) {
	for (; *text; text++) {
		if (*text == '\'')
			fputs("'\\''", stdout);
		else if (strchr("[]:\\", *text))
			printf("\\%c", *text);
		else
			putchar(*text);
	}
}

static void zsh_one(const char *dashes, const char *name, const struct option_row *row, const char *help) {
	printf("\t\t\t'%s%s%s[", dashes, name, row->value && dashes[1] ? "=" : "");
	print_zsh_text(help);
	fputs("]", stdout);
	if (row->value && strchr(row->value, '|')) {
		fputs(":value:(", stdout);
		print_choices(row->value, true);
		fputs(")", stdout);
	} else if (row->value) {
		printf(":%s:%s", row->value, !strcmp(row->value, "FILE") ? "_files" : "");
	}
	fputs("' \\\n", stdout);
}

static void zsh_option(const struct command *command, const struct option_row *row) {
	const char letter[] = { row->letter, '\0' };
	const struct option_row *described = row;

	(void)command;
	while (!described->help)
		described--;
	if (row->letter)
		zsh_one("-", letter, row, described->help);
	zsh_one("--", row->name, row, described->help);
}

static void zsh_command(const struct command *command) {
	printf("\t%s)\n\t\t_arguments -s %s\\\n", command->name, command->stops_at_word ? "-A '-*' " : "");
	each_option(command, zsh_option);
	switch (command->word) {
	case WORD_LOCK:
		fputs("\t\t\t'1:lock:_sneck_locks'\n", stdout);
		break;
	case WORD_LOCK_COMMAND:
		fputs("\t\t\t'1:lock:_sneck_locks' '*:::command:_sneck_command'\n", stdout);
		break;
	case WORD_CHOICE:
		fputs("\t\t\t'1:what:(", stdout);
		print_choice_list(command);
		fputs(")'\n", stdout);
		break;
	case WORD_NONE:
		fputs("\t\t\t':'\n", stdout);
		break;
	}
	fputs("\t\t;;\n", stdout);
}

static void print_zsh(void) {
	fputs("#compdef sneck\n# made by `sneck completion zsh`\n"
	      "_sneck_locks() {\n\tlocal -a names\n\tnames=(${(f)\"$(" LIVE_NAMES ")\"})\n"
	      "\tcompadd -a names\n}\n"
	      "_sneck_command() {\n\tif [[ $words[1] == -- ]] && (( CURRENT > 1 )); then\n"
	      "\t\tshift words\n\t\t(( CURRENT-- ))\n\tfi\n\t_normal\n}\n"
	      "_sneck() {\n\tif (( CURRENT == 2 )); then\n\t\tcompadd ",
	        stdout);
	print_command_names();
	fputs(" --help --version\n\t\treturn\n\tfi\n\tshift words\n\t(( CURRENT-- ))\n\tcase $words[1] in\n",
	        stdout);
	for (const struct command *const *command = commands; *command; command++)
		zsh_command(*command);
	fputs("\tesac\n}\n_sneck \"$@\"\n", stdout);
}

/* ---- fish -----------------------------------------------------------------------------------*/

static void print_fish_text(const char *text) {
	for (; *text; text++) {
		if (*text == '\'' || *text == '\\')
			putchar('\\');
		putchar(*text);
	}
}

/* Where a row applies: behind its command; there before or behind the first word, or anywhere. */
enum fish_place { FISH_BEFORE, FISH_BEHIND, FISH_ANYWHERE };

static void fish_where(const struct command *command, enum fish_place place) {
	printf("complete -c sneck -n '__sneck_in %s", command->name);
	if (place != FISH_ANYWHERE)
		printf("; and test (__sneck_first) %s 0", place == FISH_BEFORE ? "-eq" : "-gt");
	fputs("'", stdout);
}

static void fish_option(const struct command *command, const struct option_row *row) {
	const struct option_row *described = row;

	while (!described->help)
		described--;
	fish_where(command, command->stops_at_word ? FISH_BEFORE : FISH_ANYWHERE);
	printf(" -l %s", row->name);
	if (row->letter)
		printf(" -s %c", row->letter);
	if (row->value && strchr(row->value, '|')) {
		fputs(" -x -a '", stdout);
		print_choices(row->value, false);
		fputs("'", stdout);
	} else if (row->value) {
		fputs(!strcmp(row->value, "FILE") ? " -r -F" : " -x", stdout);
	}
	fputs(" -d '", stdout);
	print_fish_text(described->help);
	fputs("'\n", stdout);
}

static void fish_with_value(const struct command *command, const struct option_row *row) {
	if (!row->value)
		return;
	printf(" %s:--%s", command->name, row->name);
	if (row->letter)
		printf(" %s:-%c", command->name, row->letter);
}

/* __sneck_first: where the first word stands that is neither an option nor the value of one; 0: there is
 * none yet. What follows it in `run` is completed as a command line of its own. */
static void print_fish_functions(void) {
	fputs("function __sneck_in\n\tset -l tokens (commandline -opc)\n"
	      "\ttest (count $tokens) -ge 2; and test \"$tokens[2]\" = $argv[1]\nend\n"
	      "function __sneck_first\n\tset -l tokens (commandline -opc)\n\tset -l i 3\n"
	      "\twhile test $i -le (count $tokens)\n\t\tswitch \"$tokens[2]:$tokens[$i]\"\n\t\t\tcase",
	        stdout);
	for (const struct command *const *one = commands; *one; one++)
		each_option(*one, fish_with_value);
	fputs("\n\t\t\t\tset i (math $i + 1)\n\t\t\tcase '*:-*'\n\t\t\tcase '*'\n\t\t\t\techo $i\n"
	      "\t\t\t\treturn\n\t\tend\n\t\tset i (math $i + 1)\n\tend\n\techo 0\nend\n"
	      "function __sneck_command\n\tset -l tokens (commandline -opc)\n"
	      "\tset -e tokens[1..(__sneck_first)]\n"
	      "\tif test \"$tokens[1]\" = --\n\t\tset -e tokens[1]\n\tend\n"
	      "\tcomplete -C (string join ' ' -- (string escape -- $tokens) (commandline -ct))\nend\n",
	        stdout);
}

static void fish_command(const struct command *command) {
	printf("complete -c sneck -n __fish_use_subcommand -a %s -d '", command->name);
	print_fish_text(command->summary);
	fputs("'\n", stdout);
	each_option(command, fish_option);
	if (command->word == WORD_LOCK || command->word == WORD_LOCK_COMMAND) {
		fish_where(command, FISH_BEFORE);
		fputs(" -a '(" LIVE_NAMES ")'\n", stdout);
	}
	if (command->word == WORD_LOCK_COMMAND) {
		fish_where(command, FISH_BEHIND);
		fputs(" -a '(__sneck_command)'\n", stdout);
	}
	if (command->word == WORD_CHOICE) {
		fish_where(command, FISH_BEFORE);
		fputs(" -a '", stdout);
		print_choice_list(command);
		fputs("'\n", stdout);
	}
}

static void print_fish(void) {
	fputs("# fish completion for sneck; made by `sneck completion fish`\ncomplete -c sneck -f\n", stdout);
	print_fish_functions();
	fputs("complete -c sneck -n __fish_use_subcommand -l help -d 'explain sneck'\n"
	      "complete -c sneck -n __fish_use_subcommand -l version -d 'print the version'\n",
	        stdout);
	for (const struct command *const *one = commands; *one; one++)
		fish_command(*one);
}

/* ---- The command ----------------------------------------------------------------------------*/

static const char *const shells[] = { "bash", "zsh", "fish", NULL };

static int completion_main(const struct command *self, int argc, char **argv) {
	struct parsed parsed;
	int code = options_parse(self, argc, argv, NULL, NULL, &parsed);

	if (code == OPTIONS_OK)
		code = options_words(self, &parsed, 1, 1, "the shell");
	if (code != OPTIONS_OK)
		return code;
	if (!strcmp(parsed.words[0], "bash"))
		print_bash();
	else if (!strcmp(parsed.words[0], "zsh"))
		print_zsh();
	else if (!strcmp(parsed.words[0], "fish"))
		print_fish();
	else
		return usage_error(
		        self, "no completion for \"%s\": must be bash, zsh or fish", parsed.words[0]);
	return 0;
}

static const char *const examples[] = {
	"sneck completion bash > /etc/bash_completion.d/sneck",
	"sneck completion zsh > /usr/share/zsh/site-functions/_sneck",
	"sneck completion fish > ~/.config/fish/completions/sneck.fish",
	NULL,
};

const struct command command_completion = {
	.name = "completion",
	.synopsis = "bash|zsh|fish",
	.summary = "Print the shell's completion script.",
	.examples = examples,
	.word = WORD_CHOICE,
	.choices = shells,
	.main = completion_main,
};
