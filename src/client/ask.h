/* SPDX-License-Identifier: MIT */
/* Plain questions to the server: commands that are not about the lock table, sent in one go, with the
 * answers as they came. For looking at locks; the core knows nothing of them. */
#ifndef SNECK_CLIENT_ASK_H
#define SNECK_CLIENT_ASK_H

#include <stddef.h>
#include <stdint.h>

#include "client/client.h"

struct redisReply;
struct asks;

/* `n` questions. NULL: out of memory. */
struct asks *snecki_asks_new(sneck_client *client, size_t n);
/* Where question `i` is to be written, as one command. */
struct buf *snecki_asks_bytes(struct asks *asks, size_t i);
/* Not where its key is, but to that server: a number of snecki_servers_list. */
void snecki_asks_only(struct asks *asks, size_t i, unsigned node);
/* Send them all, once, and wait for the answers. The calling thread reads them itself when nobody else
 * does. 0: each has one. SNECK_ECONN: none was sent, or it is a matter of reading alone (`unknown` is
 * SNECK_ECONN) and no answer came; else `unknown`. */
int snecki_asks_run(struct asks *asks, int64_t deadline_ns, int unknown, sneck_error *reterr);
/* Lives as long as the questions. An error of the server is an answer. */
const struct redisReply *snecki_asks_reply(const struct asks *asks, size_t i);
/* The servers there are, as snecki_asks_only wants them; free(*ret). Finds them first, if need be. */
int snecki_ask_servers(sneck_client *client, unsigned **ret, size_t *ret_n, sneck_error *reterr);
/* Has the server forgotten a script? Nothing of that question was done. */
bool snecki_reply_noscript(const struct redisReply *reply);
/* Also before the answers have come: they are dropped then. NULL is allowed. */
void snecki_asks_free(struct asks *asks);

#endif
