/* SPDX-License-Identifier: MIT */
/* What a user must be allowed to do, by role: a dialect has a table of it, and the rest is the same for
 * all. The server is asked by a script, for it then checks keys and channels with the command, under the
 * rights of whoever asks, and none of the commands is called. */
#ifndef SNECK_DIALECT_RIGHTS_H
#define SNECK_DIALECT_RIGHTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "dialect/dialect.h"

struct redisReply;
struct sneck_probe_info;

enum { RIGHT_WORDS_MAX = 4 };
/* In `roles`: with one of these, only where channels lie in slots, only where they do not, only in a cluster.
 */
enum { RIGHT_SHARDED = 1u << 28, RIGHT_PLAIN = 1u << 29, RIGHT_CLUSTER = 1u << 30 };

/* A command with a bar is a subcommand. In the words `$k` is a lock's key, `$r` another key that belongs to a
 * lock or a session, `$c` a channel. HELLO and AUTH need not be in a table: the server lets everybody call
 * them. */
struct right {
	const char *command;
	const char *words[RIGHT_WORDS_MAX]; /* behind the command; NULL ends them */
	unsigned roles;                     /* 1u << SNECK_ROLE_… */
};

struct rights {
	const struct right *rows;
	size_t n;
	bool plain_channels; /* in a cluster too: see struct dialect */
};

/* struct dialect's needs, encode_rights and decode_rights. */
void snecki_rights_needs(
        const struct rights *rights, const struct dialect_session *session, struct sneck_probe_info *ret);
int snecki_rights_encode(const struct rights *rights, const struct dialect_session *session,
        const struct buf *key, const struct buf *other_key, const struct buf *channel, bool reads_only,
        struct buf *out);
bool snecki_rights_decode(const struct rights *rights, const struct dialect_session *session,
        const struct redisReply *reply, struct sneck_probe_info *ret);

#endif
