/* SPDX-License-Identifier: MIT */
/* Finding the primary by way of the sentinels.
 *
 * A round asks the sentinels in turn until one names a primary; a round in which none did has failed, and the
 * failure is what whoever wants to connect is told, once. The next wish begins another round. While a
 * primary is known the connection to the sentinel that named it is kept: it is subscribed to
 * +switch-master, and is asked again every POLL_MS, and when it says that the primary has moved (it must
 * leave its subscription for that, so the commands travel together). The message's own address is not
 * believed: a sentinel that starts again may repeat an old one.
 *
 * A sentinel that is cut off from the others goes on naming the old primary, which may go on as one as well.
 * So every POLLS_EACH questions the next sentinel is listened to, and of what they say the highest
 * configuration epoch counts: one that is behind is passed over for as long as another can be asked.
 *
 * Sentinels have credentials of their own, or none: those for the servers are never shown to them. */
#include "topology/sentinel.h"

#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "net/hello.h"
#include "net/link.h"
#include "net/server_error.h"

enum { POLL_MS = 5000, POLLS_EACH = 2 };

#define CHANNEL "+switch-master"

struct sentinel {
	struct sentinel_config config;
	struct url login; /* what the links to the sentinels read; borrows from config.url */
	struct link link;
	size_t at;         /* which of the seeds is being asked, or is listened to */
	size_t asked;      /* in this round */
	size_t refuted;    /* how many of them have named a replica, one after the other */
	bool wanted;       /* somebody wants to know */
	bool known;        /* `primary` */
	bool round_failed; /* `why` is to be told */
	struct endpoint primary;
	int64_t epoch;       /* of `primary`, also while it is in doubt; 0: never heard of any */
	int64_t heard_epoch; /* of the sentinel that is being asked */
	bool has_stale;      /* `stale`: the best that was heard in this round from those who are behind */
	struct endpoint stale;
	int64_t stale_epoch;
	struct sneck_error why; /* of the sentinels that could not tell: what says most */
	struct buf out;
	int polls;         /* how often this sentinel has been asked */
	int64_t answer_ns; /* by when the sentinel must have answered; 0: nothing is awaited */
	int64_t poll_ns;   /* when to ask again */
	int64_t next_attempt_ns;
};

struct url snecki_sentinel_login(const struct url *url) {
	return (struct url){ .kind = URL_SENTINEL,
		.user = url->sentinel_user,
		.password = url->sentinel_password,
		.seeds = url->seeds,
		.seeds_n = url->seeds_n,
		.service = url->service,
		.tls = url->tls,
		.server_name = url->server_name };
}

int snecki_sentinel_new(const struct sentinel_config *config, struct sentinel **ret) {
	struct sentinel *sentinel = calloc(1, sizeof *sentinel);

	if (!sentinel)
		return SNECK_ENOMEM;
	sentinel->config = *config;
	sentinel->login = snecki_sentinel_login(config->url);
	const struct link_config link = { .url = &sentinel->login,
		.peer = PEER_SENTINEL,
		.tls = config->tls,
		.client_name = config->client_name,
		.connect_ms = config->connect_ms,
		.command_ms = config->command_ms };
	int r = snecki_link_init(&sentinel->link, &link);
	if (r < 0) {
		free(sentinel);
		return r;
	}
	*ret = sentinel;
	return 0;
}

void snecki_sentinel_free(struct sentinel *sentinel) {
	if (!sentinel)
		return;
	snecki_link_done(&sentinel->link);
	snecki_buf_done(&sentinel->out);
	free(sentinel);
}

void snecki_sentinel_abandon(struct sentinel *sentinel) {
	/* The background thread may have been anywhere. */
	snecki_link_abandon(&sentinel->link, false);
	free(sentinel);
}

/* ---- Rounds -------------------------------------------------------------------------------------*/

static void begin_round(struct sentinel *sentinel, int64_t now_ns) {
	sentinel->wanted = true;
	sentinel->round_failed = false;
	sentinel->has_stale = false;
	sentinel->asked = 0;
	sentinel->why.code = 0;
	sentinel->next_attempt_ns = now_ns;
}

int snecki_sentinel_where(struct sentinel *sentinel, struct endpoint *ret, struct sneck_error *reterr) {
	if (sentinel->known) {
		if (ret)
			*ret = sentinel->primary;
		return 1;
	}
	if (!ret)
		return 0;
	if (sentinel->round_failed) {
		sentinel->round_failed = false;
		sentinel->wanted = false;
		if (reterr)
			*reterr = sentinel->why;
		return sentinel->why.code;
	}
	if (!sentinel->wanted)
		begin_round(sentinel, 0);
	return 0;
}

