/* SPDX-License-Identifier: MIT */
/* --events-fd: what happens to a run, one JSON object per line, for programs. */
#ifndef SNECK_CLI_RUN_EVENTS_H
#define SNECK_CLI_RUN_EVENTS_H

#include <stdint.h>

struct run_events {
	int fd; /* -1: nobody listens */
	const char *name;
	const char *mode;
	const char *server;
};

/* Takes the descriptor away from the command: its reader sees the end when sneck ends. */
void run_events_init(
        struct run_events *events, int fd, const char *name, const char *mode, const char *server);
void run_events_waiting(const struct run_events *events);
void run_events_acquired(
        const struct run_events *events, const char *id, uint64_t token, int64_t waited_ms, int64_t lease_ms);
void run_events_refused(const struct run_events *events, int code);
void run_events_state(const struct run_events *events, int state, int64_t left_ms);
void run_events_released(const struct run_events *events, int64_t held_ms, int exit_code, int result);

#endif
