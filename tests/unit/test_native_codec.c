/* SPDX-License-Identifier: MIT */
/* The native dialect without a server: what it writes, and that it believes nothing that does not
 * fit. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <hiredis/hiredis.h>
#include <sneck/error.h>
#include <sneck/sneck.h>

#include "dialect/native/native.h"

static const struct dialect_session session = {
	.name_space = "ns", .id = "host:1:ab", .keep_ms = 10000, .bury_ms = 60000
};

static redisReply *parse(const char *bytes, size_t len) {
	void *reply = NULL;
	redisReader *reader = redisReaderCreate();
	assert_int_equal(redisReaderFeed(reader, bytes, len), REDIS_OK);
	(void)redisReaderGetReply(reader, &reply); /* NULL for what is no reply */
	redisReaderFree(reader);
	return reply;
}

/* ---- Numbers and ids ------------------------------------------------------------------------*/

static void test_counters_are_base_36(void **state) {
	(void)state;
	static const uint64_t counters[] = { 0, 1, 35, 36, 37, 46655, 46656, UINT64_MAX >> 1,
		LOCK_DETACHED | 46656, UINT64_MAX };
	static const char *const texts[] = { "0", "1", "z", "10", "11", "zzz", "1000", "1y2p0ij32e8e7",
		"1000~", "1y2p0ij32e8e7~" };
	for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) {
		char text[NATIVE_COUNTER_MAX + 1];
		uint64_t back = 0;
		snecki_native_counter(counters[i], text);
		assert_string_equal(text, texts[i]);
		assert_true(snecki_native_read_counter(text, strlen(text), &back));
		assert_true(back == counters[i]);
	}
}

static void test_numbers_that_do_not_fit_are_none(void **state) {
	(void)state;
	static const char *const bad[] = { "", "-1", "+1", " 1", "1 ", "1.0", "1e3", "0x1", "1A",
		"18446744073709551616", "99999999999999999999", "\xff" };
	uint64_t value = 7;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(snecki_native_number(bad[i], strlen(bad[i]), 10, &value));
	assert_false(snecki_native_number("3w5e11264sgsg", 13, 36, &value)); /* 2^64 */
	assert_false(snecki_native_number("a", 1, 10, &value));
	assert_false(snecki_native_number("1\0", 2, 10, &value));
	assert_true(value == 7);
	assert_true(snecki_native_number("18446744073709551615", 20, 10, &value));
	assert_true(value == UINT64_MAX);
}

static void test_ids(void **state) {
	(void)state;
	static const char *const bad[] = { "", "R", "Rhost", "Rhost.", "R.1", "Xhost.1", "rhost.1", "Rhost.A",
		"Rhost.1.2", "Rho st.1", "Rhost.1 ", "Rho\nst.1", "Rho\xc3st.1", "Rhost.3w5e11264sgsg",
		"Rhost.1y2p0ij32e8e8", "Rhost.~", "Rhost.~1", "Rhost.1~~", "Rhost.1!", "Rhost.1y2p0ij32e8e8~",
		"R01234567890123456789012345678901234567890.1", "#1" };
	char id[LOCK_ID_MAX], maker[LOCK_HOLDER_MAX];
	uint64_t counter;
	snecki_native.hold_id(&session, 'W', 46656, id);
	assert_string_equal(id, "Whost:1:ab.1000");
	assert_true(snecki_native.check_id(id));
	snecki_native.read_id(id, maker, &counter);
	assert_string_equal(maker, session.id);
	assert_true(counter == 46656);
	snecki_native.hold_id(&session, 'R', 46656 | LOCK_DETACHED, id);
	assert_string_equal(id, "Rhost:1:ab.1000~");
	assert_true(snecki_native.check_id(id));
	snecki_native.read_id(id, maker, &counter);
	assert_true(counter == (46656 | LOCK_DETACHED));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (snecki_native.check_id(bad[i]))
			fail_msg("accepted \"%s\"", bad[i]);
	}
	struct dialect_session longest = session;
	longest.id = "0123456789012345678901234567890123456789";
	snecki_native.hold_id(&longest, 'R', UINT64_MAX, id);
	assert_true(snecki_native.check_id(id));
	snecki_native.read_id(id, maker, &counter);
	assert_string_equal(maker, longest.id);
	assert_true(counter == UINT64_MAX);
}

