/* SPDX-License-Identifier: MIT */
/* Carrying out what the core wants, and bringing back what the server says.
 *
 * The core's `send` only puts a call into the outbox; snecki_client_unlock submits the outbox in order
 * once the event is over. The first thread's request is written by itself, and its parker makes it
 * the natural reader of the answer: no other thread is involved in an uncontended lock.
 *
 * Who submits does so for everybody, in order (send.c), so an answer that net gives from inside a submit (out
 * of memory, closing) must not run an event there and then: it is deferred to the background thread. */
#include "client/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <hiredis/hiredis.h>

#include <sneck/error.h>

#include "base/clock.h"
#include "base/err.h"
#include "client/break.h"
#include "client/carry.h"
#include "net/server_error.h"

_Static_assert(
        sizeof(struct lock_call) % _Alignof(struct carried) == 0, "what follows a call must be aligned");

size_t snecki_client_call_extra(void) {
	return sizeof(struct carried);
}

/* ---- Answers ------------------------------------------------------------------------------------*/

/* Submits and unlocks, but leaves the waiters asleep. */
static void unlock_quietly(sneck_client *client);

/* Locked. The call is gone afterwards. */
static void answer_locked(
        struct carried *carried, const struct lock_outcome *outcome, const struct sneck_error *error) {
	sneck_client *client = carried->client;
	int64_t sent_ns = carried->req.sent_ns;
	const char *detail = error && error->code ? error->text : NULL;

	snecki_buf_done(&carried->req.bytes);
	if (carried->req.conn)
		snecki_call_of(carried)->lane = snecki_servers_lane(client->servers, &carried->req);
	client->answer_code = detail ? error->code : 0;
	if (detail)
		memcpy(client->answer_word, error->server, sizeof client->answer_word);
	struct lock_op op;
	if (outcome->status == LOCK_BROKEN) {
		op = snecki_call_of(carried)->op; /* the core frees the call before it is done */
		client->answering = &op;
		client->answer_kept_ns = snecki_kept_until(client, outcome->kept_ms, sent_ns);
	}
	client->answer_text = detail;
	snecki_core_reply(client->core, snecki_call_of(carried), outcome, detail, sent_ns, snecki_now_ns());
	client->answer_text = NULL;
	client->answering = NULL;
	client->answer_code = 0;
}

static void answer(sneck_client *client, struct carried *const *carried, size_t n,
        const struct lock_outcome *outcomes, const struct sneck_error *error) {
	snecki_client_lock(client);
	for (size_t i = 0; i < n; i++)
		answer_locked(carried[i], &outcomes[i], error);
	snecki_end_late(client);
	if (atomic_load(&client->closing))
		pthread_cond_broadcast(&client->changed);
	unlock_quietly(client);
}

static bool inside_submit(sneck_client *client) {
	return atomic_load(&client->submitter) == (uintptr_t)pthread_self();
}

static void defer(
        struct carried *carried, const struct lock_outcome *outcome, const struct sneck_error *error) {
	sneck_client *client = carried->client;

	carried->outcome = *outcome;
	if (error && error->code && (carried->error = malloc(sizeof *error)))
		*carried->error = *error;
	pthread_mutex_lock(&client->defer_mutex);
	snecki_list_append(&client->deferred, &carried->node);
	pthread_mutex_unlock(&client->defer_mutex);
}

void snecki_carried_answer(struct carried *const *carried, size_t n, const struct lock_outcome *outcomes,
        const struct sneck_error *error, bool from_read) {
	sneck_client *client = carried[0]->client;

	if (inside_submit(client)) {
		for (size_t i = 0; i < n; i++)
			defer(carried[i], &outcomes[i], error);
		snecki_client_wake_for_deferred(client);
		return;
	}
	answer(client, carried, n, outcomes, error);
	if (!from_read) /* else net says when it has read everything */
		snecki_client_wake_done(client);
}

void snecki_client_run_deferred(sneck_client *client) {
	for (;;) {
		pthread_mutex_lock(&client->defer_mutex);
		if (snecki_list_empty(&client->deferred)) {
			pthread_mutex_unlock(&client->defer_mutex);
			return;
		}
		struct carried *carried = LIST_ITEM(client->deferred.next, struct carried, node);
		snecki_list_remove(&carried->node);
		pthread_mutex_unlock(&client->defer_mutex);
		struct lock_outcome outcome = carried->outcome; /* the core frees what it lies in */
		struct sneck_error *error = carried->error;
		answer(client, &carried, 1, &outcome, error);
		free(error);
		snecki_client_wake_done(client);
	}
}

