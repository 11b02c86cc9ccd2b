/* SPDX-License-Identifier: MIT */
/* What a command learns about the lock it runs under. The array is made before the fork, because
 * the child of a program with threads may not allocate. */
#include "run_env.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run_options.h"

enum { VARIABLES = 4 };

static const char *const names[VARIABLES] = { "SNECK_NAME=", "SNECK_TOKEN=", "SNECK_MODE=", "SNECK_SERVER=" };

static bool is_ours(const char *entry) {
	for (size_t i = 0; i < VARIABLES; i++) {
		if (!strncmp(entry, names[i], strlen(names[i])))
			return true;
	}
	return false;
}

static char *join(const char *name, const char *value) {
	char *entry;

	return asprintf(&entry, "%s%s", name, value) < 0 ? NULL : entry;
}

/* The array's first VARIABLES entries are ours to free, the others are the environment's. */
char **run_env_new(const struct run_options *options, const char *server, const sneck_hold *hold) {
	char token[32];
	size_t count = 0;

	while (environ && environ[count])
		count++;
	char **envp = calloc(VARIABLES + count + 1, sizeof(*envp));
	if (!envp)
		return NULL;
	snprintf(token, sizeof(token), "%" PRIu64, sneck_hold_token(hold));
	const char *values[VARIABLES] = { options->name, token,
		options->mode == SNECK_READ ? "read" : "write", server };
	for (size_t i = 0; i < VARIABLES; i++) {
		envp[i] = join(names[i], values[i]);
		if (!envp[i]) {
			run_env_free(envp);
			return NULL;
		}
	}
	size_t n = VARIABLES;
	for (size_t i = 0; i < count; i++) {
		if (!is_ours(environ[i]))
			envp[n++] = environ[i];
	}
	return envp;
}

void run_env_free(char **envp) {
	for (size_t i = 0; i < VARIABLES; i++)
		free(envp[i]);
	free(envp);
}
