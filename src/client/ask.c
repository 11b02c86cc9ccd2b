/* SPDX-License-Identifier: MIT */
/* Plain questions to the server.
 *
 * A question that its caller no longer waits for stays in line, so all of them live on the heap and
 * are counted: one reference is the caller's, one belongs to each question that is in line. The caller
 * is woken by the last answer. Answers are copied, because net's own are gone when done() returns. */
#include "client/ask.h"

#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "base/clock.h"
#include "base/err.h"
#include "net/server_error.h"

struct ask {
	struct req req;
	struct asks *all;
	redisReply *reply;      /* NULL: none came … */
	enum req_status status; /* … because of this */
};

struct asks {
	sneck_client *client;
	struct parker parker;
	atomic_size_t left; /* unanswered */
	atomic_int refs;
	struct sneck_error why; /* of the first that was not answered; written before `left` goes down */
	atomic_flag failed;
	size_t n;
	struct ask ask[];
};

/* ---- Copies of answers --------------------------------------------------------------------------*/

static void free_reply(redisReply *reply) {
	if (!reply)
		return;
	for (size_t i = 0; reply->element && i < reply->elements; i++)
		free_reply(reply->element[i]);
	free(reply->element);
	free(reply->str);
	free(reply);
}

/* NULL: out of memory. Net's reader bounds the depth. */
static redisReply *copy_reply(const redisReply *from) {
	redisReply *to = calloc(1, sizeof *to);

	if (!to)
		return NULL;
	to->type = from->type;
	to->integer = from->integer;
	if (from->str) {
		to->len = from->len;
		to->str = calloc(1, (size_t)from->len + 1);
		if (!to->str)
			goto fail;
		memcpy(to->str, from->str, (size_t)from->len);
	}
	if (from->elements) {
		to->element = calloc(from->elements, sizeof to->element[0]);
		if (!to->element)
			goto fail;
		for (; to->elements < from->elements; to->elements++) {
			redisReply *copy = copy_reply(from->element[to->elements]);
			if (!copy)
				goto fail;
			to->element[to->elements] = copy;
		}
	}
	return to;
fail:
	free_reply(to);
	return NULL;
}

bool snecki_reply_noscript(const struct redisReply *reply) {
	return reply->type == REDIS_REPLY_ERROR && reply->str &&
	       snecki_server_error_find(reply->str, (size_t)reply->len)->action == ACT_EVAL;
}

/* ---- Questions ----------------------------------------------------------------------------------*/

static void unref(struct asks *asks) {
	if (atomic_fetch_sub(&asks->refs, 1) != 1)
		return;
	for (size_t i = 0; i < asks->n; i++) {
		snecki_buf_done(&asks->ask[i].req.bytes);
		free_reply(asks->ask[i].reply);
	}
	snecki_parker_done(&asks->parker);
	free(asks);
}

/* Thread: whichever reads. */
static void request_done(struct req *req, enum req_status status, const struct redisReply *reply,
        const struct sneck_error *error) {
	struct ask *ask = LIST_ITEM(req, struct ask, req);
	struct asks *asks = ask->all;

	ask->status = status;
	if (status == REQ_REPLY)
		ask->reply = copy_reply(reply);
	if (!ask->reply && !atomic_flag_test_and_set(&asks->failed)) {
		if (error)
			asks->why = *error;
		else
			snecki_err(&asks->why, SNECK_ENOMEM, "out of memory for an answer");
	}
	if (atomic_fetch_sub(&asks->left, 1) == 1)
		snecki_parker_wake(&asks->parker);
	unref(asks);
}

struct asks *snecki_asks_new(sneck_client *client, size_t n) {
	struct asks *asks = calloc(1, sizeof *asks + n * sizeof asks->ask[0]);

	if (!asks)
		return NULL;
	asks->client = client;
	asks->n = n;
	snecki_parker_init(&asks->parker);
	atomic_init(&asks->left, n);
	atomic_init(&asks->refs, 1);
	atomic_flag_clear(&asks->failed);
	for (size_t i = 0; i < n; i++) {
		asks->ask[i].all = asks;
		asks->ask[i].req.done = request_done;
		asks->ask[i].req.parker = &asks->parker;
	}
	return asks;
}

struct buf *snecki_asks_bytes(struct asks *asks, size_t i) {
	return &asks->ask[i].req.bytes;
}

void snecki_asks_only(struct asks *asks, size_t i, unsigned node) {
	asks->ask[i].req.only_node = node;
}

/* All have come back. The first that has no answer decides. */
static int result(struct asks *asks, int unknown, sneck_error *reterr) {
	for (size_t i = 0; i < asks->n; i++) {
		const struct ask *ask = &asks->ask[i];
		if (ask->reply)
			continue;
		int code = ask->status == REQ_UNKNOWN ? unknown : asks->why.code;
		return snecki_err_server(
		        reterr, code, asks->why.server, strlen(asks->why.server), "%s", asks->why.text);
	}
	return 0;
}

int snecki_asks_run(struct asks *asks, int64_t deadline_ns, int unknown, sneck_error *reterr) {
	sneck_client *client = asks->client;

	atomic_fetch_add(&asks->refs, (int)asks->n);
	for (size_t i = 0; i < asks->n; i++)
		snecki_servers_submit(client->servers, &asks->ask[i].req);
	if (asks->n == 0 || snecki_servers_park(client->servers, &asks->parker, deadline_ns))
		return result(asks, unknown, reterr);
	snecki_servers_orphan_all(client->servers, &asks->parker);
	return snecki_err(reterr, unknown, "no answer from %s in time", client->display);
}

const struct redisReply *snecki_asks_reply(const struct asks *asks, size_t i) {
	return asks->ask[i].reply;
}

void snecki_asks_free(struct asks *asks) {
	if (asks)
		unref(asks);
}

/* Any question leads to all servers being known. */
static int find_servers(sneck_client *client, sneck_error *reterr) {
	struct asks *asks = snecki_asks_new(client, 1);

	if (!asks)
		return snecki_err(reterr, SNECK_ENOMEM, "out of memory");
	snecki_buf_resp_array(snecki_asks_bytes(asks, 0), 1);
	snecki_buf_resp_str(snecki_asks_bytes(asks, 0), "PING");
	int64_t deadline_ns = snecki_after_ms(snecki_now_ns(), client->connect_ms + client->command_ms);
	int r = snecki_asks_run(asks, deadline_ns, SNECK_ECONN, reterr);
	snecki_asks_free(asks);
	return r;
}

int snecki_ask_servers(sneck_client *client, unsigned **ret, size_t *ret_n, sneck_error *reterr) {
	size_t n = snecki_servers_list(client->servers, NULL, 0), most;

	if (n == 0) {
		int r = find_servers(client, reterr);
		if (r < 0)
			return r;
		n = snecki_servers_list(client->servers, NULL, 0);
	}
	most = n;
	unsigned *servers = calloc(n ? n : 1, sizeof *servers);
	if (!servers)
		return snecki_err(reterr, SNECK_ENOMEM, "out of memory");
	n = snecki_servers_list(client->servers, servers, most);
	*ret = servers;
	*ret_n = n < most ? n : most;
	return 0;
}
