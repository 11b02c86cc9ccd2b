/* SPDX-License-Identifier: MIT */
/* The session's record: who holds, for people who look at locks.
 *
 * It is written behind the first request for a lock, which it neither delays nor decides about; it is
 * written again from time to time, so that one that got lost comes back, and removed at close. A session
 * that just dies leaves a record that ends by itself. A failure is logged and tried again when the next
 * time has come: no lock depends on it.
 *
 * There is one request, which is in line (`busy`) or not; whoever makes it busy owns it until it is
 * answered. It is submitted with nothing locked, because net may answer from inside the submit. */
#include "client/client.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#include <hiredis/hiredis.h>

#include "base/clock.h"
#include "base/random.h"
#include "net/server_error.h"

enum { RECORD_TTL_MS = 90000, RECORD_REFRESH_MS = 30000, RECORD_LISTEN_MS = 300 };

/* ---- What it says -------------------------------------------------------------------------------*/

/* Cut between characters, should it be UTF-8. */
static void copy_text(char *out, size_t size, const char *text) {
	size_t len = strnlen(text, size);

	if (len == size) {
		len--;
		while (len > 0 && ((unsigned char)text[len] & 0xc0) == 0x80)
			len--;
	}
	memcpy(out, text, len);
	out[len] = '\0';
}

void snecki_record_init(sneck_client *client, const sneck_client_options *options) {
	struct record *record = &client->record;
	char own[256] = "";
	struct timespec now;

	record->wanted = (options->who_user || options->who_command || options->note) &&
	                 client->dialect->encode_record;
	copy_text(record->user, sizeof record->user, options->who_user ? options->who_user : "");
	copy_text(record->command, sizeof record->command, options->who_command ? options->who_command : "");
	copy_text(record->note, sizeof record->note, options->note ? options->note : "");
	if (!options->session_host)
		(void)gethostname(own, sizeof own - 1);
	copy_text(record->host, sizeof record->host, options->session_host ? options->session_host : own);
	record->pid = (int32_t)getpid();
	clock_gettime(CLOCK_REALTIME, &now);
	record->since_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / NS_PER_MS;
	record->ttl_ms = RECORD_TTL_MS;
	record->refresh_ms = RECORD_REFRESH_MS;
	record->due_ns = NS_NEVER;
	record->listen_ns = NS_NEVER;
}

void snecki_record_done(sneck_client *client) {
	snecki_buf_done(&client->record.req.bytes);
}

struct session_record snecki_record_fields(const sneck_client *client) {
	const struct record *record = &client->record;

	return (struct session_record){ .user = record->user,
		.host = record->host,
		.command = record->command,
		.note = record->note,
		.pid = record->pid,
		.since_ms = record->since_ms };
}

/* ---- The request --------------------------------------------------------------------------------*/

static void request_done(struct req *req, enum req_status status, const struct redisReply *reply,
        const struct sneck_error *error);

static int encode(sneck_client *client) {
	struct record *record = &client->record;
	const struct session_record fields = snecki_record_fields(client);

	snecki_buf_clear(&record->req.bytes);
	if (record->deleting)
		return client->dialect->encode_record_end(&client->session, &record->req.bytes);
	return client->dialect->encode_record(
	        &client->session, &fields, record->ttl_ms, record->full_text, &record->req.bytes);
}

/* Nothing locked, `busy` set by the caller. */
static void submit(sneck_client *client) {
	struct req *req = &client->record.req;

	req->done = request_done;
	req->parker = NULL;
	if (encode(client) < 0)
		request_done(req, REQ_NOT_SENT, NULL, NULL);
	else
		snecki_servers_submit(client->servers, req);
}

/* It is out of line. True: it was taken again, to remove what it may have written. */
static bool let_go(sneck_client *client) {
	struct record *record = &client->record;

	pthread_mutex_lock(&client->mutex);
	bool again = record->ending && !record->deleting;
	record->deleting = record->ending;
	record->busy = again;
	if (!again && atomic_load(&client->closing))
		pthread_cond_broadcast(&client->changed);
	pthread_mutex_unlock(&client->mutex);
	return again;
}

/* Thread: whichever reads. */
static void request_done(struct req *req, enum req_status status, const struct redisReply *reply,
        const struct sneck_error *error) {
	struct record *record = LIST_ITEM(req, struct record, req);
	sneck_client *client = LIST_ITEM(record, sneck_client, record);

	(void)error; /* a link that is down has a line of its own in the log */
	if (status == REQ_REPLY && reply->type == REDIS_REPLY_ERROR) {
		const struct server_error *row = snecki_server_error_find(reply->str, (size_t)reply->len);
		if (row->action == ACT_EVAL && !record->full_text) {
			record->full_text = true;
			submit(client);
			return;
		}
		snecki_log(&client->log, LOG_INFO_, "the record of this session cannot be written: %s",
		        reply->str);
	}
	if (let_go(client))
		submit(client);
}

/* ---- When ---------------------------------------------------------------------------------------*/

/* Sessions that were started together do not write together for ever. */
static int64_t next_due(const struct record *record) {
	uint64_t spread_ms = snecki_random_u64() % (record->refresh_ms / 5 + 1);

	return snecki_after_ms(snecki_now_ns(), record->refresh_ms - (int64_t)spread_ms);
}

void snecki_record_begin(sneck_client *client) {
	struct record *record = &client->record;

	if (!record->wanted || record->begun)
		return;
	record->begun = true;
	record->unsent = true;
}

bool snecki_record_take(sneck_client *client) {
	struct record *record = &client->record;

	if (!record->unsent || record->ending)
		return false;
	record->unsent = false;
	record->busy = true;
	record->due_ns = next_due(record);
	record->listen_ns = snecki_after_ms(snecki_now_ns(), RECORD_LISTEN_MS);
	return true;
}

void snecki_record_write(sneck_client *client) {
	submit(client);
	snecki_client_wake(client); /* to see when it is due again */
}

/* Locked. A session that holds for a moment only need not hear that it was broken. */
static void listen(sneck_client *client, int64_t *due_ns) {
	struct record *record = &client->record;

	if (snecki_now_ns() >= record->listen_ns) {
		record->listen_ns = NS_NEVER;
		client->subscribed_once = true;
		snecki_servers_hear(client->servers);
		snecki_core_listen(client->core); /* in a cluster */
	}
	if (record->listen_ns < *due_ns)
		*due_ns = record->listen_ns;
}

void snecki_record_run(sneck_client *client, int64_t *due_ns) {
	struct record *record = &client->record;

	if (!record->wanted)
		return;
	pthread_mutex_lock(&client->mutex);
	listen(client, due_ns);
	bool due = record->begun && !record->ending && snecki_now_ns() >= record->due_ns;
	if (due)
		record->due_ns = next_due(record);
	bool ours = due && !record->busy;
	if (ours) {
		record->busy = true;
		record->full_text = false;
	}
	if (!record->ending && record->due_ns < *due_ns)
		*due_ns = record->due_ns;
	pthread_mutex_unlock(&client->mutex);
	if (ours)
		submit(client);
}

void snecki_record_end(sneck_client *client) {
	struct record *record = &client->record;

	pthread_mutex_lock(&client->mutex);
	bool ours = record->begun && !record->unsent && !record->busy;
	record->ending = true;
	if (ours) {
		record->busy = true;
		record->deleting = true;
	}
	pthread_mutex_unlock(&client->mutex);
	if (ours)
		submit(client);
}
