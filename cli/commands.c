/* SPDX-License-Identifier: MIT */
/* The list of commands. */
#include <stddef.h>
#include <string.h>

#include "command.h"

const struct command *const commands[] = {
	&command_run,
	&command_lock,
	&command_unlock,
	&command_renew,
	&command_try,
	&command_wait,
	&command_ls,
	&command_show,
	&command_break,
	&command_doctor,
	&command_acl,
	&command_server,
	&command_completion,
	&command_help,
	NULL,
};

const struct command *find_command(const char *name) {
	for (const struct command *const *command = commands; *command; command++) {
		if (!strcmp((*command)->name, name))
			return *command;
	}
	return NULL;
}