static void test_keys(void **state) {
	(void)state;
	struct buf key = BUF_INIT;
	char name[SNECK_NAME_MAX + 1] = "";
	assert_int_equal(snecki_native_key("ns", "a%{b}\0c", 7, &key), 0);
	assert_int_equal(key.len, strlen("ns:{a%25%7Bb%7D}") + 2);
	assert_memory_equal(key.data, "ns:{a%25%7Bb%7D\0c}", key.len);
	snecki_buf_clear(&key);
	assert_int_equal(snecki_native_key("ns", "", 0, &key), SNECK_EINVAL);
	assert_int_equal(snecki_native_key("ns", name, sizeof(name), &key), SNECK_EINVAL);
	assert_int_equal(snecki_native_key("ns", name, sizeof(name) - 1, &key), 0);
	snecki_buf_done(&key);
	assert_int_equal(snecki_native.channel(&session, &key), 0);
	assert_int_equal(key.len, strlen("ns:!host:1:ab"));
	assert_memory_equal(key.data, "ns:!host:1:ab", key.len);
	snecki_buf_done(&key);
}

/* ---- Requests -------------------------------------------------------------------------------*/

static struct lock_op full_op(enum lock_op_kind kind) {
	struct lock_op op = { .kind = kind, .mode = 'W', .attempt = 37, .lease_ms = 30000 };
	op.wait_lease_ms = 3000;
	op.queue = op.prefer = op.shrink_expiry = true;
	op.old = kind == OP_UPGRADE || kind == OP_DOWNGRADE ? 36 : 0;
	op.last_token = 99;
	op.own_n = op.bury_n = 2;
	op.own[0] = op.bury[0] = 5;
	op.own[1] = op.bury[1] = 71;
	snprintf(op.foreign_id, sizeof(op.foreign_id), "Wother.1");
	return op;
}

/* The request's arguments from the fifth on, joined by blanks. */
static void encoded(const struct lock_op *op, bool full_text, char *ret_text, size_t size) {
	struct buf out = BUF_INIT;
	size_t used = 0;
	assert_int_equal(snecki_native.encode(&session, op, "n}", 2, full_text, &out), 0);
	redisReply *request = parse(out.data, out.len);
	assert_non_null(request);
	assert_int_equal(request->type, REDIS_REPLY_ARRAY);
	assert_true(request->elements > 4);
	assert_string_equal(request->element[0]->str, full_text ? "EVAL" : "EVALSHA");
	assert_int_equal(request->element[1]->len, full_text ? strlen(request->element[1]->str) : 40);
	assert_string_equal(request->element[2]->str, "1");
	assert_string_equal(request->element[3]->str, "ns:{n%7D}");
	ret_text[0] = '\0';
	for (size_t i = 4; i < request->elements; i++)
		used += (size_t)snprintf(ret_text + used, size - used, "%s%s", i > 4 ? " " : "",
		        request->element[i]->len ? request->element[i]->str : "''");
	freeReplyObject(request);
	snecki_buf_done(&out);
}

static void test_requests(void **state) {
	(void)state;
	static const char *const expected[OP_KINDS] = {
		[OP_ACQUIRE] = "Whost:1:ab.11 30000 10000 3000 p ns:! 5 1z",
		[OP_BEAT] = "W 30000 3000 '' 5 1z",
		[OP_RELEASE] = "Whost:1:ab.11 10000 60000 ns:! 99 1 5 1z",
		[OP_RENEW] = "W 30000 99 0 0",
		[OP_UPGRADE] = "10 30000 3000 1 5 1z",
		[OP_DOWNGRADE] = "10 30000 99",
		[OP_CANCEL] = "W '' 60000 5 1z",
		[OP_ADVANCE] = "",
		[OP_RENAME] = "Wother.1 30000 0 1 99",
		[OP_LINGER] = "W 0 99 0 0",
	};
	for (int kind = 0; kind < OP_KINDS; kind++) {
		struct lock_op op = full_op((enum lock_op_kind)kind);
		char text[512], wanted[512];
		bool short_ = kind == OP_ACQUIRE || kind == OP_RELEASE;
		snprintf(wanted, sizeof(wanted), "%s%s%s", short_ ? "" : "host:1:ab.11 10000 ns:!",
		        short_ || !expected[kind][0] ? "" : " ", expected[kind]);
		encoded(&op, false, text, sizeof(text));
		assert_string_equal(text, wanted);
		encoded(&op, true, text, sizeof(text));
		assert_string_equal(text, wanted);
	}
}