bool snecki_script_unknown(const struct redisReply *reply) {
	return reply->type == REDIS_REPLY_ERROR &&
	       snecki_server_error_find(reply->str, (size_t)reply->len)->action == ACT_EVAL;
}

/* It did not run. False: nobody wants it any more; else the caller may submit, in order with everything that
 * the core sends, and ends its turn. */
static bool begin_resending(struct carried *carried) {
	sneck_client *client = carried->client;

	snecki_client_lock(client);
	bool wanted = snecki_call_wanted(snecki_call_of(carried));
	if (wanted)
		snecki_turn_begin(client);
	else
		pthread_mutex_unlock(&client->mutex);
	return wanted;
}

/* The server has never seen the script, or has forgotten it: it did not run, so send its text. That
 * puts it behind what was sent meanwhile, perhaps behind its own withdrawal: then it is not sent. */
static bool resend_with_text(struct carried *carried) {
	sneck_client *client = carried->client;

	carried->full_text = true;
	/* Its thread may have left by now; it is woken by the result, wherever that is read. */
	carried->req.parker = NULL;
	if (!begin_resending(carried))
		return false;
	snecki_carried_submit(carried); /* from here on it may be answered, and gone */
	snecki_turn_end(client);
	return true;
}

/* The same, when another server has the lock, or this one had it not yet. */
static bool resend_elsewhere(struct req *req, void (*send)(struct req *req, void *to), void *to) {
	struct carried *carried = LIST_ITEM(req, struct carried, req);
	sneck_client *client = carried->client;

	if (!begin_resending(carried))
		return false;
	atomic_store(&client->submitter, (uintptr_t)pthread_self());
	send(req, to);
	atomic_store(&client->submitter, 0);
	snecki_turn_end(client);
	return true;
}

/* The server has run the renewal; how many replicas have it? `reply` is WAIT's. */
static void count_acks(const struct lock_call *call, const struct redisReply *reply,
        struct lock_outcome *outcome, struct sneck_error *detail) {
	if (reply->type == REDIS_REPLY_ERROR) {
		outcome->code = snecki_server_error_fill(reply->str, (size_t)reply->len, detail);
		return;
	}
	long long acked = reply->type == REDIS_REPLY_INTEGER && reply->integer > 0 ? reply->integer : 0;
	outcome->acked = acked < UINT32_MAX ? (uint32_t)acked : UINT32_MAX;
	if (outcome->acked < call->ack_replicas)
		snecki_err(detail, SNECK_EREPLICAS,
		        "%u of %u replicas have acknowledged the grant in %u ms, and it was undone; are they "
		        "up, "
		        "and linked to the primary (sneck doctor, INFO replication)? Else ask for fewer, or "
		        "for "
		        "longer",
		        (unsigned)outcome->acked, (unsigned)call->ack_replicas, (unsigned)call->ack_ms);
}

void snecki_no_reply(const struct req *req, enum req_status status, const struct sneck_error *error,
        struct lock_outcome *ret, struct sneck_error *retdetail) {
	if (status == REQ_NOT_SENT) {
		ret->status = LOCK_FAILED;
		ret->code = error ? error->code : SNECK_ECONN;
	} else {
		ret->status = LOCK_UNKNOWN;
	}
	if (error)
		*retdetail = *error;
	if (error && status == REQ_UNKNOWN && req->acked)
		snecki_err(retdetail, SNECK_EREPLICAS,
		        "the connection broke before the replicas had acknowledged: %s", error->text);
}

/* The server's time moves on between two answers, so one that shows the same time as the answer before it on
 * its connection is that one: answers and requests are out of step. The name in it tells only whose it is,
 * and two requests about one attempt may follow each other. */
