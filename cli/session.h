/* SPDX-License-Identifier: MIT */
/* A command's connection to the library: settings, the open client, and what its failures mean to
 * the person and to the exit code. */
#ifndef SNECK_CLI_SESSION_H
#define SNECK_CLI_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include <sneck/sneck.h>

#include "options.h"
#include "settings.h"

struct session {
	struct settings settings;
	const struct common_options *common;
	sneck_client *client; /* NULL: not open */
};

/* What a command wants of its session; zero is what a command that only looks wants. */
struct session_request {
	/* Takes locks: it is recorded on the server as `command` with `note`, and the choice of local: is
	 * said when nobody named it. */
	bool takes_locks;
	char *const *command; /* words of what runs under the lock; NULL: nothing */
	const char *note;     /* NULL: none */
	/* A server that cannot be reached is tried again for this long. `interrupted` (may be NULL) is
	 * asked between the tries; it may wait, up to the time it is given, and ends them by true. */
	int64_t retry_ms;
	bool (*interrupted)(void *ctx, int64_t wait_ms);
	void *ctx;
};

/* 0, or an exit code after a complaint. Nothing is left behind on failure. `session->settings` may have
 * been loaded before; then they are kept. Call session_close in any case. */
int session_load(struct session *session, const struct common_options *common);
int session_open(struct session *session, const struct session_request *request);
void session_close(struct session *session);

/* Say on stderr what went wrong and what to do; returns the exit code. `error` may lack a text.
 * `exit_if_invalid`: for SNECK_EINVAL, EXIT_USAGE or EXIT_CONFIG. */
int session_complain(const struct session *session, const sneck_error *error, int exit_if_invalid);

/* Is there a right that this user lacks and that holders of locks need? */
bool session_lacks_rights(const struct session *session);

/* The exit code alone. */
int exit_code_of(int sneck_code, int exit_if_invalid);

#endif
