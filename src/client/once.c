/* SPDX-License-Identifier: MIT */
/* One operation on a lock, outside of the core.
 *
 * The core keeps what this session holds and asks again until it knows. Here the hold is somebody else's, or
 * nobody's, and the one who asks is told plainly: done, not there, or no answer. What is sent this way must
 * therefore be harmless when it is executed after its caller has given up, and answer the second time what
 * the first time left behind. */
#include "client/once.h"

#include <hiredis/hiredis.h>

#include "base/clock.h"
#include "base/err.h"
#include "client/look.h"

enum { ADVANCES_MAX = 1000 }; /* a queue of the dead that is longer moves on by the waiters' own beats */

int snecki_once_script(sneck_client *client, once_encode_fn encode, const void *what, int64_t deadline_ns,
        struct asks **ret_asks, sneck_error *reterr) {
	for (int full_text = 0;; full_text++) {
		struct asks *asks = snecki_asks_new(client, 1);
		int r = asks ? encode(client, what, full_text > 0, snecki_asks_bytes(asks, 0)) : SNECK_ENOMEM;
		if (r < 0)
			snecki_err(reterr, r, "%s", sneck_strerror(r));
		else
			r = snecki_asks_run(asks, deadline_ns, SNECK_EUNKNOWN, reterr);
		if (r == 0 && full_text == 0 && snecki_reply_noscript(snecki_asks_reply(asks, 0))) {
			snecki_asks_free(asks);
			continue;
		}
		if (r == 0)
			*ret_asks = asks;
		else
			snecki_asks_free(asks);
		return r;
	}
}

static int encode_op(sneck_client *client, const void *what, bool full_text, struct buf *out) {
	const struct once_op *once = what;
	(void)client;
	return once->dialect->encode(once->session, &once->op, once->name, once->name_len, full_text, out);
}

/* One call, and what it said. */
static int call(sneck_client *client, const struct once_op *once, int64_t deadline_ns,
        struct lock_outcome *ret, sneck_error *reterr) {
	struct asks *asks = NULL;
	int r = snecki_once_script(client, encode_op, once, deadline_ns, &asks, reterr);

	if (r < 0)
		return r;
	once->dialect->decode(once->session, &once->op, snecki_asks_reply(asks, 0), ret, reterr);
	snecki_asks_free(asks);
	if (ret->status == LOCK_FAILED)
		return ret->code; /* the text is the server's */
	if (ret->status == LOCK_UNKNOWN && ret->code == 0)
		return snecki_err(reterr, SNECK_EUNKNOWN, "the server's answer cannot be understood");
	if (reterr && ret->status == LOCK_UNKNOWN)
		reterr->code = SNECK_EUNKNOWN;
	return ret->status == LOCK_UNKNOWN ? SNECK_EUNKNOWN : 0;
}

int snecki_once_op(sneck_client *client, const struct once_op *once, int64_t deadline_ns,
        struct lock_outcome *ret, sneck_error *reterr) {
	int r = call(client, once, deadline_ns, ret, reterr);

	if (r == 0 && ret->more)
		snecki_once_advance(client, once->dialect, once->name, once->name_len);
	return r;
}

void snecki_once_advance(
        sneck_client *client, const struct dialect *dialect, const void *name, size_t name_len) {
	const struct once_op advance = { .dialect = dialect,
		.session = &client->session,
		.op = { .kind = OP_ADVANCE },
		.name = name,
		.name_len = name_len };
	struct lock_outcome outcome = { .more = true };

	for (int i = 0; outcome.more && i < ADVANCES_MAX; i++) {
		int64_t deadline_ns = snecki_after_ms(snecki_now_ns(), client->command_ms);
		if (call(client, &advance, deadline_ns, &outcome, NULL) < 0)
			return;
	}
}

int snecki_once_gone(sneck_client *client, const void *name, size_t name_len, const char *id, int code,
        sneck_error *reterr) {
	sneck_lock_info *info = NULL;
	char shown[128];

	snecki_print_name(shown, sizeof shown, name, name_len);
	if (snecki_look(client, name, name_len, 1, &info, NULL) < 0)
		return snecki_err(reterr, code, "\"%s\": %s is not there any more", shown, id);
	if (info->holder_n == 0)
		snecki_err(reterr, code, "\"%s\": %s is not there any more; nobody holds it now", shown, id);
	else
		snecki_err(reterr, code,
		        "\"%s\": %s is not there any more; it is now held by %s (%s) as %s%s", shown, id,
		        info->parties[0].session, info->parties[0].mode == SNECK_WRITE ? "write" : "read",
		        info->parties[0].id, info->holder_n > 1 ? ", and others" : "");
	snecki_lock_info_free(info);
	return code;
}