bool snecki_answer_is_new(const struct req *req, const struct lock_outcome *outcomes, size_t n) {
	for (size_t i = 0; i < n; i++) {
		if (outcomes[i].server_us == 0)
			continue; /* it tells no time */
		int64_t *last_us = snecki_conn_word(req->conn);
		bool is_new = outcomes[i].server_us != *last_us;
		*last_us = outcomes[i].server_us;
		return is_new;
	}
	return true;
}

/* Thread: whichever reads. */
static void request_done(struct req *req, enum req_status status, const struct redisReply *reply,
        const struct sneck_error *error) {
	struct carried *carried = (struct carried *)(void *)((char *)req - offsetof(struct carried, req));
	const struct lock_op *op = &snecki_call_of(carried)->op;
	struct lock_outcome outcome = { 0 };
	struct sneck_error detail = { 0 };

	switch (status) {
	case REQ_REPLY:
		if (carried->full_text || !snecki_script_unknown(reply)) {
			snecki_carried_dialect(carried)->decode(
			        &carried->client->session, op, reply, &outcome, &detail);
			if (!snecki_answer_is_new(req, &outcome, 1))
				outcome = (struct lock_outcome){ .status = LOCK_UNKNOWN };
			if (reply->type == REDIS_REPLY_ERROR &&
			        snecki_server_error_find(reply->str, (size_t)reply->len)->action ==
			                ACT_REDISCOVER)
				snecki_conn_break(req->conn, "the server is no primary any more");
			if (outcome.status == LOCK_UNKNOWN && reply->type != REDIS_REPLY_ERROR)
				snecki_conn_break(req->conn, "an answer was not about its request");
			if (req->acked && outcome.status == LOCK_GRANTED)
				count_acks(snecki_call_of(carried), req->second, &outcome, &detail);
		} else if (resend_with_text(carried)) {
			return;
		} else {
			outcome.status = LOCK_FAILED; /* it did not run, and nobody wants it any more */
			outcome.code = SNECK_ESERVER;
		}
		break;
	case REQ_NOT_SENT:
	case REQ_UNKNOWN:
		snecki_no_reply(req, status, error, &outcome, &detail);
		break;
	}
	snecki_carried_answer(&carried, 1, &outcome, &detail, status == REQ_REPLY);
}

/* ---- Requests -----------------------------------------------------------------------------------*/

/* When a renewal must have been answered, lest the connection be dead: with a fifth of the lease for each,
 * two more fit behind the first, which goes out when a third has passed, before the lease can end. Only
 * leases below five times the command time come to less than that. */
uint32_t snecki_renewal_hurry(const struct lock_op *op) {
	int64_t fifth_ms = op->lease_ms / 5;

	if (op->kind != OP_RENEW || op->must_write) /* that waits for replicas, and nobody for it */
		return 0;
	return fifth_ms < UINT32_MAX ? (uint32_t)fifth_ms : UINT32_MAX;
}

/* WAIT counts what was written by its own connection: it goes right behind the renewal. */
static void add_wait(const struct lock_call *call, struct req *req) {
	req->acked = call->ack_replicas > 0;
	req->patience_ms = call->ack_ms;
	if (!req->acked)
		return;
	snecki_buf_resp_array(&req->bytes, 3);
	snecki_buf_resp_str(&req->bytes, "WAIT");
	snecki_buf_resp_u64(&req->bytes, call->ack_replicas);
	snecki_buf_resp_u64(&req->bytes, call->ack_ms);
}

void snecki_request_submit(sneck_client *client, struct req *req) {
	atomic_store(&client->submitter, (uintptr_t)pthread_self());
	snecki_servers_submit(client->servers, req);
	atomic_store(&client->submitter, 0);
}

void snecki_carried_submit(struct carried *carried) {
	sneck_client *client = carried->client;
	const struct dialect *dialect = snecki_carried_dialect(carried);
	struct lock_call *call = snecki_call_of(carried);

	snecki_buf_clear(&carried->req.bytes);
	carried->req.hurry_ms = snecki_renewal_hurry(&call->op);
	int r = dialect->encode(&client->session, &call->op, carried->name, carried->name_len,
	        carried->full_text, &carried->req.bytes);
	add_wait(call, &carried->req);
	if (r == 0) {
		snecki_request_submit(client, &carried->req);
		return;
	}
	struct lock_outcome outcome = { .status = LOCK_FAILED, .code = r };
	struct sneck_error error = { 0 };
	if (r == SNECK_ENOTSUP)
		snecki_err(&error, r, "the %s dialect cannot do this", dialect->name);
	defer(carried, &outcome, &error);
	snecki_client_wake_for_deferred(client);
}