static void hang_up(struct sentinel *sentinel) {
	snecki_link_close(&sentinel->link);
	snecki_buf_clear(&sentinel->out);
	sentinel->answer_ns = 0;
	sentinel->at = (sentinel->at + 1) % sentinel->config.url->seeds_n;
}

static void believe(struct sentinel *sentinel, const struct endpoint *primary, int64_t epoch) {
	bool same = sentinel->known && snecki_endpoint_same(&sentinel->primary, primary);

	sentinel->asked = 0;
	sentinel->round_failed = sentinel->has_stale = false;
	sentinel->why.code = 0;
	sentinel->epoch = epoch;
	if (same)
		return;
	sentinel->known = true;
	sentinel->primary = *primary;
	snecki_log(sentinel->config.log, LOG_INFO_, "sentinel: the primary of %s is %s:%u",
	        sentinel->config.url->service, primary->host, primary->port);
	sentinel->config.on_change(sentinel->config.ctx);
}

/* Being refused, or not knowing the service, says more than not being there: it is what has to be mended. */
static bool says_more(int code, int than) {
	return than == 0 || than == SNECK_ECONN || code == SNECK_EACCES;
}

/* Nobody who is up to date could be asked. */
static void end_round(struct sentinel *sentinel, int64_t now_ns) {
	sentinel->asked = 0;
	if (sentinel->known) { /* the last word holds until another is heard */
		sentinel->next_attempt_ns = snecki_after_ms(now_ns, POLL_MS);
	} else if (sentinel->has_stale) { /* their epochs may have begun anew */
		sentinel->next_attempt_ns = snecki_after_ms(now_ns, POLL_MS);
		believe(sentinel, &sentinel->stale, sentinel->stale_epoch);
	} else {
		sentinel->round_failed = true;
		sentinel->next_attempt_ns = NS_NEVER;
		sentinel->config.on_change(sentinel->config.ctx);
	}
}

/* This one could not tell, or is not to be believed: the next. */
static void ask_next(struct sentinel *sentinel, const struct sneck_error *why, int64_t now_ns) {
	snecki_log(sentinel->config.log, LOG_INFO_, "sentinel: %s", why->text);
	hang_up(sentinel);
	if (says_more(why->code, sentinel->why.code))
		sentinel->why = *why;
	sentinel->next_attempt_ns = now_ns;
	if (++sentinel->asked >= sentinel->config.url->seeds_n)
		end_round(sentinel, now_ns);
}

static void doubt(struct sentinel *sentinel, int64_t now_ns) {
	sentinel->known = false;
	begin_round(sentinel, now_ns);
	if (sentinel->link.state != LINK_CLOSED)
		hang_up(sentinel);
}

void snecki_sentinel_doubt(struct sentinel *sentinel, int64_t now_ns) {
	sentinel->refuted = 0;
	if (sentinel->known)
		doubt(sentinel, now_ns);
}

bool snecki_sentinel_elsewhere(struct sentinel *sentinel, const struct sneck_error *why, int64_t now_ns) {
	bool replica = strcmp(why->server, HELLO_IS_REPLICA) == 0;

	if (!replica || !sentinel->known || ++sentinel->refuted >= sentinel->config.url->seeds_n)
		return false;
	doubt(sentinel, now_ns);
	return true;
}

/* ---- Questions ----------------------------------------------------------------------------------*/

static int flush(struct sentinel *sentinel, struct sneck_error *reterr) {
	while (sentinel->out.len) {
		ssize_t n = snecki_link_send(&sentinel->link, sentinel->out.data, sentinel->out.len);
		if (n < 0)
			return snecki_err(reterr, SNECK_ECONN, "the connection to a sentinel broke");
		if (n == 0)
			return 0;
		snecki_buf_consume(&sentinel->out, (size_t)n);
	}
	return sentinel->out.failed ? snecki_err(reterr, SNECK_ENOMEM, "out of memory") : 0;
}

static void add_question(struct sentinel *sentinel, const char *what) {
	snecki_buf_resp_array(&sentinel->out, 3);
	snecki_buf_resp_str(&sentinel->out, "SENTINEL");
	snecki_buf_resp_str(&sentinel->out, what);
	snecki_buf_resp_str(&sentinel->out, sentinel->config.url->service);
}

