/* SPDX-License-Identifier: MIT */
/* Which node of a cluster serves which slots, according to one of its nodes.
 *
 * The nodes are asked one at a time, on a connection of its own that is closed again: first those of the
 * URL, then those that are known by now, until one answers. How often that happens is bounded, whatever is
 * wished. All of it runs on the background thread, except snecki_slots_want. */
#ifndef SNECK_TOPOLOGY_SLOTS_H
#define SNECK_TOPOLOGY_SLOTS_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "net/endpoint.h"
#include "net/url.h"

struct sneck_error;
struct slots;
struct tls_context;

struct slot_range {
	uint16_t first, last;
	struct endpoint at; /* of the primary */
};

struct slots_config {
	const struct url *url;   /* URL_CLUSTER; borrowed */
	struct tls_context *tls; /* borrowed; NULL: plain */
	const char *client_name;
	uint32_t connect_ms, command_ms;
	const struct log *log;
	/* Another node that may be asked, `i` from 0 on; false: there are no more. */
	bool (*known)(void *ctx, size_t i, struct endpoint *ret);
	void (*on_map)(void *ctx, const struct slot_range *ranges, size_t n);
	void (*on_fail)(void *ctx, const struct sneck_error *why); /* nobody could tell */
	/* Thread: any. */
	void (*wake_background)(void *ctx);
	void *ctx;
};

int snecki_slots_new(const struct slots_config *config, struct slots **ret);
void snecki_slots_free(struct slots *slots);
void snecki_slots_abandon(struct slots *slots); /* in a forked child */
/* Thread: any. What is known may be wrong: ask, as soon as that is allowed again. on_map or on_fail follows.
 */
void snecki_slots_want(struct slots *slots);
int snecki_slots_bg_prepare(struct slots *slots, struct pollfd pfds[1], int64_t *deadline_ns);
void snecki_slots_bg_run(struct slots *slots, const struct pollfd *pfds, int n, int64_t now_ns);

#endif
