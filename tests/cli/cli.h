/* SPDX-License-Identifier: MIT */
/* The sneck command as a test runs it: its own process group, output into files, dead with the
 * test. */
#ifndef SNECK_TESTS_CLI_H
#define SNECK_TESTS_CLI_H

#include <stdbool.h>
#include <sys/types.h>

struct test_server;

enum { CLI_TEXT_MAX = 4096 };

struct cli {
	pid_t pid; /* 0: reaped */
	int in_fd; /* its standard input; closed by cli_wait */
	char out_path[128];
	char err_path[128];
	char text[CLI_TEXT_MAX]; /* what cli_out or cli_err read last */
};

/* Start `sneck args…` (ends with NULL) with SNECK_URL naming `server`; what it prints goes to files
 * in the server's directory. */
void cli_start(struct cli *cli, const struct test_server *server, const char *const *args);
/* The same for any program; `program` is found in PATH. */
void cli_start_program(
        struct cli *cli, const struct test_server *server, const char *program, const char *const *args);
/* Close its input and wait for its end: the exit code, or minus the signal that ended it. Ends the
 * test when it takes longer. */
int cli_wait(struct cli *cli, int timeout_ms);
/* Start and wait (10 s at most). */
int cli_run(struct cli *cli, const struct test_server *server, const char *const *args);
/* What it has printed so far. */
const char *cli_out(struct cli *cli);
const char *cli_err(struct cli *cli);
/* Wait until its standard output contains `text`. */
bool cli_wait_out(struct cli *cli, const char *text, int timeout_ms);
/* Kill it if it still runs. */
void cli_kill(struct cli *cli);

/* { "run", …, NULL } */
#define CLI_ARGS(...)             \
	(const char *const[]) {   \
		__VA_ARGS__, NULL \
	}

#endif
