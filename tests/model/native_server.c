/* SPDX-License-Identifier: MIT */
/* See native_server.h. All that one run needs is sent in one pipeline; the state is sent only when it
 * is not the one that the last run left. Whatever fails here ends the program: a model that goes on
 * after an unexpected error proves nothing. */
#include "native_server.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "dialect/native/scripts.h"
#include "server.h"

#define KEY "model:{t}"

static struct test_server server;
static redisContext *redis;
static char digests[NATIVE_SCRIPTS][41];
static struct model_state loaded; /* what the server has */
static int pending;               /* replies not read yet */

static void die(const char *what) {
	fprintf(stderr, "model: %s%s%s\n", what, redis && redis->err ? ": " : "",
	        redis && redis->err ? redis->errstr : "");
	test_server_stop(&server);
	exit(2);
}

bool native_server_up(void) {
	if (test_server_start(&server, NULL) < 0)
		return false;
	redis = test_server_connect(&server);
	return redis != NULL;
}

void native_server_down(void) {
	if (redis)
		redisFree(redis);
	redis = NULL;
	test_server_stop(&server);
}

/* A copy of `text` with every `from` replaced; counts them. */
static char *replace(const char *text, const char *from, const char *to, int *ret_count) {
	size_t room = strlen(text) * 2 + strlen(to) * 64 + 1;
	char *out = calloc(1, room), *end = out;
	const char *at;
	*ret_count = 0;
	while ((at = strstr(text, from)) != NULL) {
		end += snprintf(end, room - (size_t)(end - out), "%.*s%s", (int)(at - text), text, to);
		text = at + strlen(from);
		(*ret_count)++;
	}
	snprintf(end, room - (size_t)(end - out), "%s", text);
	return out;
}

static char *replace_and_free(char *text, const char *from, const char *to, int *ret_count) {
	char *out = replace(text, from, to, ret_count);
	free(text);
	return out;
}

static bool load_script(int i, const char *const *faults, int *found) {
	const struct script *script = &snecki_native_scripts[i];
	int clocks, n; /* a script reads the clock once, or not at all */
	char *text = strndup((const char *)script->text, script->len);
	text = replace_and_free(
	        text, "redis.call('TIME')", "redis.call('LRANGE', 'clock', '0', '1')", &clocks);
	text = replace_and_free(text, "call('PUBLISH', ", "call('RPUSH', 'notes', ", &n);
	for (int k = 0; faults && faults[2 * k]; k++) {
		text = replace_and_free(text, faults[2 * k], faults[2 * k + 1], &n);
		found[k] += n;
	}
	redisReply *reply = redisCommand(redis, "SCRIPT LOAD %s", text);
	bool ok = reply && reply->type == REDIS_REPLY_STRING && clocks <= 1;
	if (ok)
		snprintf(digests[i], sizeof(digests[i]), "%s", reply->str);
	else
		fprintf(stderr, "model: %s: %s\n", script->name, reply ? reply->str : "no reply");
	freeReplyObject(reply);
	free(text);
	return ok;
}

bool native_server_load(const char *const *faults) {
	int found[8] = { 0 };
	for (int i = 0; i < NATIVE_SCRIPTS; i++) {
		if (!load_script(i, faults, found))
			return false;
	}
	for (int k = 0; faults && faults[2 * k]; k++) {
		if (found[k] == 0) {
			fprintf(stderr, "model: nowhere in the scripts: %s\n", faults[2 * k]);
			return false;
		}
	}
	return true;
}

/* ---- One run --------------------------------------------------------------------------------*/

static void queue_bytes(const char *bytes, size_t len) {
	if (redisAppendFormattedCommand(redis, bytes, len) != REDIS_OK)
		die("cannot write");
	pending++;
}

static void queue_words(struct buf *request) {
	if (request->failed)
		die("out of memory");
	queue_bytes(request->data, request->len);
	snecki_buf_clear(request);
}

