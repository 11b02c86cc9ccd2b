/* SPDX-License-Identifier: MIT */
/* The background thread: messages, timers, reconnects, renewals. It reads the command connection
 * when no caller does. It never waits for a lock of the program, and no code of the program runs
 * on it except the log hook. */
#include "client/client.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sneck/error.h>

#include "base/clock.h"
#include "client/break.h"
#include "client/probe.h"

void snecki_client_wake_for_deferred(sneck_client *client) {
	uint64_t one = 1;
	ssize_t n = write(client->wake_fd, &one, sizeof one);
	(void)n; /* EAGAIN: awake already */
}

/* Thread: any. */
void snecki_client_wake(void *ctx) {
	sneck_client *client = ctx;

	if (atomic_load(&client->about_to_look) != (uintptr_t)pthread_self())
		snecki_client_wake_for_deferred(client);
}

/* ---- What net tells us --------------------------------------------------------------------------*/

static void on_up(void *ctx, int lane, int64_t since_ns) {
	sneck_client *client = ctx;

	snecki_log(&client->log, LOG_DEBUG_, "connected to %s", client->display);
	snecki_client_lock(client);
	client->down.code = 0;
	pthread_cond_broadcast(&client->changed);
	snecki_core_connected(client->core, lane, since_ns, snecki_now_ns());
	snecki_client_unlock(client);
}

static void on_down(void *ctx, const struct sneck_error *why, bool all) {
	sneck_client *client = ctx;
	struct lock_core_counters counters;

	snecki_log(&client->log, LOG_WARN_, "no connection to %s: %s", client->display, why->text);
	snecki_client_lock(client);
	if (all)
		client->down = *why;
	pthread_cond_broadcast(&client->changed);
	snecki_core_counters(client->core, &counters);
	snecki_client_unlock(client);
	/* What is held may be lost by now: find out, rather than wait until a renewal is due. */
	if (counters.holds > 0 && why->code == SNECK_ECONN && !atomic_load(&client->closing))
		snecki_servers_want(client->servers);
}

static void on_sub_ready(void *ctx) {
	sneck_client *client = ctx;

	snecki_client_lock(client);
	snecki_core_subscribed(client->core, snecki_now_ns());
	pthread_cond_broadcast(&client->changed);
	snecki_client_unlock(client);
}

static void on_sub_down(void *ctx, const struct sneck_error *why) {
	sneck_client *client = ctx;

	snecki_log(&client->log, LOG_INFO_, "no messages from %s for now: %s", client->display, why->text);
	snecki_client_lock(client);
	client->sub_failed = true;
	pthread_cond_broadcast(&client->changed);
	snecki_client_unlock(client);
}

static void on_note(sneck_client *client, const char *payload, size_t len) {
	struct lock_note note;

	if (!snecki_native.read_note(&client->session, payload, len, &note)) {
		snecki_log(&client->log, LOG_DEBUG_, "a message was not understood (%zu bytes)", len);
		return;
	}
	snecki_client_lock(client);
	client->message_ns = snecki_now_ns();
	if (note.kind == LOCK_NOTE_BROKEN)
		snecki_grace_cut(client, note.attempt, note.kept_ms);
	snecki_core_note(client->core, &note, client->message_ns);
	snecki_client_unlock(client);
}

static void on_sub_message(void *ctx, const char *payload, size_t len) {
	sneck_client *client = ctx;

	if (!snecki_probe_heard(client, payload, len))
		on_note(client, payload, len);
}

/* A subject is the layout and the name of a lock: see on_listen in carry.c. */
static void look_at(
        sneck_client *client, const struct lock_traits *layout, const char *name, size_t name_len) {
	snecki_client_lock(client);
	client->message_ns = snecki_now_ns();
	snecki_core_maybe_free(client->core, layout, name, name_len, client->message_ns);
	snecki_client_unlock(client);
}

static const struct lock_traits *layout_of(const char *subject) {
	const struct lock_traits *layout;

	memcpy(&layout, subject, sizeof layout);
	return layout;
}

/* What was said before the server listened to us is lost: look once. */
static void on_topic_ready(void *ctx, const char *subject, size_t len) {
	look_at(ctx, layout_of(subject), subject + sizeof(void *), len - sizeof(void *));
}

static void on_topic_message(
        void *ctx, const char *subject, size_t subject_len, const char *payload, size_t len) {
	const struct lock_traits *layout = layout_of(subject);

	if (!layout->polls)
		on_note(ctx, payload, len);
	else if (snecki_dialect_of(layout)->says_free(payload, len))
		look_at(ctx, layout, subject + sizeof(void *), subject_len - sizeof(void *));
}

int snecki_client_links(sneck_client *client) {
	struct buf channel = BUF_INIT;
	int r = snecki_native.channel(&client->session, &channel); /* no other has one */
	const struct servers_config config = {
		.url = &client->url,
		.server = &client->server,
		.tls = client->tls,
		.parking = &client->parking,
		.client_name = client->session_id,
		.channel = channel.data,
		.channel_len = channel.len,
		.connect_ms = client->connect_ms,
		.command_ms = client->command_ms,
		.log = &client->log,
		.on_up = on_up,
		.on_down = on_down,
		.on_heard = on_sub_ready,
		.on_deaf = on_sub_down,
		.on_message = on_sub_message,
		.on_topic_ready = on_topic_ready,
		.on_topic_message = on_topic_message,
		.wake_background = snecki_client_wake,
		.after_read = snecki_client_wake_done,
		.ctx = client,
	};
	if (r == 0)
		r = snecki_servers_new(&config, &client->servers);
	snecki_buf_done(&channel);
	return r;
}

/* ---- The loop -----------------------------------------------------------------------------------*/

static int64_t run_timers(sneck_client *client) {
	snecki_client_lock(client);
	int64_t now_ns = snecki_now_ns();
	snecki_core_run(client->core, now_ns);
	int64_t due_ns = snecki_core_next_due(client->core);
	/* An earlier appointment that is no longer needed is kept: a program that takes and releases in a
	 * loop would otherwise have to wake this thread for every new timer. */
	if (client->background_due_ns <= now_ns || due_ns < client->background_due_ns)
		client->background_due_ns = due_ns;
	due_ns = client->background_due_ns;
	snecki_client_unlock(client);
	return due_ns;
}

static void drain_wake(sneck_client *client) {
	uint64_t count;
	ssize_t n = read(client->wake_fd, &count, sizeof count);
	(void)n;
}

static void turn(sneck_client *client) {
	struct pollfd *pfds;
	struct timespec left;

	snecki_client_run_deferred(client);
	int64_t due_ns = run_timers(client);
	snecki_record_run(client, &due_ns);
	snecki_send_rest(client);
	atomic_store(&client->about_to_look, 0);
	size_t n = snecki_servers_bg_prepare(client->servers, client->wake_fd, &pfds, &due_ns);
	snecki_time_left(due_ns, &left);
	ppoll(pfds, (nfds_t)n, &left, NULL);
	atomic_store(&client->about_to_look, (uintptr_t)pthread_self());
	if (pfds[0].revents)
		drain_wake(client);
	snecki_servers_bg_run(client->servers, snecki_now_ns());
}

void *snecki_client_background(void *arg) {
	sneck_client *client = arg;

	while (!atomic_load(&client->stop))
		turn(client);
	return NULL;
}