static void test_requests_of_an_upgrade(void **state) {
	(void)state;
	struct lock_op op = full_op(OP_BEAT);
	char text[512];
	op.old = 36;
	op.own_n = 0;
	encoded(&op, false, text, sizeof(text));
	assert_string_equal(text, "host:1:ab.11 10000 ns:! W 30000 3000 10");
	op.kind = OP_CANCEL;
	op.bury_n = 0;
	encoded(&op, false, text, sizeof(text));
	assert_string_equal(text, "host:1:ab.11 10000 ns:! W 10 60000");
	op.kind = OP_ACQUIRE;
	op.prefer = false;
	encoded(&op, false, text, sizeof(text));
	assert_string_equal(text, "Whost:1:ab.11 30000 10000 3000 n ns:!");
	op.queue = false;
	encoded(&op, false, text, sizeof(text));
	assert_string_equal(text, "Whost:1:ab.11 30000 10000 3000 - ns:!");
}

static void test_a_release_that_asks_for_nothing_else_is_short(void **state) {
	(void)state;
	struct lock_op op = { .kind = OP_RELEASE, .mode = 'R', .attempt = 37 };
	char text[512];
	encoded(&op, false, text, sizeof(text));
	assert_string_equal(text, "Rhost:1:ab.11 10000 60000 ns:!");
	op.last_token = 7;
	encoded(&op, false, text, sizeof(text));
	assert_string_equal(text, "Rhost:1:ab.11 10000 60000 ns:! 7 0");
	op.last_token = 0;
	op.shrink_expiry = true;
	encoded(&op, false, text, sizeof(text));
	assert_string_equal(text, "Rhost:1:ab.11 10000 60000 ns:! 0 1");
	op.shrink_expiry = false;
	op.bury_n = 1;
	op.bury[0] = 36;
	encoded(&op, false, text, sizeof(text));
	assert_string_equal(text, "Rhost:1:ab.11 10000 60000 ns:! 0 0 10");
}

static void test_a_refused_name_writes_nothing(void **state) {
	(void)state;
	struct lock_op op = full_op(OP_ACQUIRE);
	struct buf out = BUF_INIT;
	snecki_buf_add_str(&out, "before");
	assert_int_equal(snecki_native.encode(&session, &op, "", 0, false, &out), SNECK_EINVAL);
	assert_int_equal(out.len, strlen("before"));
	snecki_buf_done(&out);
}

/* ---- Replies --------------------------------------------------------------------------------*/

static struct lock_outcome decoded(
        enum lock_op_kind kind, const char *bytes, size_t len, sneck_error *error) {
	struct lock_op op = full_op(kind);
	struct lock_outcome outcome;
	redisReply *reply = parse(bytes, len);
	memset(&outcome, 0x5a, sizeof(outcome));
	snecki_native.decode(&session, &op, reply, &outcome, error);
	if (reply)
		freeReplyObject(reply);
	return outcome;
}

#define GRANTED "*6\r\n$7\r\ngranted\r\n:1700000000000001\r\n$12\r\nhost:1:ab.11\r\n"
#define TOKEN "$16\r\n1700000000000001\r\n"
#define TAIL ":1700000030000\r\n:3\r\n"
#define WAITING "*8\r\n$7\r\nwaiting\r\n:1700000000000001\r\n$12\r\nhost:1:ab.11\r\n" TOKEN TAIL

static void test_reads_a_grant(void **state) {
	(void)state;
	static const char reply[] = GRANTED TOKEN TAIL;
	struct lock_outcome got = decoded(OP_ACQUIRE, reply, sizeof(reply) - 1, NULL);
	assert_int_equal(got.status, LOCK_GRANTED);
	assert_int_equal(got.code, 0);
	assert_int_equal(got.server_us, 1700000000000001);
	assert_int_equal(got.token, 1700000000000001);
	assert_int_equal(got.deadline_ms, 1700000030000);
	assert_int_equal(got.holder_deadline_ms, 0);
	assert_true(got.more && got.wanted && !got.released_grant && !got.retry);
}

#define SHORT_GRANT "$30\r\nWhost:1:ab.11 1700000000000001\r\n"
#define SHORT_DONE "$13\r\nWhost:1:ab.11\r\n"