static void queue_state(const struct model_state *state, struct buf *request) {
	snecki_buf_resp_array(request, 2);
	snecki_buf_resp_str(request, "DEL");
	snecki_buf_resp_str(request, KEY);
	queue_words(request);
	if (state->n == 0)
		return;
	snecki_buf_resp_array(request, 2 + 2 * (size_t)state->n);
	snecki_buf_resp_str(request, "ZADD");
	snecki_buf_resp_str(request, KEY);
	for (int i = 0; i < state->n; i++) {
		snecki_buf_resp_i64(request, state->members[i].score);
		snecki_buf_resp_str(request, state->members[i].name);
	}
	queue_words(request);
	snecki_buf_resp_array(request, 3);
	snecki_buf_resp_str(request, "PEXPIREAT");
	snecki_buf_resp_str(request, KEY);
	snecki_buf_resp_i64(request, state->expires_ms);
	queue_words(request);
}

/* The dialect's own request, but for the digest: the loaded text differs in its clock. */
static void queue_call(struct buf *request) {
	for (int i = 0; i < NATIVE_SCRIPTS; i++) {
		char *digest = memmem(request->data, request->len, snecki_native_scripts[i].sha1, 40);
		if (digest)
			memcpy(digest, digests[i], 40);
	}
	queue_words(request);
}

static redisReply *next_reply(void) {
	void *reply = NULL;
	if (redisGetReply(redis, &reply) != REDIS_OK || !reply)
		die("no reply");
	pending--;
	return reply;
}

static void read_state(const redisReply *members, const redisReply *expires, struct model_state *state) {
	memset(state, 0, sizeof(*state));
	if (members->elements / 2 > MODEL_MEMBERS)
		die("too many members");
	state->n = (int)(members->elements / 2);
	for (int i = 0; i < state->n; i++) {
		const redisReply *name = members->element[2 * i];
		if (name->len >= MODEL_NAME)
			die("a member is too long");
		memcpy(state->members[i].name, name->str, (size_t)name->len);
		state->members[i].score = strtoll(members->element[2 * i + 1]->str, NULL, 10);
	}
	state->expires_ms = state->n ? expires->integer : 0;
}

static void read_notes(const redisReply *list, struct model_result *ret) {
	const size_t prefix = strlen("model:!");
	ret->notes_n = 0;
	for (size_t i = 0; i + 1 < list->elements && ret->notes_n < MODEL_NOTES; i += 2) {
		struct model_note *note = &ret->notes[ret->notes_n];
		const redisReply *text = list->element[i + 1];
		snprintf(note->session, sizeof(note->session), "%s", list->element[i]->str + prefix);
		if (!snecki_native.read_note(NULL, text->str, (size_t)text->len, &note->note))
			die("a message that cannot be read");
		ret->notes_n++;
	}
}

/* The reply to one call of a script is the caller's to free. */
static redisReply *run_call(
        struct model_state *state, struct buf *call, int64_t now_us, struct model_result *ret) {
	static struct buf request = BUF_INIT;

	memset(ret, 0, sizeof(*ret));
	if (memcmp(state, &loaded, sizeof(loaded)) != 0)
		queue_state(state, &request);
	redisAppendCommand(redis, "DEL clock notes");
	redisAppendCommand(
	        redis, "RPUSH clock %lld %lld", (long long)(now_us / 1000000), (long long)(now_us % 1000000));
	pending += 2;
	queue_call(call);
	redisAppendCommand(redis, "ZRANGE " KEY " 0 -1 WITHSCORES");
	redisAppendCommand(redis, "PEXPIRETIME " KEY);
	redisAppendCommand(redis, "LRANGE notes 0 -1");
	pending += 3;

	while (pending > 4)
		freeReplyObject(next_reply());
	redisReply *reply = next_reply();
	if (reply->type == REDIS_REPLY_ERROR)
		fprintf(stderr, "model: %s\n", reply->str);
	redisReply *members = next_reply(), *expires = next_reply(), *notes = next_reply();
	read_state(members, expires, state);
	read_notes(notes, ret);
	freeReplyObject(members);
	freeReplyObject(expires);
	freeReplyObject(notes);
	loaded = *state;
	return reply;
}

