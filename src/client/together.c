/* SPDX-License-Identifier: MIT */
/* Renewals that go together.
 *
 * The core sends one renewal for each hold and gets one answer for each. Those that it has sent in one turn,
 * and that have nothing in particular to say, are put into one request here, and the answer is taken apart
 * again: a server that keeps many locks spends more on a request than on the renewal in it.
 *
 * Order. Only neighbours in the outbox are put together, so nothing overtakes what was sent before or after
 * it. Within one request order does not matter: renewals of different locks have nothing to do with each
 * other.
 *
 * Whatever is not as expected goes by itself, as if it had not been here: single locks of which the server
 * says that nothing was done, and all of them after an error, which may be meant for one of them (a right
 * that is missing, a wrong type). A renewal creates nothing and may be sent again. What was valid until then
 * is counted from the request that was answered in the end. */
#include "client/carry.h"

#include <stdlib.h>

#include <hiredis/hiredis.h>

struct together {
	struct req req;
	sneck_client *client;
	bool full_text; /* EVAL: the server did not know the script */
	size_t n;
	struct carried *carried[RENEWALS_MAX];
	struct renewal renewals[RENEWALS_MAX];
};

/* In a cluster two locks hardly ever lie in one slot. And a lease of 1 ms asks whether a fixed hold is still
 * there, whose deadline is its own. */
static bool may_go_together(struct carried *carried) {
	const struct lock_call *call = snecki_call_of(carried);

	return call->watchdog && call->op.kind == OP_RENEW && call->op.lease_ms > 1 && call->op.token &&
	       !call->op.last_token && !call->op.must_write && !call->ack_replicas &&
	       !carried->client->session.sharded && snecki_carried_dialect(carried)->encode_renewals;
}

static bool alike(struct carried *a, struct carried *b) {
	return snecki_call_of(a)->layout == snecki_call_of(b)->layout &&
	       snecki_call_of(a)->op.lease_ms == snecki_call_of(b)->op.lease_ms;
}

/* ---- Answers ------------------------------------------------------------------------------------*/

static void free_together(struct together *all) {
	snecki_buf_done(&all->req.bytes);
	free(all);
}

static void submit_singly(sneck_client *client, struct carried *const *carried, size_t n) {
	if (n == 0)
		return;
	snecki_client_lock(client);
	snecki_turn_begin(client);
	for (size_t i = 0; i < n; i++) {
		carried[i]->req.parker = NULL; /* its thread may have left by now */
		snecki_carried_submit(carried[i]);
	}
	snecki_turn_end(client);
}

/* The answers there are; the others are asked for one by one. */
static void hand_out(struct together *all, struct lock_outcome *outcomes) {
	struct carried *answered[RENEWALS_MAX], *rest[RENEWALS_MAX];
	size_t answered_n = 0, rest_n = 0;

	for (size_t i = 0; i < all->n; i++) {
		if (outcomes[i].status == LOCK_UNKNOWN) {
			rest[rest_n++] = all->carried[i];
			continue;
		}
		all->carried[i]->req.sent_ns = all->req.sent_ns;
		all->carried[i]->req.conn = all->req.conn;
		answered[answered_n] = all->carried[i];
		outcomes[answered_n++] = outcomes[i];
	}
	if (answered_n)
		snecki_carried_answer(answered, answered_n, outcomes, NULL, true);
	submit_singly(all->client, rest, rest_n);
}

/* All of them have the same fate. */
static void fail_all(struct together *all, enum req_status status, const struct sneck_error *error) {
	struct lock_outcome outcomes[RENEWALS_MAX] = { 0 };
	struct sneck_error detail = { 0 };

	for (size_t i = 0; i < all->n; i++) {
		snecki_no_reply(&all->req, status, error, &outcomes[i], &detail);
		all->carried[i]->req.sent_ns = all->req.sent_ns;
		all->carried[i]->req.conn = all->req.conn;
	}
	snecki_carried_answer(all->carried, all->n, outcomes, &detail, status == REQ_REPLY);
}

static bool submit_together(struct together *all);

