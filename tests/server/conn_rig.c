/* SPDX-License-Identifier: MIT */
/* The background loop here is the smallest that the connections need; what the client adds to it
 * (timers, renewals) is none of these tests' business. */
#include "conn_rig.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>
#include <hiredis/hiredis.h>

#include "base/clock.h"
#include "server.h"

static void on_up(void *ctx, int64_t since_ns) {
	struct rig *rig = ctx;
	atomic_store(&rig->since_ns, since_ns);
	atomic_fetch_add(&rig->ups, 1);
}

static void on_down(void *ctx, const struct sneck_error *why) {
	struct rig *rig = ctx;
	pthread_mutex_lock(&rig->mutex);
	rig->why = *why;
	pthread_mutex_unlock(&rig->mutex);
	atomic_fetch_add(&rig->downs, 1);
}

static void on_sub_ready(void *ctx) {
	struct rig *rig = ctx;
	atomic_fetch_add(&rig->readies, 1);
}

static void on_sub_down(void *ctx, const struct sneck_error *why) {
	struct rig *rig = ctx;
	pthread_mutex_lock(&rig->mutex);
	rig->sub_why = *why;
	pthread_mutex_unlock(&rig->mutex);
	atomic_fetch_add(&rig->sub_downs, 1);
}

static void on_message(void *ctx, const char *payload, size_t len) {
	struct rig *rig = ctx;
	pthread_mutex_lock(&rig->mutex);
	snprintf(rig->last_message, sizeof(rig->last_message), "%.*s", (int)len, payload);
	pthread_mutex_unlock(&rig->mutex);
	atomic_fetch_add(&rig->messages, 1);
	if (rig->heard)
		rig->heard(rig);
}

static void on_topic_ready(void *ctx, const char *subject, size_t subject_len) {
	struct rig *rig = ctx;
	(void)subject;
	(void)subject_len;
	atomic_fetch_add(&rig->topic_readies, 1);
}

static void on_topic_message(
        void *ctx, const char *subject, size_t subject_len, const char *payload, size_t len) {
	struct rig *rig = ctx;
	pthread_mutex_lock(&rig->mutex);
	snprintf(rig->last_message, sizeof(rig->last_message), "%.*s=%.*s", (int)subject_len, subject,
	        (int)len, payload);
	pthread_mutex_unlock(&rig->mutex);
	atomic_fetch_add(&rig->topic_messages, 1);
	if (rig->heard)
		rig->heard(rig);
}

static void on_log(void *ctx, int level, const char *text) {
	struct rig *rig = ctx;
	(void)level;
	pthread_mutex_lock(&rig->mutex);
	size_t len = strlen(rig->logged);
	snprintf(rig->logged + len, sizeof(rig->logged) - len, "%s\n", text);
	pthread_mutex_unlock(&rig->mutex);
}

static _Thread_local bool in_background;

/* As the client does it: the background thread, which prepares before it sleeps, does not wake itself. */
static void wake(void *ctx) {
	struct rig *rig = ctx;
	uint64_t one = 1;
	if (in_background)
		return;
	ssize_t n = write(rig->wake_fd, &one, sizeof(one));
	(void)n;
}

static void *run_background(void *arg) {
	struct rig *rig = arg;
	in_background = true;
	while (!atomic_load(&rig->stop)) {
		struct pollfd pfds[5] = { { .fd = rig->wake_fd, .events = POLLIN } };
		int64_t deadline_ns = NS_NEVER;
		struct timespec left;
		int conn_n = snecki_conn_bg_prepare(rig->conn, pfds + 1, &deadline_ns);
		int sub_n = 0;
		if (rig->sub)
			sub_n = snecki_sub_bg_prepare(rig->sub, pfds + 1 + conn_n, &deadline_ns);
		snecki_time_left(deadline_ns, &left);
		int n = ppoll(pfds, (nfds_t)(1 + conn_n + sub_n), &left, NULL);
		if (n <= 0)
			for (int i = 0; i < 1 + conn_n + sub_n; i++)
				pfds[i].revents = 0;
		if (pfds[0].revents) {
			uint64_t count;
			ssize_t got = read(rig->wake_fd, &count, sizeof(count));
			(void)got;
		}
		int64_t now_ns = snecki_now_ns();
		snecki_conn_bg_run(rig->conn, pfds + 1, conn_n, now_ns);
		if (rig->sub)
			snecki_sub_bg_run(rig->sub, pfds + 1 + conn_n, sub_n, now_ns);
		atomic_fetch_add(&rig->rounds, 1);
	}
	return NULL;
}

