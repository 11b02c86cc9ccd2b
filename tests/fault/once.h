/* SPDX-License-Identifier: MIT */
/* Exactly once: play a scene with one message lost, cut off or late, for every message of the scene
 * and every such fault, and look at the server each time. Hundreds of cases, most of them waiting
 * for a time to pass, so they are played on many threads at once; each has its own lock, clients and
 * proxy. A case never asserts: it writes down what was wrong, and the runner fails with all of it. */
#ifndef TESTS_FAULT_ONCE_H
#define TESTS_FAULT_ONCE_H

#include <stdbool.h>

#include "locks.h"
#include "proxy.h"

struct once_scene {
	struct test_proxy proxy;
	sneck_client *client; /* through the proxy, with a short command time */
	sneck_client *other;  /* straight to the server */
	char name[48];
	sneck_hold *hold;       /* of `client` */
	sneck_hold *other_hold; /* of `other` */
	int result;             /* what the act returned */
	sneck_error error;
	char failure[2048]; /* "" as long as all is well */
};

struct once_script {
	const char *name;
	/* Before the fault is armed. May be NULL. */
	void (*prepare)(struct once_scene *scene);
	/* The call under fault; its result is kept in the scene. */
	int (*act)(struct once_scene *scene);
	/* What must be true once things have settled, while a held message is perhaps still on its way;
	 * runs again after that has been delivered. Must not change anything. */
	void (*settled)(struct once_scene *scene);
	/* Give back what is held. Afterwards the lock must be idle, and stay so. */
	void (*finish)(struct once_scene *scene);
	bool cold; /* the act makes the connection, too */
};

/* Play all cases of the scripts; true: every one was well. */
bool once_run(const struct once_script *scripts, int scripts_n);
/* The same with each error that a server may answer with, and with replies that are one late, in place of
 * messages that are lost. */
bool once_run_errors(const struct once_script *scripts, int scripts_n);

/* Note a failure (the first counts), with what the server has. */
void once_fail(struct once_scene *scene, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Wait until the server has exactly these; else note it. */
void once_expect(struct once_scene *scene, long reads, long writes, long waiters);
/* Release and note any result that is neither 0 nor `allowed`. */
void once_release(struct once_scene *scene, sneck_hold **hold, int allowed);
int once_acquire(struct once_scene *scene, sneck_mode mode, int64_t wait_ms);

#endif
