/* SPDX-License-Identifier: MIT */
/* Many renewals in one script call: what is plain is renewed, of all others nothing is changed, and an answer
 * that does not fit is none. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/native/scripts.h"
#include "native_fixture.h"

enum { LOCKS = 8 };

/* "l0", "l1", … and the same attempt of A on each. */
struct many {
	struct lock_op ops[RENEWALS_MAX];
	char names[RENEWALS_MAX][24];
	struct renewal renewals[RENEWALS_MAX];
	struct lock_outcome outcomes[RENEWALS_MAX];
	size_t n;
};

static void name_many(struct many *many, size_t n) {
	memset(many, 0, sizeof *many);
	many->n = n;
	for (size_t i = 0; i < n; i++) {
		snprintf(many->names[i], sizeof many->names[i], "l%zu", i);
		many->ops[i] = native_op(OP_RENEW, 'W', 1);
		many->renewals[i] = (struct renewal){ &many->ops[i], many->names[i], strlen(many->names[i]) };
	}
}

/* Returns the token. */
static uint64_t run_on(const struct dialect_session *session, const char *name, enum lock_op_kind kind,
        char mode, uint64_t attempt, enum lock_status status) {
	struct lock_op op = native_op(kind, mode, attempt);
	struct lock_outcome outcome = native_run_name(session, &op, name, strlen(name));
	assert_int_equal(outcome.status, status);
	return outcome.token;
}

static redisReply *send_many(const struct many *many, bool full_text) {
	struct buf request = BUF_INIT;
	void *reply = NULL;

	assert_int_equal(snecki_native.encode_renewals(&A, many->renewals, many->n, full_text, &request), 0);
	assert_int_equal(redisAppendFormattedCommand(native_redis, request.data, request.len), REDIS_OK);
	assert_int_equal(redisGetReply(native_redis, &reply), REDIS_OK);
	snecki_buf_done(&request);
	return reply;
}

static void renew_many(struct many *many) {
	redisReply *reply = send_many(many, true);

	assert_true(snecki_native.decode_renewals(&A, many->renewals, many->n, reply, many->outcomes));
	freeReplyObject(reply);
}

static int64_t number_of(const char *format, const char *name, const char *member) {
	redisReply *reply = redisCommand(native_redis, format, name, member);
	assert_non_null(reply);
	int64_t value = reply->type == REDIS_REPLY_INTEGER  ? reply->integer
	                : reply->type == REDIS_REPLY_STRING ? strtoll(reply->str, NULL, 10)
	                                                    : -1;
	freeReplyObject(reply);
	return value;
}

static int64_t deadline_of(const char *name, const char *member) {
	return number_of("ZSCORE sneck:{%s} %s", name, member);
}

static int64_t end_of(const char *name) {
	return number_of("PEXPIRETIME sneck:{%s}", name, NULL);
}

static void set_deadline(const char *name, const char *member, int64_t deadline_ms) {
	native_do("ZADD sneck:{%s} XX %" PRId64 " %s", name, deadline_ms, member);
}

/* Taken a while ago: what was granted in this very millisecond ends no sooner than a renewal would have it.
 */
static uint64_t take_earlier(const char *name, char mode) {
	const char member[] = { mode, 'A', '.', '1', '\0' };
	uint64_t token = run_on(&A, name, OP_ACQUIRE, mode, 1, LOCK_GRANTED);

	set_deadline(name, member, native_now_ms() + LEASE_MS / 2);
	return token;
}

static void take_many(struct many *many, size_t n) {
	name_many(many, n);
	for (size_t i = 0; i < n; i++)
		many->ops[i].token = take_earlier(many->names[i], 'W');
}

/* It stands as the answer says, and the key lasts. */
static void assert_renewed(const struct many *many, size_t i, const char *member) {
	const char *name = many->names[i];
	const struct lock_outcome *outcome = &many->outcomes[i];

	assert_int_equal(outcome->status, LOCK_GRANTED);
	assert_int_equal(deadline_of(name, member), outcome->deadline_ms);
	assert_int_equal(deadline_of(name, "#1"), outcome->token);
	assert_int_equal(outcome->deadline_ms, outcome->server_us / 1000 + LEASE_MS);
	assert_false(outcome->wanted || outcome->more);
	assert_true(end_of(name) >= outcome->deadline_ms + KEEP_MS);
}

static void test_all_are_renewed(void **state) {
	(void)state;
	struct many many;
	take_many(&many, RENEWALS_MAX);
	int64_t before_ms = native_now_ms();
	for (size_t i = 0; i < many.n; i++) {
		set_deadline(many.names[i], "WA.1", before_ms + 1000);
		native_do("PEXPIREAT sneck:{%s} %" PRId64, many.names[i], before_ms + 2000);
	}
	renew_many(&many);
	for (size_t i = 0; i < many.n; i++)
		assert_renewed(&many, i, "WA.1");
	assert_true(many.outcomes[0].deadline_ms >= before_ms + LEASE_MS);
}

