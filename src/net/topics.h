/* SPDX-License-Identifier: MIT */
/* The channels of the subscribe connection that come and go: who is to be heard, and what the server
 * has yet to be told of it. Any thread may add and remove; the background thread writes the commands.
 *
 * A channel that nobody hears any more stays subscribed, as one of the last few: a lock that is waited
 * for again and again costs one subscription, not one each time. */
#ifndef SNECK_NET_TOPICS_H
#define SNECK_NET_TOPICS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/map.h"

enum { TOPICS_IDLE_MAX = 32 };

struct topics {
	pthread_mutex_t mutex;
	struct map map;
	struct list idle;      /* heard by nobody, the oldest first */
	struct list unsent;    /* to be subscribed */
	struct list forgotten; /* to be unsubscribed; not in the map any more */
	size_t idle_n;
};

/* A copy: `data` points into `bytes`. */
struct topic_subject {
	struct buf bytes;
	const char *data;
	size_t len;
};

int snecki_topics_init(struct topics *topics);
void snecki_topics_done(struct topics *topics);
/* 0 or SNECK_ENOMEM. `sharded`: it lies in a slot of a cluster. `*ret_changed`: the server has to be told. */
int snecki_topics_add(struct topics *topics, const char *channel, size_t channel_len, bool sharded,
        const char *subject, size_t subject_len, bool *ret_changed);
bool snecki_topics_remove(struct topics *topics, const char *channel, size_t channel_len); /* was it there? */
/* False: nobody is to hear it. Free ret->bytes. */
bool snecki_topics_find(
        struct topics *topics, const char *channel, size_t channel_len, struct topic_subject *ret);
/* A new connection: subscribe to everything. */
void snecki_topics_write_all(struct topics *topics, struct buf *out);
void snecki_topics_write_changes(struct topics *topics, struct buf *out);
/* Is there anything that the server has to be told before it can be heard? */
bool snecki_topics_any_unsent(struct topics *topics);
/* Those that lie in slots and for which `moved` says so go, with their listeners, from one table to another,
 * where they are yet to be subscribed. True: there were some. */
bool snecki_topics_move(struct topics *from, struct topics *to,
        bool (*moved)(void *ctx, const char *channel, size_t channel_len), void *ctx);

#endif
