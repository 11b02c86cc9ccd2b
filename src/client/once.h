/* SPDX-License-Identifier: MIT */
/* One operation on a lock, outside of the core: sent once, and answered or not. For what is not about this
 * session's own holds: breaking, and renewing or releasing a hold that nobody keeps. */
#ifndef SNECK_CLIENT_ONCE_H
#define SNECK_CLIENT_ONCE_H

#include "client/ask.h"
#include "client/client.h"

/* Writes a script call, with the script's text or without. */
typedef int (*once_encode_fn)(sneck_client *client, const void *what, bool full_text, struct buf *out);

/* Send what `encode` writes, with the script's text if the server asks for it. The answer is in `*ret_asks`,
 * which is the caller's to free. SNECK_EUNKNOWN: sent, and no answer by the deadline. */
int snecki_once_script(sneck_client *client, once_encode_fn encode, const void *what, int64_t deadline_ns,
        struct asks **ret_asks, sneck_error *reterr);

struct once_op {
	const struct dialect *dialect;         /* the lock's */
	const struct dialect_session *session; /* in whose name */
	struct lock_op op;
	const void *name;
	size_t name_len;
};
/* 0: the server's answer is in `*ret`, which is then neither LOCK_FAILED nor LOCK_UNKNOWN; of LOCK_BROKEN
 * `reterr` has the reason. If the queue had more to do than one call does, it is told to. */
int snecki_once_op(sneck_client *client, const struct once_op *once, int64_t deadline_ns,
        struct lock_outcome *ret, sneck_error *reterr);

/* The last answer said `more`. */
void snecki_once_advance(
        sneck_client *client, const struct dialect *dialect, const void *name, size_t name_len);

/* `id` is not there: say who holds the lock. Returns `code`. */
int snecki_once_gone(sneck_client *client, const void *name, size_t name_len, const char *id, int code,
        sneck_error *reterr);

#endif
