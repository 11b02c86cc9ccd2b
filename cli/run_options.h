/* SPDX-License-Identifier: MIT */
#ifndef SNECK_CLI_RUN_OPTIONS_H
#define SNECK_CLI_RUN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include <sneck/sneck.h>

#include "command.h"
#include "options.h"

/* The command line of `sneck run`. Strings are argv's. */
struct run_options {
	struct parsed parsed;
	const char *name;
	char **argv;    /* the command, ends with NULL */
	char *shell[4]; /* argv of -c */
	sneck_mode mode;
	int64_t wait_ms;
	int64_t lease_ms;      /* 0: not given */
	int64_t kill_after_ms; /* from the signal to SIGKILL */
	int64_t min_hold_ms;   /* 0: none */
	int64_t max_hold_ms;   /* 0: none */
	int64_t retry_connect_ms;
	int conflict_exit_code;
	int stop_signal;
	int events_fd;  /* -1: none */
	int ack;        /* replicas; -1: not given */
	int64_t ack_ms; /* 0: not given */
	uint32_t policy;
	const char *note;
	bool quiet;
	bool skip;
	bool warn_only; /* --on-lost=warn */
	bool foreground;
	bool reentrant;
	bool fixed; /* a lease that is not renewed: not for `run` */
	bool conflict_code_given;
	char *script; /* of -c */
};

/* The lease is renewed at a third and suspect at a half: in the last quarter it is in danger, and no part
 * of it before that may be spent on stopping. */
enum { KILL_AFTER_LEASE_PART = 4 };

extern const struct option_row run_option_rows[];

/* OPTIONS_OK, or the exit code with which to end (help was asked for, or the usage is wrong and has
 * been complained about). */
int run_options_parse(const struct command *command, int argc, char **argv, struct run_options *ret);

/* For commands that take locks: what SNECK_ACK says, unless --ack was given. OPTIONS_OK, or an exit code. */
int run_options_ack(const struct command *command, struct run_options *options);
enum { ACK_REPLICAS_MAX = 1000 };

/* Once the settings are known: the lease that counts (0: not configured). */
void run_options_settle(struct run_options *options, int64_t configured_lease_ms);

#endif
