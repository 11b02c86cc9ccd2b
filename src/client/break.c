/* SPDX-License-Identifier: MIT */
/* Breaking holds and waits of others, and having been broken.
 *
 * The breaker's side is one script call; the core knows nothing of it, for the attempt is another
 * session's (or, if it is our own, is told like any other). The victim's side: an answer says "broken" and
 * why. The core ends the hold, and the handle keeps the reason, the name under which the server still
 * keeps what is left of the grace, and how long that is: the program must have stopped by then. The program's
 * release of its last handle under that name is its answer: it has stopped, and the lock may pass on. */
#include "client/break.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "base/clock.h"
#include "base/err.h"
#include "client/once.h"

enum {
	REASON_MAX = 200 /* bytes that reach the victim, who included */
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

int64_t snecki_kept_until(const sneck_client *client, int64_t kept_ms, int64_t sent_ns) {
	if (kept_ms > SNECK_LEASE_MAX_MS) /* no lease is longer: the server's clock has stepped back */
		kept_ms = SNECK_LEASE_MAX_MS;
	int64_t sure_ms = kept_ms - snecki_core_margin_ms(client->core, kept_ms);

	return sure_ms > 0 ? sent_ns + sure_ms * NS_PER_MS : 0;
}

void snecki_grace_cut(sneck_client *client, uint64_t attempt, int64_t kept_ms) {
	/* Too long by the time that the message took, which cannot be known: a hint, as all messages. */
	int64_t until_ns = snecki_kept_until(client, kept_ms, snecki_now_ns());

	LIST_EACH (at, &client->holds) {
		sneck_hold *hold = LIST_ITEM(at, sneck_hold, all);
		if (hold->lock.state != HOLD_BROKEN || hold->broken_attempt != attempt ||
		        hold->grace_until_ns <= until_ns)
			continue;
		hold->grace_until_ns = until_ns;
		snecki_event_post(client, &hold->news);
	}
}

void snecki_hold_broken(sneck_client *client, sneck_hold *hold) {
	const struct lock_op *op = client->answering;
	char name[128], shown[320];

	hold->reason = client->answer_text ? strdup(client->answer_text) : NULL;
	if (!op || !broken_name(op, &hold->broken_attempt, &hold->broken_mode))
		hold->broken_attempt = 0;
	hold->grace_until_ns = client->answer_kept_ns;
	if (hold->lock.fixed_until_ns < hold->grace_until_ns)
		hold->grace_until_ns = hold->lock.fixed_until_ns;
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
	ret->dialect = hold->dialect;
	ret->name_len = hold->name_len;
	memcpy(ret->name, hold->name, hold->name_len);
	return true;
}

void snecki_farewell_say(sneck_client *client, const struct farewell *farewell, int64_t deadline_ns) {
	const struct once_op once = { .dialect = farewell->dialect,
		.session = &client->session,
		.op = farewell->op,
		.name = farewell->name,
		.name_len = farewell->name_len };
	struct lock_outcome outcome;

	(void)snecki_once_op(client, &once, deadline_ns, &outcome, NULL);
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

int snecki_break(sneck_client *client, const void *name, size_t name_len, const char *id, const char *reason,
        int64_t grace_ms, sneck_error *reterr) {
	struct breaking breaking = { .name = name, .name_len = name_len, .id = id, .grace_ms = grace_ms };
	struct asks *asks = NULL;
	bool more = false;

	write_reason(client, reason, breaking.reason);
	int64_t deadline_ns = snecki_after_ms(snecki_now_ns(), client->command_ms);
	int r = snecki_once_script(client, encode_break, &breaking, deadline_ns, &asks, reterr);
	if (r < 0)
		return r;
	r = client->dialect->decode_break(&client->session, snecki_asks_reply(asks, 0), &more, reterr);
	snecki_asks_free(asks);
	if (more)
		snecki_once_advance(client, client->dialect, name, name_len);
	return r == SNECK_ENOTHELD ? snecki_once_gone(client, name, name_len, id, r, reterr) : r;
}
