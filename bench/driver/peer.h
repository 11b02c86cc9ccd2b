/* SPDX-License-Identifier: MIT */
/* A lock as the workloads of the driver see it: somebody who takes a name and gives it back. */
#ifndef SNECK_BENCH_PEER_H
#define SNECK_BENCH_PEER_H

#include <stdbool.h>
#include <stdint.h>

struct request;

struct peer {
	const char *name;
	const char *version;
	bool client_each; /* a client serves one thread: threads open one each */
	void *(*open)(const char *url);
	/* Blocks until it has it. `mode` is 'W' or 'R'. Every failure ends the program. */
	void *(*take)(void *client, const char *name, char mode);
	void (*give)(void *client, void *hold);
	/* Requests that only this one can answer; false: it cannot answer this one either. */
	bool (*answer)(void *client, const char *url, const struct request *request);
};

extern const struct peer peer_sneck, peer_ping, peer_scripts, peer_setnx, peer_flock;

#endif
