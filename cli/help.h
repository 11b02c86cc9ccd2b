/* SPDX-License-Identifier: MIT */
#ifndef SNECK_CLI_HELP_H
#define SNECK_CLI_HELP_H

#include <stdio.h>

struct command;

/* `sneck --help` */
void print_help(FILE *out);
/* `sneck NAME --help` */
void print_command_help(const struct command *command, FILE *out);

#endif