static void test_reads_what_is_said_of_a_free_lock(void **state) {
	(void)state;
	struct lock_outcome got = decoded(OP_ACQUIRE, SHORT_GRANT, strlen(SHORT_GRANT), NULL);
	assert_int_equal(got.status, LOCK_GRANTED);
	assert_int_equal(got.code, 0);
	assert_int_equal(got.server_us, 1700000000000001);
	assert_int_equal(got.token, 1700000000000001);
	assert_int_equal(got.deadline_ms, 1700000030000); /* the lease that was asked for */
	assert_true(!got.more && !got.wanted && !got.released_grant && !got.retry && !got.holder[0]);
	got = decoded(OP_RELEASE, SHORT_DONE, strlen(SHORT_DONE), NULL);
	assert_int_equal(got.status, LOCK_DONE);
	assert_true(got.server_us == 0 && got.token == 0 && !got.more && !got.wanted);
}

/* Of another attempt, of another mode, of a part of it, of more than it; no number; an answer to something
 * else. */
static void test_believes_no_short_answer_that_does_not_fit(void **state) {
	(void)state;
	static const char *const grants[] = { SHORT_DONE, "$30\r\nWhost:1:ab.12 1700000000000001\r\n",
		"$30\r\nRhost:1:ab.11 1700000000000001\r\n", "$29\r\nWhost:1:ab.1 1700000000000001\r\n",
		"$31\r\nWhost:1:ab.11x 1700000000000001\r\n", "$29\r\nWhost:1:ab.111700000000000001\r\n",
		"$14\r\nWhost:1:ab.11 \r\n", "$15\r\nWhost:1:ab.11 0\r\n", "$16\r\nWhost:1:ab.11 -1\r\n",
		"$30\r\nWhost:1:ab.11 17000000000000a1\r\n", "$30\r\nWhost:1:ab.11 9999999999999999\r\n",
		"$16\r\n1700000000000001\r\n", "+Whost:1:ab.11 1700000000000001\r\n" };
	static const char *const dones[] = { SHORT_GRANT, "$13\r\nWhost:1:ab.12\r\n",
		"$13\r\nRhost:1:ab.11\r\n", "$12\r\nWhost:1:ab.1\r\n", "$14\r\nWhost:1:ab.11x\r\n",
		"$14\r\nWhost:1:ab.11\0\r\n", "$0\r\n\r\n", "$4\r\ndone\r\n" };
	for (size_t i = 0; i < sizeof(grants) / sizeof(grants[0]); i++) {
		struct lock_outcome got = decoded(OP_ACQUIRE, grants[i], strlen(grants[i]), NULL);
		if (got.status != LOCK_UNKNOWN || got.token != 0 || got.deadline_ms != 0)
			fail_msg("believed the grant %s", grants[i]);
	}
	for (size_t i = 0; i < sizeof(dones) / sizeof(dones[0]); i++) {
		if (decoded(OP_RELEASE, dones[i], strlen(dones[i]), NULL).status != LOCK_UNKNOWN)
			fail_msg("believed the release %s", dones[i]);
	}
	for (int kind = 0; kind < OP_KINDS; kind++) {
		if (kind != OP_ACQUIRE)
			assert_int_equal(
			        decoded((enum lock_op_kind)kind, SHORT_GRANT, strlen(SHORT_GRANT), NULL)
			                .status,
			        LOCK_UNKNOWN);
		if (kind != OP_RELEASE)
			assert_int_equal(
			        decoded((enum lock_op_kind)kind, SHORT_DONE, strlen(SHORT_DONE), NULL).status,
			        LOCK_UNKNOWN);
	}
}

static void test_reads_who_stands_in_the_way(void **state) {
	(void)state;
	static const char reply[] = WAITING ":12\r\n$6\r\nRother\r\n";
	static const char nobody[] = WAITING ":0\r\n$0\r\n\r\n";
	struct lock_outcome got = decoded(OP_BEAT, reply, sizeof(reply) - 1, NULL);
	assert_int_equal(got.status, LOCK_WAITING);
	assert_int_equal(got.ahead, 12);
	assert_int_equal(got.deadline_ms, 0);
	assert_int_equal(got.holder_deadline_ms, 1700000030000);
	assert_string_equal(got.holder, "other");
	assert_int_equal(got.holder_mode, 'R');
	got = decoded(OP_ACQUIRE, nobody, sizeof(nobody) - 1, NULL);
	assert_int_equal(got.status, LOCK_WAITING);
	assert_string_equal(got.holder, "");
	assert_int_equal(got.holder_mode, 0);
}

