/* SPDX-License-Identifier: MIT */
/* Breaking holds and waits of others, and having been broken.
 *
 * The breaker's side is one script call; the core knows nothing of it, for the attempt is another
 * session's (or, if it is our own, is told like any other). The victim's side: an answer says "broken" and
 * why. The core ends the hold, and the handle keeps the reason and the name under which the server still
 * keeps what is left of the grace. The program's release of its last handle under that name is its answer:
 * it has stopped, and the lock may pass on. */
#include "client/break.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "base/clock.h"
#include "base/err.h"
#include "client/ask.h"
#include "client/look.h"

enum {
	REASON_MAX = 200,   /* bytes that reach the victim, who included */
	ADVANCES_MAX = 1000 /* a queue of the dead that is longer moves on by the waiters' own beats */
};

/* ---- The victim ---------------------------------------------------------------------------------*/

/* Under which name the hold was known when it was broken. An answer to a conversion is about the name that
 * it was to leave. */
static bool broken_name(const struct lock_op *op, uint64_t *ret_attempt, char *ret_mode) {
	switch (op->kind) {
	case OP_RENEW:
		*ret_attempt = op->attempt;
		*ret_mode = op->mode;
		return true;
	case OP_BEAT:
	case OP_UPGRADE:
		*ret_attempt = op->old ? op->old : op->attempt;
		*ret_mode = op->old ? 'R' : op->mode;
		return true;
	case OP_DOWNGRADE:
		*ret_attempt = op->old;
		*ret_mode = 'W';
		return true;
	default:
		return false;
	}
}

void snecki_hold_broken(sneck_client *client, sneck_hold *hold) {
	const struct lock_op *op = client->answering;
	char name[128], shown[320];

	hold->reason = client->answer_text ? strdup(client->answer_text) : NULL;
	if (!op || !broken_name(op, &hold->broken_attempt, &hold->broken_mode))
		hold->broken_attempt = 0;
	const char *reason = hold->reason ? hold->reason : "";
	snecki_print_name(name, sizeof name, hold->name, hold->name_len);
	snecki_print_name(shown, sizeof shown, reason, strlen(reason));
	snprintf(hold->news.event.text, sizeof hold->news.event.text, "\"%s\": broken by %s", name,
	        reason[0] ? shown : "an operator");
}

static bool same_grant(const sneck_hold *a, const sneck_hold *b) {
	return a->broken_attempt == b->broken_attempt && a->name_len == b->name_len &&
	       memcmp(a->name, b->name, a->name_len) == 0;
}

bool snecki_farewell_take(sneck_hold *hold, struct farewell *ret) {
	if (hold->lock.state != HOLD_BROKEN || !hold->broken_attempt)
		return false;
	LIST_EACH (at, &hold->client->holds) {
		const sneck_hold *other = LIST_ITEM(at, sneck_hold, all);
		if (other != hold && other->lock.state == HOLD_BROKEN && same_grant(hold, other))
			return false;
	}
	ret->op = (struct lock_op){
		.kind = OP_RELEASE, .mode = hold->broken_mode, .attempt = hold->broken_attempt
	};
	ret->name_len = hold->name_len;
	memcpy(ret->name, hold->name, hold->name_len);
	return true;
}

/* ---- One operation, outside of the core ---------------------------------------------------------*/

/* Sends what `encode` writes, with the script's text if the server asks for it. The answer is in
 * `*ret_asks`, which is the caller's to free. */
typedef int (*encode_fn)(sneck_client *client, const void *what, bool full_text, struct buf *out);

