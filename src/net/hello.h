/* SPDX-License-Identifier: MIT */
/* The first words on a connection: who we are, and whether the server will do. */
#ifndef SNECK_NET_HELLO_H
#define SNECK_NET_HELLO_H

#include <stdbool.h>

#include "base/buf.h"
#include "net/url.h"

/* What a link must find at its other end. */
enum link_peer {
	PEER_PRIMARY, /* a server of its own, or that sentinels watch */
	PEER_SENTINEL,
	PEER_CLUSTER_PRIMARY,
	PEER_CLUSTER_NODE /* of whatever role */
};

struct redisReply;
struct sneck_error;

/* What a replica is refused with: as the server's word, since it is what a replica says to whoever writes. */
#define HELLO_IS_REPLICA "READONLY"

/* Append the greeting for `url`; returns how many replies it will bring, or SNECK_ENOMEM. The bytes
 * hold the password: wipe the buffer. `client_name` may be NULL. */
int snecki_hello_write(const struct url *url, const char *client_name, struct buf *out);

/* Judge reply number `index` of the greeting of a `peer`. 0, or:
 * SNECK_EACCES (credentials), SNECK_ENOTSUP (too old, a Sentinel), SNECK_ECONN (a replica, full),
 * SNECK_EINVAL (no such database), SNECK_ESERVER. The text never holds the password. */
int snecki_hello_check(const char *where, enum link_peer peer, int index, const struct redisReply *reply,
        struct sneck_error *reterr);

#endif