static bool resend_with_text(struct together *all) {
	sneck_client *client = all->client;

	all->full_text = true;
	snecki_client_lock(client);
	snecki_turn_begin(client);
	bool sent = submit_together(all); /* from here on it may be answered, and gone */
	snecki_turn_end(client);
	return sent;
}

/* Thread: whichever reads. */
static void together_done(struct req *req, enum req_status status, const struct redisReply *reply,
        const struct sneck_error *error) {
	struct together *all = LIST_ITEM(req, struct together, req);
	const struct dialect *dialect = snecki_carried_dialect(all->carried[0]);
	struct lock_outcome outcomes[RENEWALS_MAX];

	if (status != REQ_REPLY) {
		fail_all(all, status, error);
	} else if (reply->type == REDIS_REPLY_ERROR) {
		if (!all->full_text && snecki_script_unknown(reply) && resend_with_text(all))
			return;
		submit_singly(all->client, all->carried, all->n);
	} else if (dialect->decode_renewals(&all->client->session, all->renewals, all->n, reply, outcomes) &&
	           snecki_answer_is_new(req, outcomes, all->n)) {
		hand_out(all, outcomes);
	} else {
		snecki_conn_break(req->conn, "an answer was not about its request");
		fail_all(all, REQ_UNKNOWN, NULL);
	}
	free_together(all);
}

/* ---- Requests -----------------------------------------------------------------------------------*/

/* Whoever is sending. False: out of memory, nothing was submitted. */
static bool submit_together(struct together *all) {
	struct carried *first = all->carried[0];

	snecki_buf_clear(&all->req.bytes);
	all->req.hurry_ms = snecki_renewal_hurry(&snecki_call_of(first)->op);
	if (snecki_carried_dialect(first)->encode_renewals(
	            &all->client->session, all->renewals, all->n, all->full_text, &all->req.bytes) < 0)
		return false;
	snecki_request_submit(all->client, &all->req);
	return true;
}

/* Whoever is sending. */
static void submit_some(sneck_client *client, struct carried *const *carried, size_t n) {
	struct together *all = n > 1 ? calloc(1, sizeof *all) : NULL;

	if (all) {
		all->client = client;
		all->req.done = together_done;
		all->n = n;
		for (size_t i = 0; i < n; i++) {
			all->carried[i] = carried[i];
			all->renewals[i] = (struct renewal){ &snecki_call_of(carried[i])->op,
				carried[i]->name, carried[i]->name_len };
		}
		if (submit_together(all))
			return;
		free_together(all);
	}
	for (size_t i = 0; i < n; i++)
		snecki_carried_submit(carried[i]);
}

/* The first of `run` and those that are like it; the others stay. */
static size_t take_alike(struct list *run, struct carried **ret) {
	size_t n = 0;

	LIST_EACH (at, run) {
		struct carried *carried = LIST_ITEM(at, struct carried, node);
		if (n == RENEWALS_MAX)
			break;
		if (n > 0 && !alike(ret[0], carried))
			continue;
		snecki_list_remove(at);
		ret[n++] = carried;
	}
	return n;
}

/* These are next in line. */
static void count_submitted(sneck_client *client, size_t n) {
	atomic_store(&client->submitted, atomic_load(&client->submitted) + n);
}

static void submit_run(sneck_client *client, struct list *run) {
	struct carried *carried[RENEWALS_MAX];
	size_t all = 0;

	while (!snecki_list_empty(run)) {
		size_t n = take_alike(run, carried);
		submit_some(client, carried, n);
		all += n;
	}
	if (all) /* not before: they have changed places */
		count_submitted(client, all);
}

void snecki_submit_all(sneck_client *client, struct list *batch) {
	struct list run;

	snecki_list_init(&run);
	LIST_EACH (at, batch) {
		struct carried *carried = LIST_ITEM(at, struct carried, node);
		snecki_list_remove(at);
		if (may_go_together(carried)) {
			snecki_list_append(&run, at);
			continue;
		}
		submit_run(client, &run);
		snecki_carried_submit(carried);
		count_submitted(client, 1);
	}
	submit_run(client, &run);
}
