/* SPDX-License-Identifier: MIT */
#ifndef SNECK_CLI_RUN_ENV_H
#define SNECK_CLI_RUN_ENV_H

#include <sneck/sneck.h>

struct run_options;

/* The environment of a command that runs under `hold`: this process's, plus SNECK_NAME, SNECK_TOKEN,
 * SNECK_MODE and SNECK_SERVER (without password). NULL: out of memory. */
char **run_env_new(const struct run_options *options, const char *server, const sneck_hold *hold);
void run_env_free(char **envp);

#endif
