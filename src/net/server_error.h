/* SPDX-License-Identifier: MIT */
/* What an error reply of the server means, as one data table (server_error.c). */
#ifndef SNECK_NET_SERVER_ERROR_H
#define SNECK_NET_SERVER_ERROR_H

#include <stdbool.h>
#include <stddef.h>

struct sneck_error;

enum server_action {
	ACT_FAIL,       /* give the caller `code` */
	ACT_EVAL,       /* NOSCRIPT: send the script's text once */
	ACT_BACKOFF,    /* not now: try again within the deadline */
	ACT_REDISCOVER, /* wrong server: drop the connection, connect again */
	ACT_UNKNOWN     /* not in the table: whether it ran is not known */
};
struct server_error {
	const char *word;     /* first word of the reply, e.g. "NOSCRIPT"; "ERR" rows also need `contains` */
	const char *contains; /* NULL: the word suffices */
	bool executed_maybe;  /* a part of a script may have run */
	enum server_action action;
	int code;           /* SNECK_E… */
	const char *remedy; /* what the user can do; one sentence */
};
/* Never NULL: the last row stands for anything unknown. */
const struct server_error *snecki_server_error_find(const char *reply_text, size_t len);
/* Put the reply, its first word and the remedy into `reterr` (may be NULL); returns the row's code. */
int snecki_server_error_fill(const char *reply_text, size_t len, struct sneck_error *reterr);

#endif