/* `again`: it listens, and must stop for the question. */
static int ask(struct sentinel *sentinel, bool again, int64_t now_ns, struct sneck_error *reterr) {
	struct buf *out = &sentinel->out;

	if (again) {
		snecki_buf_resp_array(out, 2);
		snecki_buf_resp_str(out, "UNSUBSCRIBE");
		snecki_buf_resp_str(out, CHANNEL);
	}
	add_question(sentinel, "MASTER"); /* for the epoch */
	add_question(sentinel, "GET-MASTER-ADDR-BY-NAME");
	snecki_buf_resp_array(out, 2);
	snecki_buf_resp_str(out, "SUBSCRIBE");
	snecki_buf_resp_str(out, CHANNEL);
	sentinel->polls = again ? sentinel->polls + 1 : 1;
	sentinel->heard_epoch = 0;
	sentinel->answer_ns = snecki_after_ms(now_ns, sentinel->config.command_ms);
	sentinel->poll_ns = snecki_after_ms(now_ns, POLL_MS);
	return flush(sentinel, reterr);
}

/* ---- Answers ------------------------------------------------------------------------------------*/

static bool read_place(const char *host, const char *port, struct endpoint *ret) {
	char *end;
	unsigned long number = strtoul(port, &end, 10);

	if (!host[0] || strlen(host) > ENDPOINT_HOST_MAX || *end || number == 0 || number > UINT16_MAX)
		return false;
	memcpy(ret->host, host, strlen(host) + 1);
	ret->port = (uint16_t)number;
	return true;
}

static int found(struct sentinel *sentinel, const struct endpoint *primary, struct sneck_error *reterr) {
	int64_t epoch = sentinel->heard_epoch;
	char where[300];

	sentinel->answer_ns = 0;
	if (epoch >= sentinel->epoch) {
		believe(sentinel, primary, epoch);
		return 0;
	}
	if (!sentinel->has_stale || epoch > sentinel->stale_epoch) {
		sentinel->has_stale = true;
		sentinel->stale = *primary;
		sentinel->stale_epoch = epoch;
	}
	snecki_link_display(&sentinel->link, where, sizeof where);
	return snecki_err(reterr, SNECK_ECONN,
	        "%s is behind: it names %s:%u of epoch %lld, and others have named one of epoch %lld", where,
	        primary->host, primary->port, (long long)epoch, (long long)sentinel->epoch);
}

static int unknown_service(const struct sentinel *sentinel, struct sneck_error *reterr) {
	char where[300];

	snecki_link_display(&sentinel->link, where, sizeof where);
	return snecki_err(reterr, SNECK_EINVAL,
	        "%s knows no service '%.100s'; what it watches is told by SENTINEL MASTERS", where,
	        sentinel->config.url->service);
}

static int refused(
        const struct sentinel *sentinel, const char *text, size_t len, struct sneck_error *reterr) {
	const struct server_error *row = snecki_server_error_find(text, len);
	char where[300];

	if (strstr(text, "No such master"))
		return unknown_service(sentinel, reterr);
	snecki_link_display(&sentinel->link, where, sizeof where);
	return snecki_err_server(reterr, row->code, text, strcspn(text, " "), "%s says: %.200s%s", where,
	        text, row->code == SNECK_EACCES ? "; sneck acl prints the rule for its user" : "");
}

static bool is_text(const redisReply *reply, const char *text) {
	return reply->type == REDIS_REPLY_STRING && strcmp(reply->str, text) == 0;
}

/* All that it knows of the service, as names and values. */
static int64_t read_epoch(const redisReply *reply) {
	for (size_t i = 0; i + 1 < reply->elements; i += 2)
		if (is_text(reply->element[i], "config-epoch") &&
		        reply->element[i + 1]->type == REDIS_REPLY_STRING)
			return strtoll(reply->element[i + 1]->str, NULL, 10);
	return 0;
}

/* "service old-host old-port new-host new-port" */
static bool is_about_ours(const struct sentinel *sentinel, const redisReply *text) {
	size_t len = strlen(sentinel->config.url->service);

	return text->type == REDIS_REPLY_STRING && (size_t)text->len > len && text->str[len] == ' ' &&
	       memcmp(text->str, sentinel->config.url->service, len) == 0;
}