static void test_believes_nothing_that_does_not_fit(void **state) {
	(void)state;
	static const char *const bad[] = {
		"$-1\r\n",
		"*-1\r\n",
		"*0\r\n",
		":1\r\n",
		"+OK\r\n",
		"$7\r\ngranted\r\n",
		/* an echo of another attempt, of a part of it, of another type */
		"*6\r\n$7\r\ngranted\r\n:1700000000000001\r\n$12\r\nhost:1:ab.12\r\n" TOKEN TAIL,
		"*6\r\n$7\r\ngranted\r\n:1700000000000001\r\n$11\r\nhost:1:ab.1\r\n" TOKEN TAIL,
		"*6\r\n$7\r\ngranted\r\n:1700000000000001\r\n$13\r\nhost:1:ab.11x\r\n" TOKEN TAIL,
		"*6\r\n$7\r\ngranted\r\n:1700000000000001\r\n:11\r\n" TOKEN TAIL,
		"*6\r\n$7\r\ngranted\r\n:1700000000000001\r\n$-1\r\n" TOKEN TAIL,
		/* words that are none, or not this operation's */
		"*6\r\n$7\r\nGRANTED\r\n:1700000000000001\r\n$12\r\nhost:1:ab.11\r\n" TOKEN TAIL,
		"*6\r\n$4\r\ndone\r\n:1700000000000001\r\n$12\r\nhost:1:ab.11\r\n" TOKEN TAIL,
		"*6\r\n:1\r\n:1700000000000001\r\n$12\r\nhost:1:ab.11\r\n" TOKEN TAIL,
		"*6\r\n*1\r\n:1\r\n:1700000000000001\r\n$12\r\nhost:1:ab.11\r\n" TOKEN TAIL,
		/* time */
		"*6\r\n$7\r\ngranted\r\n:-1\r\n$12\r\nhost:1:ab.11\r\n" TOKEN TAIL,
		"*6\r\n$7\r\ngranted\r\n:9007199254740993\r\n$12\r\nhost:1:ab.11\r\n" TOKEN TAIL,
		"*6\r\n$7\r\ngranted\r\n$1\r\n1\r\n$12\r\nhost:1:ab.11\r\n" TOKEN TAIL,
		/* token: none, no number, too large, not a string */
		GRANTED "$1\r\n0\r\n" TAIL,
		GRANTED "$0\r\n\r\n" TAIL,
		GRANTED "$2\r\n-1\r\n" TAIL,
		GRANTED "$22\r\n1.7000000000000001e+15\r\n" TAIL,
		GRANTED "$16\r\n9999999999999999\r\n" TAIL,
		GRANTED "$20\r\n99999999999999999999\r\n" TAIL,
		GRANTED ":1700000000000001\r\n" TAIL,
		GRANTED "$-1\r\n" TAIL,
		/* deadline and flags */
		GRANTED TOKEN ":0\r\n:0\r\n",
		GRANTED TOKEN ":-5\r\n:0\r\n",
		GRANTED TOKEN "$1\r\n5\r\n:0\r\n",
		GRANTED TOKEN ":5\r\n:8\r\n",
		GRANTED TOKEN ":5\r\n:-1\r\n",
		GRANTED TOKEN ":5\r\n$1\r\n0\r\n",
		/* a waiter's reply that is too short, or says nonsense */
		"*6\r\n$7\r\nwaiting\r\n:1700000000000001\r\n$12\r\nhost:1:ab.11\r\n" TOKEN TAIL,
		WAITING ":-1\r\n$6\r\nRother\r\n",
		WAITING ":4294967296\r\n$6\r\nRother\r\n",
		WAITING "$1\r\n1\r\n$6\r\nRother\r\n",
		WAITING ":1\r\n$6\r\nXother\r\n",
		WAITING ":1\r\n:1\r\n",
		WAITING ":1\r\n$4\r\nRo\no\r\n",
		WAITING ":1\r\n$50\r\nR0123456789012345678901234567890123456789012345678\r\n",
	};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct lock_outcome got = decoded(OP_ACQUIRE, bad[i], strlen(bad[i]), NULL);
		if (got.status != LOCK_UNKNOWN || got.token != 0 || got.deadline_ms != 0 || got.holder[0])
			fail_msg("believed reply %zu: %s", i, bad[i]);
	}
	struct lock_op op = full_op(OP_ACQUIRE);
	struct lock_outcome got;
	snecki_native.decode(&session, &op, NULL, &got, NULL);
	assert_int_equal(got.status, LOCK_UNKNOWN);
}

