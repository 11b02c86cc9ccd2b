/* SPDX-License-Identifier: MIT */
/* The subscribe connection.
 *
 * All of it runs on the background thread; other threads only raise `wanted` and read `ready`. Messages
 * are hints, so nothing is kept across a break: the connection is made again, the channel subscribed
 * again, and on_ready tells the user to look for what it missed.
 *
 * A server that vanished without a word sends no messages, as does one that has none to send. So a
 * connection on which nothing arrived for ping_ms is asked with PING, and broken when that is not
 * answered within the command time. The subscription itself is awaited under the same rule.
 * The pause between attempts starts over only after a confirmed subscription: a user that may connect
 * but not subscribe must not cause a storm.
 *
 * Channels that come and go are in a table of their own (topics.h). */
#include "net/sub.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "net/backoff.h"
#include "net/link.h"
#include "net/server_error.h"
#include "net/topics.h"
#include "net/url.h"

enum { PING_DEFAULT_MS = 5000 };

struct sub {
	struct sub_config config;
	atomic_bool wanted;      /* there shall be a connection … */
	atomic_bool stay_wanted; /* … with the channel that stays */
	atomic_bool ready;
	struct topics topics;
	/* The rest belongs to the background thread. */
	struct link link;
	struct backoff backoff;
	int64_t next_attempt_ns;
	bool lost;         /* where to connect is not known; snecki_sub_look_again follows */
	struct buf out;    /* what the kernel has not taken yet */
	bool stay_sent;    /* on this connection */
	int64_t heard_ns;  /* when the last byte arrived */
	int64_t answer_ns; /* by when the server must have answered; 0: nothing is awaited */
	char channel[];    /* config.channel: our copy */
};

int snecki_sub_new(const struct sub_config *config, struct sub **ret) {
	struct sub *sub = calloc(1, sizeof(*sub) + config->channel_len);
	if (!sub)
		return SNECK_ENOMEM;
	const struct link_config link_config = {
		.url = config->url,
		.tls = config->tls,
		.client_name = config->client_name,
		.peer = config->peer,
		.connect_ms = config->connect_ms,
		.command_ms = config->command_ms,
	};
	sub->config = *config;
	if (config->channel_len)
		memcpy(sub->channel, config->channel, config->channel_len);
	sub->config.channel = sub->channel;
	if (!sub->config.ping_ms)
		sub->config.ping_ms = PING_DEFAULT_MS;
	atomic_init(&sub->wanted, false);
	atomic_init(&sub->stay_wanted, false);
	atomic_init(&sub->ready, false);
	int r = snecki_topics_init(&sub->topics);
	if (r < 0)
		goto no_topics;
	r = snecki_link_init(&sub->link, &link_config);
	if (r < 0)
		goto no_link;
	*ret = sub;
	return 0;

no_link:
	snecki_topics_done(&sub->topics);
no_topics:
	free(sub);
	return r;
}

void snecki_sub_free(struct sub *sub) {
	if (!sub)
		return;
	snecki_link_done(&sub->link);
	snecki_buf_done(&sub->out);
	snecki_topics_done(&sub->topics);
	free(sub);
}

void snecki_sub_abandon(struct sub *sub) {
	/* The background thread may have been anywhere when the process forked, and any thread inside the
	 * table of topics: that is left as it is. */
	snecki_link_abandon(&sub->link, false);
	free(sub);
}

void snecki_sub_want(struct sub *sub) {
	atomic_store(&sub->wanted, true);
	if (!atomic_exchange(&sub->stay_wanted, true))
		sub->config.wake_background(sub->config.ctx);
}

int snecki_sub_listen(struct sub *sub, const char *channel, size_t channel_len, bool sharded,
        const char *subject, size_t subject_len) {
	bool changed;
	int r = snecki_topics_add(
	        &sub->topics, channel, channel_len, sharded, subject, subject_len, &changed);

	if (r < 0)
		return r;
	atomic_store(&sub->wanted, true);
	if (changed)
		sub->config.wake_background(sub->config.ctx);
	return 0;
}