void rig_start(struct rig *rig, const char *url, const struct rig_options *options) {
	static const struct rig_options none;
	const struct rig_options *o = options ? options : &none;
	struct sneck_error err;
	memset(rig, 0, sizeof(*rig));
	pthread_mutex_init(&rig->mutex, NULL);
	rig->log = (struct log){ .fn = on_log, .ctx = rig, .level = LOG_DEBUG_ };
	if (snecki_url_parse(url, &rig->url, &err) < 0)
		fail_msg("%s", err.text);
	rig->heard = o->heard;
	rig->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	assert_true(rig->wake_fd >= 0);
	const struct conn_config conn_config = {
		.url = &rig->url,
		.client_name = "a test",
		.parking = o->sleeps_alone ? NULL : &rig->parking,
		.connect_ms = o->connect_ms ? o->connect_ms : 1000,
		.command_ms = o->command_ms ? o->command_ms : 2000,
		.log = &rig->log,
		.on_up = on_up,
		.on_down = on_down,
		.wake_background = wake,
		.ctx = rig,
	};
	assert_int_equal(snecki_conn_new(&conn_config, &rig->conn), 0);
	if (o->channel) {
		const struct sub_config sub_config = {
			.url = &rig->url,
			.client_name = "test-sub",
			.channel = o->channel,
			.channel_len = strlen(o->channel),
			.connect_ms = conn_config.connect_ms,
			.command_ms = conn_config.command_ms,
			.ping_ms = o->ping_ms,
			.log = &rig->log,
			.on_ready = on_sub_ready,
			.on_down = on_sub_down,
			.on_message = on_message,
			.on_topic_ready = on_topic_ready,
			.on_topic_message = on_topic_message,
			.wake_background = wake,
			.ctx = rig,
		};
		assert_int_equal(snecki_sub_new(&sub_config, &rig->sub), 0);
	}
	assert_int_equal(pthread_create(&rig->background, NULL, run_background, rig), 0);
}

void rig_stop(struct rig *rig) {
	atomic_store(&rig->stop, true);
	wake(rig);
	pthread_join(rig->background, NULL);
	snecki_conn_free(rig->conn);
	snecki_sub_free(rig->sub);
	snecki_url_done(&rig->url);
	close(rig->wake_fd);
	pthread_mutex_destroy(&rig->mutex);
}

static void call_finished(struct req *req, enum req_status status, const struct redisReply *reply,
        const struct sneck_error *error) {
	static atomic_int completions;
	struct call *call = (struct call *)(void *)((char *)req - offsetof(struct call, req));
	struct parker *parker = req->parker;
	call->status = status;
	call->order = atomic_fetch_add(&completions, 1);
	if (reply) {
		call->type = reply->type;
		call->integer = reply->integer;
		snprintf(call->text, sizeof(call->text), "%s", reply->str ? reply->str : "");
	}
	if (error) {
		call->code = error->code;
		snprintf(call->text, sizeof(call->text), "%s", error->text);
	}
	atomic_store(&call->finished, true);
	/* The call may be gone from here on. */
	if (parker)
		snecki_parker_wake(parker);
}

void call_init(struct call *call, const char *line) {
	char words[256];
	char *save = NULL;
	size_t n = 0;
	memset(call, 0, sizeof(*call));
	snecki_parker_init(&call->parker);
	snprintf(words, sizeof(words), "%s", line);
	for (char *word = strtok_r(words, " ", &save); word; word = strtok_r(NULL, " ", &save))
		n++;
	snecki_buf_resp_array(&call->req.bytes, n);
	snprintf(words, sizeof(words), "%s", line);
	for (char *word = strtok_r(words, " ", &save); word; word = strtok_r(NULL, " ", &save))
		snecki_buf_resp_str(&call->req.bytes, word);
	call->req.done = call_finished;
}

void call_done(struct call *call) {
	snecki_buf_done(&call->req.bytes);
	snecki_parker_done(&call->parker);
}

bool call_run(struct rig *rig, struct call *call, int64_t ms) {
	call->req.parker = &call->parker;
	snecki_conn_submit(rig->conn, &call->req);
	if (snecki_conn_park(rig->conn, &call->parker, snecki_after_ms(snecki_now_ns(), ms)))
		return true;
	if (snecki_conn_orphan(rig->conn, &call->req))
		return false;
	return snecki_conn_park(rig->conn, &call->parker, NS_NEVER);
}

long long rig_integer(struct rig *rig, const char *line) {
	struct call call;
	call_init(&call, line);
	assert_true(call_run(rig, &call, 10000));
	if (call.status != REQ_REPLY || call.type != REDIS_REPLY_INTEGER)
		fail_msg("%s: status %d, %s", line, call.status, call.text);
	call_done(&call);
	return call.integer;
}

/* ---- A server for each test ----------------------------------------------------------------------*/

static int start_with(void **state, int (*start)(struct test_server *server, const char *const args[])) {
	struct test_server *server = calloc(1, sizeof(*server));
	*state = server;
	return server ? start(server, NULL) : -1;
}

int rig_server_up(void **state) {
	return start_with(state, test_server_start);
}

int rig_server_up_tcp(void **state) {
	return start_with(state, test_server_start_tcp);
}

int rig_server_down(void **state) {
	test_server_stop(*state);
	free(*state);
	return 0;
}
