/* SPDX-License-Identifier: MIT */
/* Asking a cluster for its map of slots.
 *
 * A round goes through the nodes of the URL and those that are known until one answers CLUSTER SLOTS. The
 * next round begins where the last one was answered. Between two rounds lies a pause that grows while
 * rounds are wished for and starts over after a while without a wish: a cluster that is failing over must not
 * be asked by all its clients all the time. */
#include "topology/slots.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "net/link.h"
#include "topology/command_slot.h"

enum { PAUSE_MIN_MS = 50, PAUSE_MAX_MS = 500, CALM_MS = 5000 };

struct slots {
	struct slots_config config;
	struct link link;
	atomic_bool wanted;
	bool asking;         /* a round is under way */
	size_t at;           /* who is asked: the URL's nodes first, then the known ones */
	size_t asked, round; /* of how many in this round */
	int64_t ended_ns;    /* when the last round ended; 0: there was none */
	int64_t pause_ms;
	struct sneck_error why; /* of the last node that could not tell */
	struct buf out;
	int64_t answer_ns; /* by when it must have answered */
};

int snecki_slots_new(const struct slots_config *config, struct slots **ret) {
	struct slots *slots = calloc(1, sizeof *slots);

	if (!slots)
		return SNECK_ENOMEM;
	slots->config = *config;
	slots->pause_ms = PAUSE_MIN_MS;
	atomic_init(&slots->wanted, false);
	const struct link_config link = { .url = config->url,
		.peer = PEER_CLUSTER_NODE,
		.tls = config->tls,
		.client_name = config->client_name,
		.connect_ms = config->connect_ms,
		.command_ms = config->command_ms };
	int r = snecki_link_init(&slots->link, &link);
	if (r < 0) {
		free(slots);
		return r;
	}
	*ret = slots;
	return 0;
}

void snecki_slots_free(struct slots *slots) {
	if (!slots)
		return;
	snecki_link_done(&slots->link);
	snecki_buf_done(&slots->out);
	free(slots);
}

void snecki_slots_abandon(struct slots *slots) {
	/* The background thread may have been anywhere. */
	snecki_link_abandon(&slots->link, false);
	free(slots);
}

void snecki_slots_want(struct slots *slots) {
	if (!atomic_exchange(&slots->wanted, true))
		slots->config.wake_background(slots->config.ctx);
}

/* ---- Rounds -------------------------------------------------------------------------------------*/

static size_t count_nodes(const struct slots *slots) {
	struct endpoint at;
	size_t n = 0;

	while (slots->config.known(slots->config.ctx, n, &at))
		n++;
	return slots->config.url->seeds_n + n;
}

static struct endpoint node_at(const struct slots *slots, size_t i) {
	struct endpoint at = slots->config.url->seeds[0];
	size_t seeds = slots->config.url->seeds_n;

	if (i < seeds)
		at = slots->config.url->seeds[i];
	else
		slots->config.known(slots->config.ctx, i - seeds, &at);
	return at;
}

static void begin_round(struct slots *slots, int64_t now_ns) {
	atomic_store(&slots->wanted, false);
	if (now_ns >= snecki_after_ms(slots->ended_ns, CALM_MS))
		slots->pause_ms = PAUSE_MIN_MS;
	slots->asking = true;
	slots->asked = 0;
	slots->round = count_nodes(slots);
	slots->at %= slots->round;
}

static void end_round(struct slots *slots, int64_t now_ns) {
	snecki_link_close(&slots->link);
	snecki_buf_clear(&slots->out);
	slots->asking = false;
	slots->answer_ns = 0;
	slots->ended_ns = now_ns;
	slots->pause_ms = 2 * slots->pause_ms > PAUSE_MAX_MS ? PAUSE_MAX_MS : 2 * slots->pause_ms;
}

static void ask_next(struct slots *slots, const struct sneck_error *why, int64_t now_ns) {
	snecki_log(slots->config.log, LOG_INFO_, "cluster: %s", why->text);
	/* A wrong password is told rather than that the next node does not answer. */
	if (slots->asked == 0 || slots->why.code == SNECK_ECONN)
		slots->why = *why;
	snecki_link_close(&slots->link);
	snecki_buf_clear(&slots->out);
	slots->answer_ns = 0;
	slots->at = (slots->at + 1) % slots->round;
	if (++slots->asked < slots->round)
		return;
	end_round(slots, now_ns);
	slots->config.on_fail(slots->config.ctx, &slots->why);
}

/* ---- The answer ---------------------------------------------------------------------------------*/

/* [first, last, [host, port, id, …], replicas…]. A node that does not know its own address leaves it out:
 * it is the one we are connected to. */
static bool read_range(const struct slots *slots, const redisReply *reply, struct slot_range *ret) {
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 3 ||
	        reply->element[0]->type != REDIS_REPLY_INTEGER ||
	        reply->element[1]->type != REDIS_REPLY_INTEGER ||
	        reply->element[2]->type != REDIS_REPLY_ARRAY || reply->element[2]->elements < 2)
		return false;
	long long first = reply->element[0]->integer, last = reply->element[1]->integer;
	const redisReply *host = reply->element[2]->element[0], *port = reply->element[2]->element[1];
	if (first < 0 || last < first || last >= SLOTS_N || port->type != REDIS_REPLY_INTEGER ||
	        port->integer < 1 || port->integer > UINT16_MAX)
		return false;
	ret->first = (uint16_t)first;
	ret->last = (uint16_t)last;
	ret->at = slots->link.at;
	ret->at.port = (uint16_t)port->integer;
	bool named = host->type == REDIS_REPLY_STRING && host->len > 0 && strcmp(host->str, "?") != 0;
	if (named && (size_t)host->len > ENDPOINT_HOST_MAX)
		return false;
	if (named)
		memcpy(ret->at.host, host->str, (size_t)host->len + 1);
	return true;
}