bool snecki_sub_unlisten(struct sub *sub, const char *channel, size_t channel_len) {
	return snecki_topics_remove(&sub->topics, channel, channel_len);
}

void snecki_sub_move(struct sub *from, struct sub *to,
        bool (*moved)(void *ctx, const char *channel, size_t channel_len), void *ctx) {
	if (!snecki_topics_move(&from->topics, &to->topics, moved, ctx))
		return;
	atomic_store(&to->wanted, true);
	to->config.wake_background(to->config.ctx); /* it would sleep until the next ping */
}

void snecki_sub_again(struct sub *sub) {
	if (sub->link.state == LINK_UP)
		snecki_topics_write_all(&sub->topics, &sub->out);
}

bool snecki_sub_is_ready(struct sub *sub) {
	return atomic_load(&sub->ready);
}

static void go_down(struct sub *sub, const struct sneck_error *why, int64_t now_ns) {
	char where[160];
	bool was_ready = atomic_exchange(&sub->ready, false);
	snecki_link_close(&sub->link);
	snecki_buf_clear(&sub->out);
	sub->answer_ns = 0;
	/* After a break one attempt is made at once; only failures are followed by a pause. */
	sub->next_attempt_ns = was_ready ? now_ns : snecki_backoff_next_ns(&sub->backoff, now_ns);
	snecki_url_display(sub->config.url, where, sizeof(where));
	snecki_log(sub->config.log, LOG_WARN_, "%s not subscribed: %s", where, why->text);
	if (sub->config.on_down)
		sub->config.on_down(sub->config.ctx, why);
}

/* 0, or the link is broken. */
static int flush(struct sub *sub, struct sneck_error *reterr) {
	while (sub->out.len) {
		ssize_t n = snecki_link_send(&sub->link, sub->out.data, sub->out.len);
		if (n < 0)
			return snecki_err(reterr, SNECK_ECONN, "the subscribe connection broke");
		if (n == 0)
			return 0;
		snecki_buf_consume(&sub->out, (size_t)n);
	}
	return sub->out.failed ? snecki_err(reterr, SNECK_ENOMEM, "out of memory") : 0;
}

static int ask(struct sub *sub, int64_t now_ns, struct sneck_error *reterr) {
	sub->answer_ns = snecki_after_ms(now_ns, sub->config.command_ms);
	return flush(sub, reterr);
}

static bool stay_is_due(struct sub *sub) {
	return !sub->stay_sent && atomic_load(&sub->stay_wanted);
}

static bool has_to_ask(struct sub *sub) {
	return stay_is_due(sub) || snecki_topics_any_unsent(&sub->topics);
}

static void write_stay(struct sub *sub) {
	if (!stay_is_due(sub))
		return;
	sub->stay_sent = true;
	snecki_buf_resp_array(&sub->out, 2);
	snecki_buf_resp_str(&sub->out, "SUBSCRIBE");
	snecki_buf_resp_bulk(&sub->out, sub->config.channel, sub->config.channel_len);
}

static int subscribe(struct sub *sub, int64_t now_ns, struct sneck_error *reterr) {
	sub->heard_ns = now_ns;
	sub->stay_sent = false;
	write_stay(sub);
	snecki_topics_write_all(&sub->topics, &sub->out);
	return ask(sub, now_ns, reterr);
}

static int ping(struct sub *sub, int64_t now_ns, struct sneck_error *reterr) {
	snecki_buf_resp_array(&sub->out, 1);
	snecki_buf_resp_str(&sub->out, "PING");
	return ask(sub, now_ns, reterr);
}

static bool is_string(const redisReply *reply, const char *data, size_t len) {
	return reply->type == REDIS_REPLY_STRING && reply->len == len && memcmp(reply->str, data, len) == 0;
}

