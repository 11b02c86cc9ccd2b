/* SPDX-License-Identifier: MIT */
/* A small process between sneck and the command. It outlives a sneck that is killed, stopped or hung
 * for long enough to end the command and everything that the command has started. */
#ifndef SNECK_CLI_GUARDIAN_H
#define SNECK_CLI_GUARDIAN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct child_setup;

/* From sneck: how things stand. Each message replaces the one before. */
struct guardian_order {
	int64_t deadline_ms; /* CLOCK_BOOTTIME: kill everything then; 0: never */
	bool kill_now;       /* kill everything at once */
	bool kill_rest;      /* when the command has ended, kill what it has left behind */
};

/* To sneck. */
enum guardian_news_kind {
	GUARDIAN_STARTED = 1, /* the command's process is `pid` */
	GUARDIAN_STOPPED = 2, /* the command was stopped by job control */
	GUARDIAN_EXPIRED = 3, /* the deadline came before another order: everything is being killed */
	GUARDIAN_FAILED = 4   /* there is no process for the command; `pid` is the errno */
};
struct guardian_news {
	int kind;
	pid_t pid;
};

struct guardian_setup {
	const struct child_setup *child;
	int tty;        /* give its foreground to the command; -1: do not */
	int control_fd; /* SOCK_SEQPACKET; its other end is sneck's life */
	int report_fd;  /* gets the errno when the command cannot be executed; closed by exec */
	pid_t group;    /* sneck's, for a command that shall stay in it */
};

/* Be the guardian: in a process that was just forked. When the command has ended it is left as a
 * zombie for whoever inherits it, so that its number stays taken until sneck has looked. */
_Noreturn void guardian_main(const struct guardian_setup *setup);

#endif