static int run_script(sneck_client *client, encode_fn encode, const void *what, int64_t deadline_ns,
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

static int encode_farewell(sneck_client *client, const void *what, bool full_text, struct buf *out) {
	const struct farewell *farewell = what;
	return client->dialect->encode(
	        &client->session, &farewell->op, farewell->name, farewell->name_len, full_text, out);
}

void snecki_farewell_say(sneck_client *client, const struct farewell *farewell, int64_t deadline_ns) {
	struct asks *asks = NULL;

	(void)run_script(client, encode_farewell, farewell, deadline_ns, &asks, NULL);
	snecki_asks_free(asks);
}

/* ---- The breaker --------------------------------------------------------------------------------*/

struct breaking {
	const char *name;
	size_t name_len;
	const char *id;
	int64_t grace_ms;
	char reason[REASON_MAX + 1];
};

static int encode_break(sneck_client *client, const void *what, bool full_text, struct buf *out) {
	const struct breaking *breaking = what;
	return client->dialect->encode_break(&client->session, breaking->name, breaking->name_len,
	        breaking->id, breaking->grace_ms, breaking->reason, full_text, out);
}

static int encode_advance(sneck_client *client, const void *what, bool full_text, struct buf *out) {
	const struct breaking *breaking = what;
	const struct lock_op op = { .kind = OP_ADVANCE };
	return client->dialect->encode(
	        &client->session, &op, breaking->name, breaking->name_len, full_text, out);
}

/* "ann@web1 (pid 4711): why"; a session that did not say who it is has its id. */
static void write_reason(const sneck_client *client, const char *why, char out[REASON_MAX + 1]) {
	const struct record *record = &client->record;
	const char *colon = why && why[0] ? ": " : "";
	int n;

	if (record->user[0])
		n = snprintf(out, REASON_MAX + 1, "%s@%s (pid %d)%s%s", record->user, record->host,
		        (int)record->pid, colon, why ? why : "");
	else
		n = snprintf(out, REASON_MAX + 1, "%s%s%s", client->session_id, colon, why ? why : "");
	if (n > REASON_MAX) { /* cut between characters */
		size_t len = REASON_MAX;
		while (len > 0 && ((unsigned char)out[len - 1] & 0xc0) == 0x80)
			len--;
		if (len > 0 && (unsigned char)out[len - 1] >= 0xc0)
			len--;
		out[len] = '\0';
	}
}

/* The queue had more to do than one call does. */
static void go_on(sneck_client *client, const struct breaking *breaking) {
	const struct lock_op op = { .kind = OP_ADVANCE };
	struct lock_outcome outcome = { .more = true };

	for (int i = 0; outcome.more && i < ADVANCES_MAX; i++) {
		struct asks *asks = NULL;
		int64_t deadline_ns = snecki_after_ms(snecki_now_ns(), client->command_ms);
		if (run_script(client, encode_advance, breaking, deadline_ns, &asks, NULL) < 0)
			return;
		client->dialect->decode(&client->session, &op, snecki_asks_reply(asks, 0), &outcome, NULL);
		snecki_asks_free(asks);
	}
}

/* It is not there: say who is. */
static int tell_holder(sneck_client *client, const struct breaking *breaking, sneck_error *reterr) {
	sneck_lock_info *info = NULL;
	char shown[128];

	snecki_print_name(shown, sizeof shown, breaking->name, breaking->name_len);
	if (snecki_look(client, breaking->name, breaking->name_len, 1, &info, NULL) < 0)
		return snecki_err(
		        reterr, SNECK_ENOTHELD, "\"%s\": %s is not there any more", shown, breaking->id);
	if (info->holder_n == 0)
		snecki_err(reterr, SNECK_ENOTHELD, "\"%s\": %s is not there any more; nobody holds it now",
		        shown, breaking->id);
	else
		snecki_err(reterr, SNECK_ENOTHELD,
		        "\"%s\": %s is not there any more; it is now held by %s (%s) as %s%s", shown,
		        breaking->id, info->parties[0].session,
		        info->parties[0].mode == SNECK_WRITE ? "write" : "read", info->parties[0].id,
		        info->holder_n > 1 ? ", and others" : "");
	snecki_lock_info_free(info);
	return SNECK_ENOTHELD;
}

int snecki_break(sneck_client *client, const void *name, size_t name_len, const char *id, const char *reason,
        int64_t grace_ms, sneck_error *reterr) {
	struct breaking breaking = { .name = name, .name_len = name_len, .id = id, .grace_ms = grace_ms };
	struct asks *asks = NULL;
	bool more = false;

	write_reason(client, reason, breaking.reason);
	int64_t deadline_ns = snecki_after_ms(snecki_now_ns(), client->command_ms);
	int r = run_script(client, encode_break, &breaking, deadline_ns, &asks, reterr);
	if (r < 0)
		return r;
	r = client->dialect->decode_break(&client->session, snecki_asks_reply(asks, 0), &more, reterr);
	snecki_asks_free(asks);
	if (more)
		go_on(client, &breaking);
	return r == SNECK_ENOTHELD ? tell_holder(client, &breaking, reterr) : r;
}