static int take_list(struct sentinel *sentinel, const redisReply *reply, struct sneck_error *reterr) {
	redisReply **part = reply->element;
	struct endpoint primary;

	if (reply->elements == 2 && part[0]->type == REDIS_REPLY_STRING &&
	        part[1]->type == REDIS_REPLY_STRING) {
		if (!read_place(part[0]->str, part[1]->str, &primary))
			return snecki_err(reterr, SNECK_ECONN, "a sentinel named a place that is none");
		return found(sentinel, &primary, reterr);
	}
	if (reply->elements == 3 && is_text(part[0], "message")) {
		/* If it is being asked already, that answer comes behind the message and knows. */
		if (!sentinel->answer_ns && is_about_ours(sentinel, part[2]))
			sentinel->poll_ns = 0;
	} else if (reply->elements > 3) {
		sentinel->heard_epoch = read_epoch(reply);
	}
	return 0; /* (un)subscribed */
}

static int take_reply(struct sentinel *sentinel, const redisReply *reply, struct sneck_error *reterr) {
	switch (reply->type) {
	case REDIS_REPLY_NIL:
		return unknown_service(sentinel, reterr);
	case REDIS_REPLY_ERROR:
		return refused(sentinel, reply->str, (size_t)reply->len, reterr);
	case REDIS_REPLY_ARRAY:
		return take_list(sentinel, reply, reterr);
	default:
		return snecki_err(reterr, SNECK_ECONN, "a sentinel sent something unexpected");
	}
}

/* Somebody else may know better. */
static void move_on(struct sentinel *sentinel, int64_t now_ns) {
	hang_up(sentinel);
	sentinel->next_attempt_ns = now_ns;
}

static int run_up(struct sentinel *sentinel, bool polled, int64_t now_ns, struct sneck_error *reterr) {
	struct redisReply *reply;
	int r = flush(sentinel, reterr);

	if (r == 0 && polled)
		r = snecki_link_receive(&sentinel->link, reterr);
	if (r < 0)
		return r;
	while ((r = snecki_link_next(&sentinel->link, &reply, reterr)) > 0) {
		r = take_reply(sentinel, reply, reterr);
		freeReplyObject(reply);
		if (r < 0)
			return r;
	}
	if (r < 0)
		return r;
	if (sentinel->answer_ns && now_ns >= sentinel->answer_ns)
		return snecki_err(reterr, SNECK_ECONN, "a sentinel has not answered for %u ms",
		        (unsigned)sentinel->config.command_ms);
	if (sentinel->answer_ns || now_ns < sentinel->poll_ns)
		return 0;
	if (sentinel->poll_ns && sentinel->polls >= POLLS_EACH && sentinel->config.url->seeds_n > 1) {
		move_on(sentinel, now_ns);
		return 0;
	}
	return ask(sentinel, true, now_ns, reterr);
}

/* ---- The poll loop ------------------------------------------------------------------------------*/

int snecki_sentinel_bg_prepare(struct sentinel *sentinel, struct pollfd pfds[1], int64_t *deadline_ns) {
	int64_t until_ns = NS_NEVER;
	int n = 0;

	switch (sentinel->link.state) {
	case LINK_CLOSED:
		if (sentinel->wanted || sentinel->known)
			until_ns = sentinel->next_attempt_ns;
		break;
	case LINK_UP:
		pfds[0] = (struct pollfd){ .fd = sentinel->link.fd, .events = POLLIN };
		if (sentinel->out.len)
			pfds[0].events |= POLLOUT;
		until_ns = sentinel->answer_ns ? sentinel->answer_ns : sentinel->poll_ns;
		n = 1;
		break;
	default:
		n = snecki_link_prepare(&sentinel->link, &pfds[0], &until_ns);
	}
	if (until_ns < *deadline_ns)
		*deadline_ns = until_ns;
	return n;
}

void snecki_sentinel_bg_run(struct sentinel *sentinel, const struct pollfd *pfds, int n, int64_t now_ns) {
	struct sneck_error why = { 0 };
	int r = 0;

	if (sentinel->link.state == LINK_UP) {
		r = run_up(sentinel, n > 0 && pfds[0].revents, now_ns, &why);
	} else {
		if (sentinel->link.state == LINK_CLOSED) {
			bool due =
			        (sentinel->wanted || sentinel->known) && now_ns >= sentinel->next_attempt_ns;
			if (!due)
				return;
			r = snecki_link_start_to(
			        &sentinel->link, &sentinel->config.url->seeds[sentinel->at], now_ns, &why);
		}
		if (r == 0)
			r = snecki_link_step(&sentinel->link, now_ns, &why);
		if (r > 0)
			r = ask(sentinel, false, now_ns, &why);
	}
	if (r < 0)
		ask_next(sentinel, &why, now_ns);
}