/* Everything that is in a lock, as text. */
static void contents(const char *name, char ret[2000]) {
	redisReply *reply = redisCommand(native_redis, "ZRANGE sneck:{%s} 0 -1 WITHSCORES", name);
	size_t len = 0;

	ret[0] = '\0';
	for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i < reply->elements; i++)
		len += (size_t)snprintf(ret + len, 2000 - len, "%s ", reply->element[i]->str);
	freeReplyObject(reply);
}

enum {
	PLAIN,
	GONE,
	DEAD,
	BROKEN,
	WANTED,
	WRONG_TYPE,
	NO_LOCK,
	LONGER,
	TOKEN_LATER,
	TOKEN_EARLIER,
	PLAIN_TOO,
	KINDS
};

static void spoil(const struct many *many) {
	int64_t now_ms = native_now_ms();

	native_do("DEL sneck:{%s}", many->names[GONE]);
	set_deadline(many->names[DEAD], "WA.1", 1000);
	native_do("ZREM sneck:{%s} WA.1", many->names[BROKEN]);
	native_do("ZADD sneck:{%s} %" PRId64 " bA.1", many->names[BROKEN],
	        INT64_C(300000000000000) + now_ms + 60000);
	run_on(&B, many->names[WANTED], OP_ACQUIRE, 'W', 1, LOCK_WAITING);
	native_do("DEL sneck:{%s}", many->names[WRONG_TYPE]);
	native_do("SET sneck:{%s} text", many->names[WRONG_TYPE]);
	native_do("ZREM sneck:{%s} #1", many->names[NO_LOCK]);
	set_deadline(many->names[LONGER], "WA.1", now_ms + 10 * LEASE_MS);
	set_deadline(many->names[TOKEN_LATER], "#1", (int64_t)many->ops[TOKEN_LATER].token + 1);
	set_deadline(many->names[TOKEN_EARLIER], "#1", (int64_t)many->ops[TOKEN_EARLIER].token - 1);
}

/* Whatever is the matter with one is told by `renew`; here it is left alone, and the others are served. */
static void test_what_is_not_plain_is_left_alone(void **state) {
	(void)state;
	static const enum lock_status singly[KINDS] = { LOCK_GRANTED, LOCK_GONE, LOCK_GONE, LOCK_BROKEN,
		LOCK_GRANTED, LOCK_FAILED, LOCK_FAILED, LOCK_GRANTED, LOCK_GRANTED, LOCK_GRANTED,
		LOCK_GRANTED };
	struct many many;
	char before[KINDS][2000], after[2000];
	int64_t ends_ms[KINDS];

	take_many(&many, KINDS);
	spoil(&many);
	for (size_t i = 0; i < many.n; i++)
		contents(many.names[i], before[i]), ends_ms[i] = end_of(many.names[i]);
	renew_many(&many);
	assert_renewed(&many, PLAIN, "WA.1");
	assert_renewed(&many, PLAIN_TOO, "WA.1");
	for (size_t i = PLAIN + 1; i < PLAIN_TOO; i++) {
		assert_int_equal(many.outcomes[i].status, LOCK_UNKNOWN);
		contents(many.names[i], after);
		assert_string_equal(before[i], after);
		assert_int_equal(end_of(many.names[i]), ends_ms[i]);
	}
	for (size_t i = 0; i < many.n; i++)
		run_on(&A, many.names[i], OP_RENEW, 'W', 1, singly[i]);
}

/* Readers of several sessions, and a lock beside whose holder somebody lies buried. One that is dead must be
 * removed some day, which is not done here. */
static void test_others_beside_it_do_not_matter(void **state) {
	(void)state;
	struct many many;
	name_many(&many, 3);
	for (size_t i = 0; i < 2; i++) {
		many.ops[i].mode = 'R';
		run_on(&B, many.names[i], OP_ACQUIRE, 'R', 1, LOCK_GRANTED);
		many.ops[i].token = take_earlier(many.names[i], 'R');
		run_on(&C, many.names[i], OP_ACQUIRE, 'R', 1, LOCK_GRANTED);
	}
	set_deadline("l1", "RB.1", 1000);
	int64_t deadline_ms = deadline_of("l1", "RA.1");
	many.ops[2].token = take_earlier("l2", 'W');
	native_do("ZADD sneck:{l2} %" PRId64 " xB.7", INT64_C(200000000000000) + native_now_ms() + 60000);
	renew_many(&many);
	assert_renewed(&many, 0, "RA.1");
	assert_int_equal(many.outcomes[1].status, LOCK_UNKNOWN);
	assert_int_equal(deadline_of("l1", "RA.1"), deadline_ms);
	assert_renewed(&many, 2, "WA.1");
	assert_int_equal(deadline_of("l1", "RB.1"), 1000);
}