static void run_among_many(struct model_state *state, const struct dialect_session *session,
        const struct lock_op *op, uint64_t token, int64_t now_us, struct model_result *ret) {
	static struct buf call = BUF_INIT;
	struct lock_op renew = *op;
	const struct renewal renewal = { &renew, "t", 1 };

	renew.token = token;

	if (snecki_native.encode_renewals(session, &renewal, 1, false, &call) != 0)
		die("cannot encode");
	redisReply *reply = run_call(state, &call, now_us, ret);
	if (!snecki_native.decode_renewals(session, &renewal, 1, reply, &ret->outcome))
		die("renew_many: an answer that cannot be read");
	freeReplyObject(reply);
}

static uint64_t last_token(const struct model_state *state) {
	for (int i = 0; i < state->n; i++)
		if (strcmp(state->members[i].name, "#1") == 0)
			return (uint64_t)state->members[i].score;
	return 0;
}

/* One of many does what a single one does, or nothing at all. */
static bool same_renewal(const struct model_state *before, const struct model_state *many_state,
        const struct model_result *many, const struct model_state *state, const struct model_result *single) {
	const struct lock_outcome *a = &many->outcome, *b = &single->outcome;

	if (many->notes_n)
		return false;
	if (a->status == LOCK_UNKNOWN)
		return memcmp(before, many_state, sizeof(*before)) == 0;
	return b->status == LOCK_GRANTED && !b->wanted && !b->more && single->notes_n == 0 &&
	       a->token == b->token && a->deadline_ms == b->deadline_ms && a->server_us == b->server_us &&
	       memcmp(state, many_state, sizeof(*state)) == 0;
}

/* Whoever expects another number, of an earlier phase or of one that the server has lost, is told nothing. */
static bool renews_under_another_token(const struct model_state *before,
        const struct dialect_session *session, const struct lock_op *op, uint64_t token, int64_t now_us) {
	static struct model_state copy;
	static struct model_result many;
	bool done = false;

	for (int off = -1; off <= 1; off += 2) {
		copy = *before;
		run_among_many(&copy, session, op, token + (uint64_t)off, now_us, &many);
		done |= many.outcome.status != LOCK_UNKNOWN || memcmp(before, &copy, sizeof copy) != 0;
	}
	return done;
}

void native_server_run(struct model_state *state, const struct dialect_session *session,
        const struct lock_op *op, int64_t now_us, struct model_result *ret) {
	static struct buf call = BUF_INIT;
	static struct model_state before, copy;
	static struct model_result many;
	bool unlike = false;
	uint64_t token = last_token(state);
	bool plain = op->kind == OP_RENEW && !op->must_write && op->last_token <= token;

	if (plain) {
		before = copy = *state;
		unlike = renews_under_another_token(&before, session, op, token, now_us);
		run_among_many(&copy, session, op, token, now_us, &many);
	}
	if (snecki_native.encode(session, op, "t", 1, false, &call) != 0)
		die("cannot encode");
	redisReply *reply = run_call(state, &call, now_us, ret);
	snecki_native.decode(session, op, reply, &ret->outcome, NULL);
	freeReplyObject(reply);
	ret->differs = plain && (unlike || !same_renewal(&before, &copy, &many, state, ret));
}

void native_server_break(struct model_state *state, const struct dialect_session *session, const char *id,
        int64_t grace_ms, int64_t now_us, struct model_result *ret) {
	static struct buf call = BUF_INIT;
	bool more;

	if (snecki_native.encode_break(session, "t", 1, id, grace_ms, "x", false, &call) != 0)
		die("cannot encode");
	redisReply *reply = run_call(state, &call, now_us, ret);
	ret->outcome.status = LOCK_DONE;
	if (snecki_native.decode_break(session, reply, &more, NULL) != 0)
		ret->outcome.status = LOCK_FAILED;
	freeReplyObject(reply);
}

void native_server_expire(struct model_state *state, int64_t now_us) {
	if (state->n && now_us / 1000 >= state->expires_ms)
		memset(state, 0, sizeof(*state));
}