static int take_map(
        struct slots *slots, const redisReply *reply, int64_t now_ns, struct sneck_error *reterr) {
	char where[300];

	snecki_link_display(&slots->link, where, sizeof where);
	if (reply->type == REDIS_REPLY_ERROR)
		return snecki_err(reterr,
		        strncmp(reply->str, "NOPERM", 6) == 0 ? SNECK_EACCES : SNECK_ESERVER,
		        "%s does not tell its slots: %.200s", where, reply->str);
	if (reply->type != REDIS_REPLY_ARRAY)
		return snecki_err(reterr, SNECK_ESERVER, "%s answers CLUSTER SLOTS in an unknown way", where);
	if (reply->elements == 0)
		return snecki_err(reterr, SNECK_ESERVER,
		        "%s knows no slots; make a cluster of it, for example with redis-cli --cluster "
		        "create",
		        where);
	struct slot_range *ranges = calloc(reply->elements, sizeof *ranges);
	if (!ranges)
		return snecki_err(reterr, SNECK_ENOMEM, "out of memory");
	for (size_t i = 0; i < reply->elements; i++) {
		if (read_range(slots, reply->element[i], &ranges[i]))
			continue;
		free(ranges);
		return snecki_err(reterr, SNECK_ESERVER, "%s answers CLUSTER SLOTS in an unknown way", where);
	}
	end_round(slots, now_ns);
	slots->config.on_map(slots->config.ctx, ranges, reply->elements);
	free(ranges);
	return 1;
}

/* ---- One node -----------------------------------------------------------------------------------*/

static int flush(struct slots *slots, struct sneck_error *reterr) {
	while (slots->out.len) {
		ssize_t n = snecki_link_send(&slots->link, slots->out.data, slots->out.len);
		if (n < 0)
			return snecki_err(reterr, SNECK_ECONN, "the connection to a node broke");
		if (n == 0)
			return 0;
		snecki_buf_consume(&slots->out, (size_t)n);
	}
	return slots->out.failed ? snecki_err(reterr, SNECK_ENOMEM, "out of memory") : 0;
}

static int ask(struct slots *slots, int64_t now_ns, struct sneck_error *reterr) {
	snecki_buf_resp_array(&slots->out, 2);
	snecki_buf_resp_str(&slots->out, "CLUSTER");
	snecki_buf_resp_str(&slots->out, "SLOTS");
	slots->answer_ns = snecki_after_ms(now_ns, slots->config.command_ms);
	return flush(slots, reterr);
}

/* 1: the map has come. */
static int run_up(struct slots *slots, bool polled, int64_t now_ns, struct sneck_error *reterr) {
	struct redisReply *reply;
	int r = flush(slots, reterr);

	if (r == 0 && polled)
		r = snecki_link_receive(&slots->link, reterr);
	if (r < 0)
		return r;
	r = snecki_link_next(&slots->link, &reply, reterr);
	if (r > 0) {
		r = take_map(slots, reply, now_ns, reterr);
		freeReplyObject(reply);
		return r;
	}
	if (r == 0 && now_ns >= slots->answer_ns)
		return snecki_err(reterr, SNECK_ECONN, "a node has not answered for %u ms",
		        (unsigned)slots->config.command_ms);
	return r;
}

/* ---- The poll loop ------------------------------------------------------------------------------*/

static int64_t next_round_ns(const struct slots *slots) {
	if (slots->asking)
		return 0;
	if (!atomic_load(&slots->wanted))
		return NS_NEVER;
	return slots->ended_ns ? snecki_after_ms(slots->ended_ns, slots->pause_ms) : 0;
}

int snecki_slots_bg_prepare(struct slots *slots, struct pollfd pfds[1], int64_t *deadline_ns) {
	int64_t until_ns = NS_NEVER;
	int n = 0;

	switch (slots->link.state) {
	case LINK_CLOSED:
		until_ns = next_round_ns(slots);
		break;
	case LINK_UP:
		pfds[0] = (struct pollfd){ .fd = slots->link.fd, .events = POLLIN };
		if (slots->out.len)
			pfds[0].events |= POLLOUT;
		until_ns = slots->answer_ns;
		n = 1;
		break;
	default:
		n = snecki_link_prepare(&slots->link, &pfds[0], &until_ns);
	}
	if (until_ns < *deadline_ns)
		*deadline_ns = until_ns;
	return n;
}

void snecki_slots_bg_run(struct slots *slots, const struct pollfd *pfds, int n, int64_t now_ns) {
	struct sneck_error why = { 0 };
	int r = 0;

	if (slots->link.state == LINK_UP) {
		r = run_up(slots, n > 0 && pfds[0].revents, now_ns, &why);
	} else {
		if (slots->link.state == LINK_CLOSED) {
			if (now_ns < next_round_ns(slots))
				return;
			if (!slots->asking)
				begin_round(slots, now_ns);
			struct endpoint at = node_at(slots, slots->at);
			r = snecki_link_start_to(&slots->link, &at, now_ns, &why);
		}
		if (r == 0)
			r = snecki_link_step(&slots->link, now_ns, &why);
		if (r > 0)
			r = ask(slots, now_ns, &why);
	}
	if (r < 0)
		ask_next(slots, &why, now_ns);
}