static void test_when_memory_is_full(void **state) {
	(void)state;
	struct many many;
	take_many(&many, LOCKS);
	native_do("CONFIG SET maxmemory 1");
	renew_many(&many);
	native_do("CONFIG SET maxmemory 0");
	for (size_t i = 0; i < many.n; i++)
		assert_renewed(&many, i, "WA.1");
}

static bool fits(struct many *many, const char *resp) {
	redisReader *reader = redisReaderCreate();
	void *reply = NULL;

	redisReaderFeed(reader, resp, strlen(resp));
	assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
	assert_non_null(reply);
	bool ok = snecki_native.decode_renewals(&A, many->renewals, many->n, reply, many->outcomes);
	freeReplyObject(reply);
	redisReaderFree(reader);
	return ok;
}

#define BEGIN ":1700000000000000\r\n$4\r\nWA.1\r\n:1700000030000\r\n"
#define DONE ":1\r\n"

static void test_answers_that_do_not_fit(void **state) {
	(void)state;
	struct many many;
	name_many(&many, 2);
	many.ops[0].token = 1700000000000000;
	assert_true(fits(&many, "*5\r\n" BEGIN DONE ":0\r\n"));
	assert_int_equal(many.outcomes[0].status, LOCK_GRANTED);
	assert_int_equal(many.outcomes[0].token, 1700000000000000);
	assert_int_equal(many.outcomes[1].status, LOCK_UNKNOWN);
	static const char *const wrong[] = {
		"*4\r\n" BEGIN DONE,                               /* one is missing */
		"*6\r\n" BEGIN DONE DONE DONE,                     /* one too many */
		"*0\r\n",                                          /* nothing */
		":1\r\n",                                          /* no list */
		"*5\r\n" BEGIN DONE ":2\r\n",                      /* neither done nor not */
		"*5\r\n" BEGIN DONE ":-1\r\n",                     /* nor this */
		"*5\r\n" BEGIN DONE "$1\r\n1\r\n",                 /* a text for a number */
		"*5\r\n" BEGIN DONE "$-1\r\n",                     /* nil */
		"*5\r\n:1\r\n$4\r\nWA.2\r\n:5\r\n" DONE DONE,      /* another's answer */
		"*5\r\n:1\r\n$4\r\nWA.1\r\n:0\r\n" DONE DONE,      /* no deadline */
		"*5\r\n:1\r\n$4\r\nWA.1\r\n:-7\r\n" DONE DONE,     /* nor this */
		"*5\r\n$1\r\n1\r\n$4\r\nWA.1\r\n:5\r\n" DONE DONE, /* a text for a number */
	};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		if (fits(&many, wrong[i]))
			fail_msg("answer %zu was believed", i);
}

/* A name that cannot be leaves no half request. */
static void test_nothing_is_written_by_halves(void **state) {
	(void)state;
	struct many many;
	struct buf out = BUF_INIT;
	name_many(&many, 3);
	many.renewals[1].name_len = 0;
	snecki_buf_add_str(&out, "before");
	assert_int_equal(snecki_native.encode_renewals(&A, many.renewals, many.n, false, &out), SNECK_EINVAL);
	assert_int_equal(out.len, strlen("before"));
	snecki_buf_done(&out);
}

/* One that the server has forgotten is found again by its text. */
static void test_the_script_is_known_by_its_digest(void **state) {
	(void)state;
	struct many many;
	take_many(&many, LOCKS);
	native_do("SCRIPT FLUSH");
	redisReply *reply = send_many(&many, false);
	assert_int_equal(reply->type, REDIS_REPLY_ERROR);
	assert_int_equal(strncmp(reply->str, "NOSCRIPT", 8), 0);
	freeReplyObject(reply);
	renew_many(&many);
	reply = send_many(&many, false);
	assert_int_equal(reply->type, REDIS_REPLY_ARRAY);
	freeReplyObject(reply);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		NATIVE_TEST(test_all_are_renewed),
		NATIVE_TEST(test_what_is_not_plain_is_left_alone),
		NATIVE_TEST(test_others_beside_it_do_not_matter),
		NATIVE_TEST(test_when_memory_is_full),
		NATIVE_TEST(test_answers_that_do_not_fit),
		NATIVE_TEST(test_nothing_is_written_by_halves),
		NATIVE_TEST(test_the_script_is_known_by_its_digest),
	};
	return cmocka_run_group_tests(tests, native_up, native_down);
}
