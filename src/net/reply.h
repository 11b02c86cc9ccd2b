/* SPDX-License-Identifier: MIT */
/* Answers that are flat lists of names and values, as HELLO, CONFIG GET and SENTINEL give them. */
#ifndef SNECK_NET_REPLY_H
#define SNECK_NET_REPLY_H

#include <stdint.h>

struct redisReply;

/* What is behind `key`; NULL: nothing is, or the answer is no list. */
const struct redisReply *snecki_reply_value(const struct redisReply *reply, const char *key);
/* The same if it is a string; else NULL. */
const char *snecki_reply_field(const struct redisReply *reply, const char *key);
/* The same if it is a number of 0 or more, or a string that is one; else -1. */
int64_t snecki_reply_number(const struct redisReply *reply, const char *key);

#endif
