/* SPDX-License-Identifier: MIT */
/* The subscribe connection: one socket on which the server's messages arrive. Everything here runs
 * on the background thread, except where it says otherwise. It reconnects by itself (with jittered
 * backoff) once wanted, and subscribes again. A connection that stays silent is probed with PING.
 *
 * There is one channel that stays, once it is wanted, and others that come and go, each with a subject by
 * which its user knows it. */
#ifndef SNECK_NET_SUB_H
#define SNECK_NET_SUB_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "net/hello.h"

struct sneck_error;
struct endpoint;
struct sub;
struct tls_context;

struct sub_config {
	const struct url *url;   /* borrowed */
	struct tls_context *tls; /* borrowed; NULL: plain */
	const char *client_name;
	enum link_peer peer;
	const char *channel; /* copied */
	size_t channel_len;
	int (*where)(void *ctx, struct endpoint *ret, struct sneck_error *reterr); /* as conn_config.where */
	uint32_t connect_ms;
	uint32_t command_ms;
	uint32_t ping_ms; /* a connection that has been silent for so long is probed; 0: 5000 */
	const struct log *log;
	void (*on_ready)(void *ctx); /* the server has confirmed the subscription */
	void (*on_down)(void *ctx, const struct sneck_error *why);
	void (*on_message)(void *ctx, const char *payload, size_t len);
	/* A further channel: the server has confirmed it; a message came. */
	void (*on_topic_ready)(void *ctx, const char *subject, size_t subject_len);
	void (*on_topic_message)(
	        void *ctx, const char *subject, size_t subject_len, const char *payload, size_t len);
	/* In a cluster, else NULL: the server has ended a subscription, or refused one, because the slot is
	 * not its own (any more). */
	void (*on_topic_gone)(void *ctx);
	/* Thread: any. */
	void (*wake_background)(void *ctx);
	void *ctx;
};

int snecki_sub_new(const struct sub_config *config, struct sub **ret);
void snecki_sub_free(struct sub *sub);
void snecki_sub_abandon(struct sub *sub); /* in a forked child */
/* Thread: any. From now on there shall be a subscription to the channel that stays. */
void snecki_sub_want(struct sub *sub);
/* Thread: any. Hear `channel` as well, as often as that is said; `subject` goes to the functions above.
 * `sharded`: it lies in a slot of a cluster. 0 or SNECK_ENOMEM. One that nobody hears any more is kept for a
 * while. */
int snecki_sub_listen(struct sub *sub, const char *channel, size_t channel_len, bool sharded,
        const char *subject, size_t subject_len);
bool snecki_sub_unlisten(struct sub *sub, const char *channel, size_t channel_len); /* was it there? */
/* Thread: background. Hear those channels for which `moved` says so by `to` from now on. */
void snecki_sub_move(struct sub *from, struct sub *to,
        bool (*moved)(void *ctx, const char *channel, size_t channel_len), void *ctx);
/* Thread: background. Subscribe to all of them again: some may have been refused. */
void snecki_sub_again(struct sub *sub);
/* Thread: any. The channel that stays is subscribed. */
bool snecki_sub_is_ready(struct sub *sub);
/* As snecki_conn_look_again. */
void snecki_sub_look_again(struct sub *sub, int64_t now_ns);
int snecki_sub_bg_prepare(struct sub *sub, struct pollfd pfds[2], int64_t *deadline_ns);
void snecki_sub_bg_run(struct sub *sub, const struct pollfd *pfds, int n, int64_t now_ns);

#endif
