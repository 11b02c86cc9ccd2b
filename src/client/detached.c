/* SPDX-License-Identifier: MIT */
/* Holds that no session keeps.
 *
 * The id says which session made the hold, and under which counter. Requests about it are written as that
 * session would write its own, so the scripts need not know of the difference: nothing is created, nothing
 * shortened, and the name stays. What keeps this from touching the hold of a program that is alive is the
 * mark in the id (LOCK_DETACHED): a session never holds under such a name, and the bytes of the id are the
 * bytes on the server.
 *
 * The record is for people, as a session's is: it is written behind the detach and lengthened with the
 * lease. Nothing depends on it, and a failure is nobody's business. */
#include "client/detached.h"

#include <string.h>

#include <hiredis/hiredis.h>

#include "base/clock.h"
#include "base/err.h"
#include "client/once.h"

enum { RECORD_EXTRA_MS = 1000 }; /* whoever looks in the lease's last moment shall still read it */

/* ---- Records ------------------------------------------------------------------------------------*/

/* To the record functions the attempt is an id like a session's. */
static struct dialect_session owner_of_record(const sneck_client *client, const char *id) {
	struct dialect_session session = client->session;

	session.id = id + 1; /* behind the mode letter */
	return session;
}

struct writing {
	const char *id;
	int64_t ttl_ms;
};

static int encode_record(sneck_client *client, const void *what, bool full_text, struct buf *out) {
	const struct writing *writing = what;
	const struct dialect_session session = owner_of_record(client, writing->id);
	const struct session_record fields = snecki_record_fields(client);

	return client->dialect->encode_record(&session, &fields, writing->ttl_ms, full_text, out);
}

void snecki_detached_record(sneck_client *client, const char *id, int64_t lease_ms, int64_t deadline_ns) {
	const struct writing writing = { .id = id, .ttl_ms = lease_ms + RECORD_EXTRA_MS };
	struct asks *asks = NULL;

	if (!client->record.wanted)
		return;
	(void)snecki_once_script(client, encode_record, &writing, deadline_ns, &asks, NULL);
	snecki_asks_free(asks);
}

/* `ttl_ms` 0: remove it. */
static void change_record(sneck_client *client, const char *id, int64_t ttl_ms, int64_t deadline_ns) {
	const struct dialect_session session = owner_of_record(client, id);
	struct asks *asks = client->dialect->encode_record_end ? snecki_asks_new(client, 1) : NULL;

	if (!asks)
		return;
	struct buf *out = snecki_asks_bytes(asks, 0);
	int r = ttl_ms > 0 ? client->dialect->encode_record_longer(&session, ttl_ms, out)
	                   : client->dialect->encode_record_end(&session, out);
	if (r == 0)
		(void)snecki_asks_run(asks, deadline_ns, SNECK_EUNKNOWN, NULL);
	snecki_asks_free(asks);
}

void snecki_detached_forget(sneck_client *client, const char *id, int64_t deadline_ns) {
	change_record(client, id, 0, deadline_ns);
}

/* ---- By id --------------------------------------------------------------------------------------*/

/* The one request that `op` is, in the name of whoever made the id. 0, and `ret` is DONE or GRANTED. */
static int ask(sneck_client *client, const void *name, size_t name_len, const char *id, struct lock_op op,
        int64_t deadline_ns, struct lock_outcome *ret, sneck_error *reterr) {
	char maker[LOCK_HOLDER_MAX], shown[128], reason[320];
	struct dialect_session session = client->session;
	sneck_error detail = { 0, 0, "", "" };

	client->dialect->read_id(id, maker, &op.attempt);
	session.id = maker;
	op.mode = id[0];
	const struct once_op once = {
		.dialect = client->dialect, .session = &session, .op = op, .name = name, .name_len = name_len
	};
	int r = snecki_once_op(client, &once, deadline_ns, ret, &detail);
	if (r < 0) {
		if (reterr)
			*reterr = detail;
		return r;
	}
	if (ret->status == LOCK_BROKEN) {
		snecki_print_name(shown, sizeof shown, name, name_len);
		snecki_print_name(reason, sizeof reason, detail.text, strlen(detail.text));
		return snecki_err(reterr, SNECK_EBROKEN, "\"%s\": %s was broken by %s", shown, id, reason);
	}
	if (ret->status == LOCK_GONE)
		return snecki_once_gone(client, name, name_len, id, SNECK_ELOST, reterr);
	return 0;
}

int snecki_renew_id(sneck_client *client, const void *name, size_t name_len, const char *id, int64_t lease_ms,
        uint64_t *ret_token, int64_t *ret_left_ms, sneck_error *reterr) {
	const struct lock_op op = { .kind = OP_RENEW, .lease_ms = lease_ms };
	struct lock_outcome outcome;
	int64_t begin_ns = snecki_now_ns(), deadline_ns = snecki_after_ms(begin_ns, client->command_ms);

	int r = ask(client, name, name_len, id, op, deadline_ns, &outcome, reterr);
	if (r < 0)
		return r;
	int64_t left_ms = outcome.deadline_ms - outcome.server_us / 1000;
	change_record(client, id, left_ms + RECORD_EXTRA_MS, deadline_ns);
	/* The answer was given at some moment since the question left: the earliest counts. */
	left_ms -= (snecki_now_ns() - begin_ns + NS_PER_MS - 1) / NS_PER_MS;
	if (ret_token)
		*ret_token = outcome.token;
	if (ret_left_ms)
		*ret_left_ms = left_ms > 0 ? left_ms : 0;
	return 0;
}

int snecki_release_id(
        sneck_client *client, const void *name, size_t name_len, const char *id, sneck_error *reterr) {
	/* How long its lease was is not known here: the key of an idle lock need not outlast it. */
	const struct lock_op op = { .kind = OP_RELEASE, .shrink_expiry = true };
	struct lock_outcome outcome;
	int64_t deadline_ns = snecki_after_ms(snecki_now_ns(), client->command_ms);

	int r = ask(client, name, name_len, id, op, deadline_ns, &outcome, reterr);
	if (r == 0 || sneck_err_outcome(r) == SNECK_OUTCOME_LOST)
		snecki_detached_forget(client, id, deadline_ns);
	return r;
}