static void test_longer_replies_do_not_fit_either(void **state) {
	(void)state;
	char reply[] = GRANTED TOKEN TAIL ":0\r\n";
	reply[1] = '7';
	assert_int_equal(decoded(OP_ACQUIRE, reply, sizeof(reply) - 1, NULL).status, LOCK_UNKNOWN);
}

static void test_words_belong_to_operations(void **state) {
	(void)state;
	static const char *const words[] = { "granted", "waiting", "busy", "deadlock", "gone", "broken",
		"buried", "done" };
	/* In the order of the words: can this operation say it? */
	static const char *const may[OP_KINDS] = {
		[OP_ACQUIRE] = "yyy.yyy.",
		[OP_BEAT] = "yy..yy..",
		[OP_RELEASE] = "....yy.y",
		[OP_RENEW] = "y...yy..",
		[OP_UPGRADE] = "yyyyyyy.",
		[OP_DOWNGRADE] = "y...yyy.",
		[OP_CANCEL] = "....y..y",
		[OP_ADVANCE] = ".......y",
		[OP_RENAME] = "y.y.yyy.",
		[OP_LINGER] = "y...yy..",
	};
	for (int kind = 0; kind < OP_KINDS; kind++) {
		for (size_t w = 0; w < 8; w++) {
			char reply[256];
			bool blocked = w >= 1 && w <= 3, reason = w == 5;
			int len = snprintf(reply, sizeof(reply),
			        "*%d\r\n$%zu\r\n%s\r\n:1700000000000001\r\n$12\r\nhost:1:ab.11\r\n" TOKEN TAIL
			        "%s",
			        6 + 2 * (blocked || reason), strlen(words[w]), words[w],
			        blocked  ? ":0\r\n$0\r\n\r\n"
			        : reason ? "$3\r\nann\r\n:900\r\n"
			                 : "");
			struct lock_outcome got = decoded((enum lock_op_kind)kind, reply, (size_t)len, NULL);
			enum lock_status wanted = may[kind][w] == 'y' ? (enum lock_status)w : LOCK_UNKNOWN;
			if (got.status != wanted)
				fail_msg("operation %d, %s: %d", kind, words[w], got.status);
			assert_int_equal(got.kept_ms, got.status == LOCK_BROKEN ? 900 : 0);
		}
	}
}

static void test_error_replies(void **state) {
	(void)state;
	static const struct {
		const char *text;
		enum lock_status status;
		int code;
		bool retry;
	} rows[] = {
		{ "-SNECKTYPE not a lock\r\n", LOCK_FAILED, SNECK_ETYPE, false },
		{ "-WRONGTYPE Operation against a key\r\n", LOCK_FAILED, SNECK_ETYPE, false },
		{ "-OOM command not allowed\r\n", LOCK_FAILED, SNECK_ESERVER, false },
		{ "-LOADING Redis is loading\r\n", LOCK_FAILED, SNECK_ESERVER, true },
		{ "-READONLY You can't write\r\n", LOCK_FAILED, SNECK_ESERVER, true },
		{ "-NOPERM this user\r\n", LOCK_FAILED, SNECK_EACCES, false },
		{ "-ERR The user executing the script can't run this command\r\n", LOCK_UNKNOWN, SNECK_EACCES,
		        false },
		{ "-ERR who knows\r\n", LOCK_UNKNOWN, SNECK_ESERVER, false },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		sneck_error error = { 0 };
		struct lock_outcome got = decoded(OP_ACQUIRE, rows[i].text, strlen(rows[i].text), &error);
		assert_int_equal(got.status, rows[i].status);
		assert_int_equal(got.code, rows[i].code);
		assert_int_equal(got.retry, rows[i].retry);
		assert_int_equal(error.code, rows[i].code);
		assert_memory_equal(error.server, rows[i].text + 1, strlen(error.server));
	}
}