/* Words about a slot's channel have an s before them. */
static bool says(const redisReply *reply, const char *word) {
	return reply->type == REDIS_REPLY_STRING &&
	       (strcmp(reply->str, word) == 0 || (reply->str[0] == 's' && strcmp(reply->str + 1, word) == 0));
}

/* About a channel that comes and goes. */
static void take_topic(struct sub *sub, redisReply **part) {
	const struct sub_config *config = &sub->config;
	struct topic_subject subject;

	if (part[1]->type != REDIS_REPLY_STRING ||
	        !snecki_topics_find(&sub->topics, part[1]->str, (size_t)part[1]->len, &subject))
		return;
	if (says(part[0], "message") && part[2]->type == REDIS_REPLY_STRING) {
		config->on_topic_message(
		        config->ctx, subject.data, subject.len, part[2]->str, (size_t)part[2]->len);
	} else if (says(part[0], "subscribe")) {
		snecki_backoff_reset(&sub->backoff);
		config->on_topic_ready(config->ctx, subject.data, subject.len);
	} else if (config->on_topic_gone && says(part[0], "unsubscribe")) {
		config->on_topic_gone(config->ctx); /* the slot has left this server */
	}
	snecki_buf_done(&subject.bytes);
}

/* The subscription is to be made elsewhere, or later. */
static bool refused_for_now(const struct sub *sub, const redisReply *reply) {
	static const char *const words[] = { "MOVED ", "ASK ", "CLUSTERDOWN ", "TRYAGAIN " };

	for (size_t i = 0; sub->config.on_topic_gone && i < sizeof words / sizeof words[0]; i++)
		if (strncmp(reply->str, words[i], strlen(words[i])) == 0)
			return true;
	return false;
}

/* What the server said: a confirmation, a message, the answer to PING, or an error. */
static int take_reply(struct sub *sub, const redisReply *reply, struct sneck_error *reterr) {
	const struct sub_config *config = &sub->config;
	if (reply->type == REDIS_REPLY_ERROR && refused_for_now(sub, reply)) {
		config->on_topic_gone(config->ctx);
		return 0;
	}
	if (reply->type == REDIS_REPLY_ERROR)
		return snecki_server_error_fill(reply->str, reply->len, reterr);
	/* Before the subscription counts, PING is answered as on any connection. */
	if (reply->type == REDIS_REPLY_STATUS)
		return 0;
	if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 2)
		return snecki_err(reterr, SNECK_ECONN, "the server sent no message but something else");
	redisReply **part = reply->element;
	if (reply->elements != 3)
		return 0;
	if (!is_string(part[1], config->channel, config->channel_len)) {
		take_topic(sub, part);
		return 0;
	}
	if (is_string(part[0], "message", 7)) {
		if (part[2]->type == REDIS_REPLY_STRING && config->on_message)
			config->on_message(config->ctx, part[2]->str, part[2]->len);
	} else if (is_string(part[0], "subscribe", 9)) {
		snecki_backoff_reset(&sub->backoff);
		atomic_store(&sub->ready, true);
		snecki_log(config->log, LOG_DEBUG_, "subscribed");
		if (config->on_ready)
			config->on_ready(config->ctx);
	}
	return 0;
}

static int receive(struct sub *sub, struct sneck_error *reterr) {
	int got = snecki_link_receive(&sub->link, reterr);
	if (got <= 0)
		return got;
	sub->heard_ns = snecki_now_ns();
	sub->answer_ns = 0;
	redisReply *reply;
	int r;
	while ((r = snecki_link_next(&sub->link, &reply, reterr)) > 0) {
		r = take_reply(sub, reply, reterr);
		freeReplyObject(reply);
		if (r < 0)
			return r;
	}
	/* A subscription that is still not confirmed stays under its deadline. */
	if (sub->stay_sent && !atomic_load(&sub->ready))
		sub->answer_ns = snecki_after_ms(sub->heard_ns, sub->config.command_ms);
	return r;
}

