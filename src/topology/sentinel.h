/* SPDX-License-Identifier: MIT */
/* Where the primary of a service is, according to its sentinels.
 *
 * One sentinel at a time is asked, and listened to: it says at once when the primary has moved, and is asked
 * again from time to time, in case that it was missed. A sentinel that cannot be reached, or does not know
 * the service, or named a server that turns out not to be the primary, is followed by the next.
 *
 * All of it runs on the background thread. */
#ifndef SNECK_TOPOLOGY_SENTINEL_H
#define SNECK_TOPOLOGY_SENTINEL_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "net/endpoint.h"
#include "net/url.h"

struct sneck_error;
struct sentinel;
struct tls_context;

struct sentinel_config {
	const struct url *url;   /* URL_SENTINEL; borrowed */
	struct tls_context *tls; /* borrowed; NULL: plain */
	const char *client_name;
	uint32_t connect_ms, command_ms;
	const struct log *log;
	/* What snecki_sentinel_where says has changed. Called from snecki_sentinel_bg_run. */
	void (*on_change)(void *ctx);
	void *ctx;
};

/* As whom to greet a sentinel; borrows from `url`. */
struct url snecki_sentinel_login(const struct url *url);
int snecki_sentinel_new(const struct sentinel_config *config, struct sentinel **ret);
void snecki_sentinel_free(struct sentinel *sentinel);
void snecki_sentinel_abandon(struct sentinel *sentinel); /* in a forked child */
/* 1: the primary; 0: the sentinels are being asked, on_change follows; negative: none of them could tell.
 * After that they are asked again by the next call. `ret` NULL: is it known? */
int snecki_sentinel_where(struct sentinel *sentinel, struct endpoint *ret, struct sneck_error *reterr);
/* There is no connection to the server that was named any more: do not believe that sentinel, ask the next.
 */
void snecki_sentinel_doubt(struct sentinel *sentinel, int64_t now_ns);
/* The server that was named could not be used. True: because it is a replica, so that sentinel is behind, and
 * another is being asked; false: there is none left that has not been tried. */
bool snecki_sentinel_elsewhere(struct sentinel *sentinel, const struct sneck_error *why, int64_t now_ns);

int snecki_sentinel_bg_prepare(struct sentinel *sentinel, struct pollfd pfds[1], int64_t *deadline_ns);
void snecki_sentinel_bg_run(struct sentinel *sentinel, const struct pollfd *pfds, int n, int64_t now_ns);

#endif
