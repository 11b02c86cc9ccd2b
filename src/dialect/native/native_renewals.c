/* SPDX-License-Identifier: MIT */
/* Many renewals in one request.
 *
 * A script call costs the server more than what the script does, and most renewals find the same: the hold is
 * there and nobody waits. `renew_many` serves those, and says of every other lock that nothing was done. What
 * is the matter with it, `renew` tells: gone, broken and wanted holds stay in one place.
 *
 * The last token goes with the request instead of coming with the answer: the server compares two numbers
 * sooner than it prints one. So "done" says that the token is the one that was expected.
 *
 * As with a single answer nothing is taken on trust: the number of fields, the first hold's id as an echo,
 * and the range of each number. One field that does not fit makes the whole answer one that cannot be
 * understood. */
#include "dialect/native/native.h"

#include <assert.h>

#include <hiredis/hiredis.h>
#include <sneck/error.h>

#include "dialect/native/scripts.h"
#include "dialect/reply.h"

enum { FIELD_US, FIELD_ECHO, FIELD_DEADLINE, FIELDS_BEFORE };
enum { ARGS_BEFORE = 2 };

static void hold_of(
        const struct dialect_session *session, const struct lock_op *op, char ret_id[LOCK_ID_MAX]) {
	snecki_native.hold_id(session, op->mode, op->attempt, ret_id);
}

int snecki_native_encode_renewals(const struct dialect_session *session, const struct renewal *renewals,
        size_t n, bool full_text, struct buf *out) {
	size_t start = out->len;
	char id[LOCK_ID_MAX];
	int r = 0;

	assert(n > 0 && n <= RENEWALS_MAX);
	snecki_buf_resp_array(out, 3 + n + ARGS_BEFORE + n + n);
	snecki_script_words(out, &snecki_native_scripts[NATIVE_RENEW_MANY], false, full_text);
	snecki_buf_resp_u64(out, n);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = snecki_native_add_key(out, session->name_space, renewals[i].name, renewals[i].name_len);
	snecki_buf_resp_i64(out, session->keep_ms);
	snecki_buf_resp_i64(out, renewals[0].op->lease_ms);
	for (size_t i = 0; i < n; i++) {
		assert(renewals[i].op->lease_ms == renewals[0].op->lease_ms);
		hold_of(session, renewals[i].op, id);
		snecki_buf_resp_str(out, id);
	}
	for (size_t i = 0; i < n; i++)
		snecki_buf_resp_u64(out, renewals[i].op->token);
	if (r == 0 && out->failed)
		r = SNECK_ENOMEM;
	if (r < 0 && !out->failed)
		out->len = start; /* a half-written request would shift every later one */
	return r;
}

bool snecki_native_decode_renewals(const struct dialect_session *session, const struct renewal *renewals,
        size_t n, const struct redisReply *reply, struct lock_outcome *ret) {
	struct lock_outcome granted = { .status = LOCK_GRANTED };
	char id[LOCK_ID_MAX];

	if (reply->type != REDIS_REPLY_ARRAY || reply->elements != FIELDS_BEFORE + n)
		return false;
	redisReply *const *field = reply->element;
	hold_of(session, renewals[0].op, id);
	if (!snecki_reply_i64(field[FIELD_US], &granted.server_us) ||
	        !snecki_reply_is(field[FIELD_ECHO], id) ||
	        !snecki_reply_i64(field[FIELD_DEADLINE], &granted.deadline_ms) || granted.deadline_ms == 0)
		return false;
	for (size_t i = 0; i < n; i++) {
		int64_t done;
		if (!snecki_reply_i64(field[FIELDS_BEFORE + i], &done) || done > 1)
			return false;
		ret[i] = (struct lock_outcome){ .status = LOCK_UNKNOWN };
		if (done) {
			ret[i] = granted;
			ret[i].token = renewals[i].op->token;
		}
	}
	return true;
}
