/* SPDX-License-Identifier: MIT */
/* What a command learns about the lock it runs under, and what a sneck inside it reads back. */
#ifndef SNECK_CLI_RUN_ENV_H
#define SNECK_CLI_RUN_ENV_H

#include <stdbool.h>
#include <stdint.h>

#include <sneck/sneck.h>

struct held_lock {
	const char *name;
	const char *mode; /* "read" or "write" */
	const char *id;
	uint64_t token;     /* 0: its dialect has none */
	const char *server; /* without password */
	const char *family; /* namespace or dialect */
};

/* The environment of a command that runs under `lock`, taken by this process: this process's, plus
 * SNECK_NAME, SNECK_ID, SNECK_TOKEN, SNECK_MODE, SNECK_SERVER and SNECK_HELD. NULL: out of memory. */
char **run_env_new(const struct held_lock *lock);
void run_env_free(char **envp);

/* A sneck run around this one that holds the same lock (name, server, namespace count), read from
 * SNECK_HELD. */
struct outer_lock {
	char *mode;
	char *id;
	char *token;
	int pid; /* of that sneck */
};
/* False: there is none, or it has ended. True: free with outer_lock_done. */
bool find_outer_lock(const struct held_lock *wanted, struct outer_lock *ret);
void outer_lock_done(struct outer_lock *outer);

#endif
