/* SPDX-License-Identifier: MIT */
/* Bytes in, replies out: hiredis' parser with bounds on what a server can make us allocate. Knows
 * nothing of sockets. One thread at a time. */
#ifndef SNECK_NET_READER_H
#define SNECK_NET_READER_H

#include <stddef.h>

struct reader;
struct redisReply;
struct sneck_error;

enum {
	READER_REPLY_MAX = 1 << 20,    /* bytes of one reply */
	READER_ELEMENTS_MAX = 1 << 17, /* elements of all arrays of one reply */
	READER_DEPTH_MAX = 7           /* arrays within arrays */
};

struct reader *snecki_reader_new(void); /* NULL: out of memory */
void snecki_reader_free(struct reader *reader);
/* 0 or SNECK_ENOMEM. */
int snecki_reader_feed(struct reader *reader, const char *data, size_t len, struct sneck_error *reterr);
/* 1: `*ret` is the next reply; freeReplyObject() it. 0: more bytes are needed. Negative: the stream is
 * not RESP2, or passes a bound; the connection must be closed. */
int snecki_reader_next(struct reader *reader, struct redisReply **ret, struct sneck_error *reterr);

#endif
