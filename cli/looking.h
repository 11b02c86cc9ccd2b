/* SPDX-License-Identifier: MIT */
/* What the commands share that look at locks and take none. */
#ifndef SNECK_CLI_LOOKING_H
#define SNECK_CLI_LOOKING_H

#include "command.h"
#include "options.h"
#include "session.h"

struct looking {
	struct parsed parsed;
	struct session session;
	const char *name; /* the first word, or NULL */
	size_t name_len;
};
/* Read the command line: `min` words (0 or 1), or one more with `pattern`. A word that is no pattern must be
 * a lock's name. OPTIONS_OK, or the exit code; in both cases session_close is the caller's to call. */
int looking_parse(struct looking *looking, const struct command *self, int argc, char **argv,
        take_option_fn take, void *ctx, int min, bool pattern);
/* Then open the session. */
int looking_open(struct looking *looking);
/* Both. */
int looking_begin(struct looking *looking, const struct command *self, int argc, char **argv,
        take_option_fn take, void *ctx, int min, bool pattern);
/* The exit code after a complaint about `error`. */
int looking_failed(const struct looking *looking, int code, sneck_error *error);
/* Ask about the lock; NULL and an exit code after a complaint. */
sneck_lock_info *looking_inspect(const struct looking *looking, size_t most, int *ret_exit);

#endif
