/* SPDX-License-Identifier: MIT */
/* What the commands share that look at locks and take none. */
#ifndef SNECK_CLI_LOOKING_H
#define SNECK_CLI_LOOKING_H

#include "command.h"
#include "options.h"
#include "session.h"

/* Read the command line, check that there are `min` to `max` words, the first of them (if any) a lock's
 * name unless `pattern`, and open the session. OPTIONS_OK, or the exit code; in both cases
 * session_close is the caller's to call. */
struct looking {
	struct parsed parsed;
	struct session session;
	const char *name; /* the first word, or NULL */
	size_t name_len;
};
int looking_begin(struct looking *looking, const struct command *self, int argc, char **argv,
        take_option_fn take, void *ctx, int min, bool pattern);
/* The exit code after a complaint about `error`. */
int looking_failed(const struct looking *looking, int code, sneck_error *error);
/* Ask about the lock; NULL and an exit code after a complaint. */
sneck_lock_info *looking_inspect(const struct looking *looking, size_t most, int *ret_exit);

#endif