static int run_up(struct sub *sub, bool polled, int64_t now_ns, struct sneck_error *reterr) {
	/* Without an event there is nothing to read, except that silence is judged after a last look:
	 * this process may have been stopped, or the machine asleep. */
	bool late = sub->answer_ns && now_ns >= sub->answer_ns;
	write_stay(sub);
	snecki_topics_write_changes(&sub->topics, &sub->out);
	int r = flush(sub, reterr);
	if (r == 0 && (polled || late))
		r = receive(sub, reterr);
	if (r < 0)
		return r;
	if (sub->answer_ns && now_ns >= sub->answer_ns)
		return snecki_err(reterr, SNECK_ECONN,
		        "the server has not answered for %u ms; is it overloaded or stopped, is the network "
		        "down?",
		        (unsigned)sub->config.command_ms);
	if (!sub->answer_ns && now_ns >= snecki_after_ms(sub->heard_ns, sub->config.ping_ms))
		return ping(sub, now_ns, reterr);
	return 0;
}

int snecki_sub_bg_prepare(struct sub *sub, struct pollfd pfds[2], int64_t *deadline_ns) {
	int64_t until_ns = NS_NEVER;
	int n = 0;
	switch (sub->link.state) {
	case LINK_CLOSED:
		if (atomic_load(&sub->wanted) && !sub->lost)
			until_ns = sub->next_attempt_ns;
		break;
	case LINK_UP:
		pfds[0] = (struct pollfd){ .fd = sub->link.fd, .events = POLLIN };
		if (sub->out.len)
			pfds[0].events |= POLLOUT;
		until_ns =
		        sub->answer_ns ? sub->answer_ns : snecki_after_ms(sub->heard_ns, sub->config.ping_ms);
		if (has_to_ask(sub)) /* perhaps at the wish of this very thread, which nobody wakes */
			until_ns = 0;
		n = 1;
		break;
	default:
		n = snecki_link_prepare(&sub->link, &pfds[0], &until_ns);
	}
	if (until_ns < *deadline_ns)
		*deadline_ns = until_ns;
	return n;
}

/* 0: under way, or (the link is closed) where to is not known yet. */
static int start_attempt(struct sub *sub, int64_t now_ns, struct sneck_error *why) {
	struct endpoint at;
	if (!sub->config.where)
		return snecki_link_start(&sub->link, now_ns, why);
	int known = sub->config.where(sub->config.ctx, &at, why);
	if (known > 0)
		return snecki_link_start_to(&sub->link, &at, now_ns, why);
	sub->lost = known == 0;
	return known;
}

void snecki_sub_look_again(struct sub *sub, int64_t now_ns) {
	struct endpoint at;
	struct sneck_error why;
	sub->lost = false;
	if (sub->config.where(sub->config.ctx, NULL, NULL) <= 0 ||
	        sub->config.where(sub->config.ctx, &at, &why) <= 0 ||
	        snecki_endpoint_same(&at, &sub->link.at))
		return;
	if (sub->link.state == LINK_CLOSED) {
		sub->next_attempt_ns = now_ns;
	} else if (sub->link.state == LINK_UP) {
		snecki_err(&why, SNECK_ECONN, "the primary is another server now");
		go_down(sub, &why, now_ns);
	}
}

void snecki_sub_bg_run(struct sub *sub, const struct pollfd *pfds, int n, int64_t now_ns) {
	struct sneck_error why;
	int r = 0;
	if (sub->link.state == LINK_UP) {
		r = run_up(sub, n > 0 && pfds[0].revents, now_ns, &why);
	} else {
		if (sub->link.state == LINK_CLOSED) {
			if (!atomic_load(&sub->wanted) || sub->lost || now_ns < sub->next_attempt_ns)
				return;
			r = start_attempt(sub, now_ns, &why);
			if (r == 0 && sub->link.state == LINK_CLOSED)
				return;
		}
		if (r == 0)
			r = snecki_link_step(&sub->link, now_ns, &why);
		if (r > 0)
			r = subscribe(sub, now_ns, &why);
	}
	if (r < 0)
		go_down(sub, &why, now_ns);
}