/* From now on there are messages worth hearing. */
static void listen_from_now(sneck_client *client) {
	if (client->subscribed_once)
		return;
	client->subscribed_once = true;
	snecki_servers_hear(client->servers);
}

static void on_send(void *ctx, struct lock_call *call, const char *name, size_t name_len) {
	sneck_client *client = ctx;
	struct carried *carried = snecki_carried_of(call);

	carried->client = client;
	carried->name = name;
	carried->name_len = name_len;
	carried->req.done = request_done;
	carried->req.resend = resend_elsewhere;
	carried->req.parker = client->current ? &client->current->parker : NULL;
	snecki_list_append(&client->outbox, &carried->node);
	client->outbox_n++;
	snecki_record_begin(client);
	if ((call->op.queue || call->op.kind == OP_RENEW) && !call->layout->polls && !client->session.sharded)
		listen_from_now(client);
}

void snecki_client_lock(sneck_client *client) {
	pthread_mutex_lock(&client->mutex);
}

static void take_list(struct list *from, struct list *to) {
	snecki_list_init(to);
	snecki_list_splice(to, from);
}

static void wake_all(struct list *done) {
	if (snecki_list_empty(done))
		return;
	struct wakes wakes = { 0 };
	LIST_EACH (at, done) {
		struct waiter *waiter = LIST_ITEM(at, struct waiter, woken);
		snecki_parker_wake_with(&waiter->parker, &wakes); /* the waiter may be gone from here on */
	}
	snecki_wakes_send(&wakes);
}

/* `done`: waiters to be woken, as soon as the mutex is free. They come before what is to be sent: what is
 * sent along with a grant is for the lease's sake, and the new holder need not wait for it. */
static void submit_and_unlock(sneck_client *client, struct list *done) {
	int64_t due_ns = snecki_core_next_due(client->core);
	bool wake = due_ns < client->background_due_ns, any = !snecki_list_empty(&client->outbox),
	     record = false, ours = false;
	uint64_t number = 0;
	struct list batch;

	if (wake)
		client->background_due_ns = due_ns; /* nobody else needs to tell it */
	if (any) {
		record = snecki_record_take(client);
		ours = snecki_line_up(client, &number, &batch);
	}
	if (client->current && any)
		client->current->sent_number = number;
	client->current = NULL;
	pthread_mutex_unlock(&client->mutex);
	wake_all(done);
	if (wake)
		snecki_client_wake(client);
	if (ours)
		snecki_send_line(client, &batch);
	if (record) { /* behind the first lock that is asked for, which does not wait for it */
		snecki_sent_await(client, number);
		snecki_record_write(client);
	}
}

void snecki_client_wake_done(void *ctx) {
	sneck_client *client = ctx;
	struct list done;

	pthread_mutex_lock(&client->mutex);
	take_list(&client->done, &done);
	pthread_mutex_unlock(&client->mutex);
	wake_all(&done);
}

void snecki_client_unlock(sneck_client *client) {
	struct list done;

	take_list(&client->done, &done);
	submit_and_unlock(client, &done);
}

/* The mutex may be destroyed as soon as it is unlocked: whoever closes has to take it to see the count. */
bool snecki_client_unlock_and_leave(sneck_client *client) {
	if (!snecki_list_empty(&client->outbox) || !snecki_list_empty(&client->done) ||
	        snecki_core_next_due(client->core) < client->background_due_ns ||
	        atomic_load(&client->closing))
		return false;
	client->current = NULL;
	client->left++;
	pthread_mutex_unlock(&client->mutex);
	return true;
}

static void unlock_quietly(sneck_client *client) {
	struct list none;

	snecki_list_init(&none);
	submit_and_unlock(client, &none);
}

/* ---- Results ------------------------------------------------------------------------------------*/