/* Bytes that are nearly a reply: the sanitizers watch. */
static void test_damaged_replies_are_survived(void **state) {
	(void)state;
	static const char whole[] = WAITING ":1\r\n$6\r\nRother\r\n";
	unsigned seed = 1;
	for (unsigned round = 0; round < 20000; round++) {
		char reply[sizeof(whole)];
		memcpy(reply, whole, sizeof(whole));
		for (unsigned damage = 0; damage < 1 + round % 3; damage++) {
			seed = seed * 1103515245u + 12345u;
			size_t at = (seed >> 8) % (sizeof(whole) - 1);
			if (reply[at] != '$' && reply[at] != '*')
				reply[at] = (char)(seed >> 16);
		}
		(void)decoded(OP_ACQUIRE, reply, sizeof(reply) - 1, NULL);
	}
}

/* ---- Messages -------------------------------------------------------------------------------*/

static void test_messages(void **state) {
	(void)state;
	static const char *const bad[] = { "", "g", "g ", "g 1", "g 1 2", "g 1 2 3", "g 1 2 3 4 5",
		"g 1 2 3 4 2", "g 1 2 3 4 0 0", "g 1 2 3 4 ", "g  1 2 3 4", "g 1 x 3 4", "g A 2 3 4",
		"g 1 2 -3 4", "g 1 2 9223372036854775808 4", "w", "w ", "w 1 2", "w -", "b A", "b 1", "b 1 ",
		"b 1 -1", "b 1 x", "b 1 2 3", "b 1 9223372036854775808", "b ~ 1", "x 1", "W 1", "g1 2 3 4" };
	struct lock_note note = { .attempt = 77 };
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (snecki_native.read_note(&session, bad[i], strlen(bad[i]), &note))
			fail_msg("understood \"%s\"", bad[i]);
	}
	assert_int_equal(note.attempt, 77);
	assert_true(snecki_native.read_note(
	        &session, "g 1z 1700000000000001 1700000003000 1700000000000002", 52, &note));
	assert_int_equal(note.kind, LOCK_NOTE_GRANT);
	assert_int_equal(note.attempt, 71);
	assert_int_equal(note.token, 1700000000000001);
	assert_int_equal(note.deadline_ms, 1700000003000);
	assert_int_equal(note.server_us, 1700000000000002);
	assert_false(note.tells_wanted);
	assert_true(snecki_native.read_note(&session, "g 1 2 3 4 1", 11, &note));
	assert_true(note.tells_wanted && note.wanted);
	assert_int_equal(note.server_us, 4);
	assert_true(snecki_native.read_note(&session, "g 1 2 3 4 0", 11, &note));
	assert_true(note.tells_wanted && !note.wanted);
	assert_true(snecki_native.read_note(&session, "w 10", 4, &note));
	assert_int_equal(note.kind, LOCK_NOTE_WANTED);
	assert_int_equal(note.attempt, 36);
	assert_int_equal(note.token, 0);
	assert_true(snecki_native.read_note(&session, "b 1y2p0ij32e8e7~ 700", 20, &note));
	assert_int_equal(note.kind, LOCK_NOTE_BROKEN);
	assert_true(note.attempt == UINT64_MAX);
	assert_int_equal(note.kept_ms, 700);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_counters_are_base_36),
		cmocka_unit_test(test_numbers_that_do_not_fit_are_none),
		cmocka_unit_test(test_ids),
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_requests),
		cmocka_unit_test(test_requests_of_an_upgrade),
		cmocka_unit_test(test_a_release_that_asks_for_nothing_else_is_short),
		cmocka_unit_test(test_a_refused_name_writes_nothing),
		cmocka_unit_test(test_reads_a_grant),
		cmocka_unit_test(test_reads_what_is_said_of_a_free_lock),
		cmocka_unit_test(test_believes_no_short_answer_that_does_not_fit),
		cmocka_unit_test(test_reads_who_stands_in_the_way),
		cmocka_unit_test(test_believes_nothing_that_does_not_fit),
		cmocka_unit_test(test_longer_replies_do_not_fit_either),
		cmocka_unit_test(test_words_belong_to_operations),
		cmocka_unit_test(test_error_replies),
		cmocka_unit_test(test_damaged_replies_are_survived),
		cmocka_unit_test(test_messages),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