static void async_result(sneck_client *client, struct waiter *waiter) {
	struct lock_wish *wish = &waiter->wish;
	struct event_node *node = waiter->event;
	sneck_hold *hold = waiter->hold;
	struct sneck_error error = { 0 };

	node->event.tag = wish->tag;
	node->event.code = wish->code;
	if (wish->code == 0) {
		node->event.type = SNECK_EVENT_ACQUIRED;
		node->event.hold = hold;
		node->event.state = SNECK_HELD;
		node->event.token = hold->lock.token;
	} else {
		node->event.type = SNECK_EVENT_REFUSED;
		snecki_wish_error(client, wish, hold->name, hold->name_len, -1, &error);
		memcpy(node->event.text, error.text, sizeof node->event.text);
		snecki_hold_free(hold);
	}
	snecki_event_post(client, node);
	free(waiter);
}

static void on_complete(void *ctx, struct lock_wish *wish) {
	sneck_client *client = ctx;
	struct waiter *waiter = (struct waiter *)(void *)((char *)wish - offsetof(struct waiter, wish));

	if (wish->code < 0 && client->answer_code == wish->code)
		memcpy(waiter->server, client->answer_word, sizeof waiter->server);
	if (wish->code == SNECK_EBROKEN && !wish->detail[0] && client->answer_text)
		snprintf(wish->detail, sizeof wish->detail, "%s", client->answer_text);
	if (snecki_core_shares(client->core) && !client->dialect->traits.polls)
		listen_from_now(client); /* who shares must hear when another session wants its turn */
	if (waiter->async)
		async_result(client, waiter);
	else
		snecki_list_append(&client->done, &waiter->woken);
}

static void set_hold_fd(const sneck_hold *hold) {
	uint64_t value = 1;
	ssize_t n;

	if (hold->fd < 0)
		return;
	if (hold->lock.state == HOLD_HELD)
		n = read(hold->fd, &value, sizeof value);
	else
		n = write(hold->fd, &value, sizeof value);
	(void)n;
}

static void on_state(void *ctx, struct lock_hold *lock) {
	sneck_client *client = ctx;
	sneck_hold *hold = (sneck_hold *)(void *)((char *)lock - offsetof(sneck_hold, lock));

	set_hold_fd(hold);
	memset(&hold->news.event, 0, sizeof hold->news.event);
	hold->news.event.type = SNECK_EVENT_STATE;
	hold->news.event.hold = hold;
	hold->news.event.state = (int)lock->state;
	hold->news.event.token = lock->token;
	hold->news.event.code = lock->state == HOLD_LOST     ? SNECK_ELOST
	                        : lock->state == HOLD_BROKEN ? SNECK_EBROKEN
	                                                     : 0;
	if (lock->state == HOLD_BROKEN)
		snecki_hold_broken(client, hold);
	snecki_event_post(client, &hold->news);
}

static void on_own_id(
        void *ctx, const struct lock_traits *layout, char mode, uint64_t attempt, char ret_id[LOCK_ID_MAX]) {
	sneck_client *client = ctx;
	snecki_dialect_of(layout)->hold_id(&client->session, mode, attempt, ret_id);
}

/* Without memory for it nothing is heard: what waits looks by itself, only later. */
static void on_listen(void *ctx, const struct lock_traits *layout, const char *name, size_t name_len,
        uint64_t attempt, bool on) {
	sneck_client *client = ctx;
	struct buf channel = BUF_INIT, subject = BUF_INIT;

	int r = snecki_dialect_of(layout)->lock_channel(&client->session, name, name_len, attempt, &channel);
	snecki_buf_add(&subject, &layout, sizeof layout); /* whose lock the messages are about */
	snecki_buf_add(&subject, name, name_len);
	if (r == 0 && !on)
		snecki_servers_unlisten(client->servers, channel.data, channel.len);
	else if (r == 0 && !subject.failed)
		r = snecki_servers_listen(client->servers, channel.data, channel.len,
		        client->session.sharded && !snecki_dialect_of(layout)->plain_channels, subject.data,
		        subject.len);
	if (r < 0 || subject.failed)
		snecki_log(&client->log, LOG_WARN_, "out of memory for a subscription");
	snecki_buf_done(&channel);
	snecki_buf_done(&subject);
}

const struct lock_hooks snecki_client_hooks = {
	.send = on_send,
	.complete = on_complete,
	.state = on_state,
	.own_id = on_own_id,
	.listen = on_listen,
};
