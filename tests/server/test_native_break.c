/* SPDX-License-Identifier: MIT */
/* The native dialect's break, one operation at a time: what becomes of the hold, the token, the queue and
 * the victim's next request. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <sneck/sneck.h>

#include "native_fixture.h"

enum { GRACE_MS = 5000 };

/* The result of decode_break. The breaker is session D. */
static int break_it(const char *id, int64_t grace_ms) {
	struct buf request = BUF_INIT;
	redisReply *reply = NULL;
	bool more;
	assert_int_equal(
	        snecki_native.encode_break(&D, "t", 1, id, grace_ms, "bob: too slow", true, &request), 0);
	assert_int_equal(redisAppendFormattedCommand(native_redis, request.data, request.len), REDIS_OK);
	assert_int_equal(redisGetReply(native_redis, (void **)&reply), REDIS_OK);
	int r = snecki_native.decode_break(&D, reply, &more, &native_error);
	if (r < 0 && r != SNECK_ENOTHELD)
		fail_msg("break %s: %s", id, native_error.text);
	freeReplyObject(reply);
	snecki_buf_done(&request);
	return r;
}

#define expect_told(call)                                                \
	do {                                                             \
		native_error.text[0] = '\0';                             \
		expect(LOCK_BROKEN, call);                               \
		assert_string_equal(native_error.text, "bob: too slow"); \
		assert_int_equal(native_error.code, SNECK_EBROKEN);      \
	} while (0)

#define MESSAGE " mA.1 bob: too slow"

static void test_at_once(void **state) {
	(void)state;
	native_listen();
	struct lock_outcome held = expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_WAITING, acquire(&B, 'W', 1));
	native_heard();
	assert_int_equal(break_it("WA.1", 0), 0);
	assert_string_equal(native_heard(), "A b 1\nB g 1");
	assert_state("WB.1 bA.1" MESSAGE);
	/* The victim may have used every number up to its deadline. */
	struct lock_outcome next = expect(LOCK_GRANTED, beat(&B, 'W', 1));
	assert_true(next.token > (uint64_t)held.deadline_ms * 1000);
	expect_told(renew(&A, 'W', 1));
	expect_told(beat(&A, 'W', 1));
	expect_told(acquire(&A, 'W', 1)); /* a late copy does not bring it back */
	expect_told(downgrade(&A, 2, 1));
	expect_told(rename_hold(&A, "WA.1", 3));
	assert_state("WB.1 bA.1" MESSAGE);
	expect_told(release(&A, 'W', 1));
	assert_state("WB.1"); /* it has been seen */
	expect(LOCK_GONE, release(&A, 'W', 1));
}

static void test_grace_ends_with_the_release(void **state) {
	(void)state;
	struct lock_outcome held = expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_WAITING, acquire(&B, 'W', 1));
	int64_t before_ms = native_now_ms();
	assert_int_equal(break_it("WA.1", GRACE_MS), 0);
	assert_state("wB.1 WA.1! bA.1 lB.1" MESSAGE);
	int64_t kept = native_score("WA.1!");
	assert_true(kept >= before_ms + GRACE_MS && kept <= native_now_ms() + GRACE_MS);
	assert_true(kept < held.deadline_ms);
	struct lock_outcome told = expect(LOCK_BROKEN, renew(&A, 'W', 1)); /* that prolongs nothing */
	assert_int_equal(told.server_us / 1000 + told.kept_ms, kept);
	expect_told(beat(&A, 'W', 1));
	expect_told(acquire(&A, 'W', 1));
	assert_int_equal(native_score("WA.1!"), kept);
	expect(LOCK_WAITING, beat(&B, 'W', 1));
	expect_told(release(&A, 'W', 1));
	assert_state("WB.1");
	assert_true(native_score("#1") > held.deadline_ms * 1000);
}

static void test_grace_ends_by_itself(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_WAITING, acquire(&B, 'W', 1));
	assert_int_equal(break_it("WA.1", GRACE_MS), 0);
	native_end_lease("WA.1!");
	expect(LOCK_GRANTED, beat(&B, 'W', 1));
	assert_state("WB.1 bA.1" MESSAGE);
	expect_told(release(&A, 'W', 1));
	assert_state("WB.1");
}

/* Grace never lengthens a lease, and a second break may cut it. */
static void test_grace_can_be_cut(void **state) {
	(void)state;
	struct lock_outcome held = expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	assert_int_equal(break_it("WA.1", SNECK_LEASE_MAX_MS), 0);
	assert_int_equal(native_score("WA.1!"), held.deadline_ms);
	int64_t token = native_score("#1");
	assert_int_equal(token, held.deadline_ms * 1000);
	assert_int_equal(break_it("WA.1", 1000), 0);
	assert_true(native_score("WA.1!") <= native_now_ms() + 1000);
	assert_in_range(expect(LOCK_BROKEN, renew(&A, 'W', 1)).kept_ms, 1, 1000);
	assert_int_equal(break_it("WA.1", 0), 0);
	assert_int_equal(expect(LOCK_BROKEN, renew(&A, 'W', 1)).kept_ms, 0);
	assert_state("bA.1" MESSAGE);
	assert_int_equal(native_score("#1"), token);
	assert_int_equal(break_it("WA.1", 0), SNECK_ENOTHELD);
}

/* Readers take no numbers of their own: the others read on under theirs. */
static void test_one_reader_of_several(void **state) {
	(void)state;
	struct lock_outcome a = expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	expect(LOCK_GRANTED, acquire(&B, 'R', 1));
	expect(LOCK_WAITING, acquire(&C, 'W', 1));
	assert_int_equal(break_it("RA.1", 0), 0);
	assert_state("wC.1 RB.1 bA.1 lC.1" MESSAGE);
	assert_int_equal(expect(LOCK_GRANTED, renew(&B, 'R', 1)).token, a.token);
	expect_told(renew(&A, 'R', 1));
	assert_int_equal(break_it("RB.1", GRACE_MS), 0);
	expect(LOCK_WAITING, beat(&C, 'W', 1));
	expect(LOCK_BROKEN, release(&B, 'R', 1));
	assert_true(expect(LOCK_GRANTED, beat(&C, 'W', 1)).token > a.token);
}

/* In its grace a writer still keeps readers out, and a reader writers. */
static void test_grace_excludes(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	assert_int_equal(break_it("WA.1", GRACE_MS), 0);
	struct lock_outcome busy = expect(LOCK_BUSY, try_acquire(&B, 'R', 1));
	assert_string_equal(busy.holder, "A");
	expect(LOCK_BUSY, try_acquire(&A, 'W', 2)); /* not even its own session */
	expect_told(release(&A, 'W', 1));
	expect(LOCK_GRANTED, acquire(&B, 'R', 1));
	assert_int_equal(break_it("RB.1", GRACE_MS), 0);
	expect(LOCK_BUSY, try_acquire(&C, 'W', 1));
	expect(LOCK_GRANTED, acquire(&C, 'R', 2)); /* it reads, and so may others */
}

static void test_a_waiter(void **state) {
	(void)state;
	native_listen();
	struct lock_outcome held = expect(LOCK_GRANTED, acquire(&C, 'W', 1));
	expect(LOCK_WAITING, acquire(&A, 'W', 1));
	expect(LOCK_WAITING, acquire(&B, 'R', 1));
	native_heard();
	assert_int_equal(break_it("wA.1", GRACE_MS), 0); /* a wait has no grace */
	assert_string_equal(native_heard(), "A b 1");
	assert_state("rB.1 WC.1 bA.1 lB.1" MESSAGE);
	assert_int_equal(native_score("#1"), held.token);
	expect_told(beat(&A, 'W', 1));
	expect_told(acquire(&A, 'W', 1));
	assert_int_equal(break_it("wA.1", 0), SNECK_ENOTHELD);
	assert_int_equal(break_it("rB.1", 0), 0);
	expect(LOCK_BROKEN, beat(&B, 'R', 1));
	expect(LOCK_DONE, cancel(&B, 'R', 1));
}

/* The head of the queue goes: the next one may come at once. */
static void test_a_waiter_in_the_way(void **state) {
	(void)state;
	native_listen();
	expect(LOCK_GRANTED, acquire(&C, 'R', 1));
	expect(LOCK_WAITING, acquire(&A, 'W', 1));
	expect(LOCK_WAITING, acquire(&B, 'R', 1));
	native_heard();
	assert_int_equal(break_it("wA.1", 0), 0);
	assert_string_equal(native_heard(), "A b 1\nB g 1");
	assert_state("RB.1 RC.1 bA.1" MESSAGE);
}

static void test_an_upgrade(void **state) {
	(void)state;
	struct lock_outcome read = expect(LOCK_GRANTED, acquire(&A, 'R', 9));
	expect(LOCK_GRANTED, acquire(&B, 'R', 1));
	expect(LOCK_WAITING, upgrade(&A, 1, 9));
	assert_int_equal(break_it("uA.9", 0), SNECK_ENOTHELD); /* that is what it holds */
	assert_int_equal(break_it("uA.1", 0), 0);
	assert_state("RA.9 RB.1 bA.1" MESSAGE);
	struct lock_outcome told = expect(LOCK_BROKEN, upgrade_beat(&A, 1, 9));
	assert_int_equal(told.deadline_ms, read.deadline_ms); /* READ is still held */
	told = expect(LOCK_BROKEN, upgrade(&A, 1, 9));
	assert_int_equal(told.deadline_ms, read.deadline_ms);
	assert_int_equal(expect(LOCK_GRANTED, renew(&A, 'R', 9)).token, read.token);
	expect(LOCK_WAITING, upgrade(&A, 2, 9)); /* it may try again */
}

/* The read hold of one that waits to write: both are over. */
static void test_an_upgraders_read_hold(void **state) {
	(void)state;
	for (int grace = 0; grace <= GRACE_MS; grace += GRACE_MS) {
		native_do("DEL " KEY);
		expect(LOCK_GRANTED, acquire(&A, 'R', 1));
		expect(LOCK_GRANTED, acquire(&B, 'R', 1));
		expect(LOCK_WAITING, upgrade(&A, 2, 1));
		assert_int_equal(break_it("RA.1", grace), 0);
		assert_state(grace ? "RA.1! RB.1 bA.1" MESSAGE : "RB.1 bA.1" MESSAGE);
		struct lock_outcome told = expect(LOCK_BROKEN, upgrade_beat(&A, 2, 1));
		assert_int_equal(told.deadline_ms, 0);
		expect_told(upgrade(&A, 2, 1));
		expect_told(release(&A, 'R', 1));
		assert_state("RB.1");
	}
}

/* A name that is not there, was there, or means somebody else changes nothing. */
static void test_what_is_not_there(void **state) {
	(void)state;
	assert_int_equal(break_it("WA.1", 0), SNECK_ENOTHELD);
	assert_state("-");
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	static const char *const strange[] = { "RA.1", "WA.2", "wA.1", "rA.1", "uA.1", "WB.1", "WA.11",
		"W.1" };
	for (size_t i = 0; i < sizeof strange / sizeof strange[0]; i++)
		assert_int_equal(break_it(strange[i], 0), SNECK_ENOTHELD);
	assert_state("WA.1");
	native_end_lease("WA.1");
	assert_int_equal(break_it("WA.1", 0), SNECK_ENOTHELD);
	assert_state("");
}

/* A detached hold: whoever wants to adopt it is told. */
static void test_what_was_detached(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	assert_int_equal(break_it("WA.1", 0), 0);
	expect_told(rename_hold(&B, "WA.1", 7));
}

/* Readers that a writer of their own session let in: after it a phase of their own begins. */
static void test_a_writer_beside_its_readers(void **state) {
	(void)state;
	struct lock_outcome held = expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	struct lock_op beside = native_op(OP_ACQUIRE, 'R', 2);
	beside.own_n = 1;
	beside.own[0] = 1;
	expect(LOCK_GRANTED, native_run(&A, &beside));
	assert_int_equal(break_it("WA.1", 0), 0);
	assert_state("RA.2 bA.1" MESSAGE);
	struct lock_outcome b = expect(LOCK_GRANTED, acquire(&B, 'R', 1));
	assert_true(b.token > (uint64_t)held.deadline_ms * 1000);
}

/* The notice lasts as long as the victim may believe, and at least the time that requests may be late. */
static void test_the_notice_ends(void **state) {
	(void)state;
	struct lock_op lasting = native_op(OP_ACQUIRE, 'W', 1);
	lasting.lease_ms = 10 * BURY_MS;
	struct lock_outcome held = expect(LOCK_GRANTED, native_run(&A, &lasting));
	assert_int_equal(break_it("WA.1", 0), 0);
	assert_int_equal(native_score("bA.1"), INT64_C(300000000000000) + held.deadline_ms);
	assert_int_equal(native_score("mA.1 bob: too slow"), INT64_C(400000000000000) + held.deadline_ms);
	assert_true(native_pexpiretime() >= held.deadline_ms + KEEP_MS);
	native_do("DEL " KEY);
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	int64_t before_ms = native_now_ms();
	assert_int_equal(break_it("WA.1", 0), 0);
	assert_true(native_score("bA.1") >= INT64_C(300000000000000) + before_ms + BURY_MS);
	/* Once it is over it goes. */
	native_do("ZADD " KEY " 300000000000001 bA.1");
	native_do("ZADD " KEY " 400000000000001 %s", "mA.1 bob: too slow");
	expect(LOCK_GRANTED, acquire(&B, 'W', 1));
	assert_state("WB.1");
}

/* With no memory left the lock can still be taken away: the first write only removes. */
static void test_full_memory(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	native_do("CONFIG SET maxmemory 1");
	assert_int_equal(break_it("WA.1", GRACE_MS), 0);
	native_do("CONFIG SET maxmemory 0");
	assert_state("WA.1! bA.1" MESSAGE);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		NATIVE_TEST(test_at_once),
		NATIVE_TEST(test_grace_ends_with_the_release),
		NATIVE_TEST(test_grace_ends_by_itself),
		NATIVE_TEST(test_grace_can_be_cut),
		NATIVE_TEST(test_one_reader_of_several),
		NATIVE_TEST(test_grace_excludes),
		NATIVE_TEST(test_a_waiter),
		NATIVE_TEST(test_a_waiter_in_the_way),
		NATIVE_TEST(test_an_upgrade),
		NATIVE_TEST(test_an_upgraders_read_hold),
		NATIVE_TEST(test_what_is_not_there),
		NATIVE_TEST(test_what_was_detached),
		NATIVE_TEST(test_a_writer_beside_its_readers),
		NATIVE_TEST(test_the_notice_ends),
		NATIVE_TEST(test_full_memory),
	};
	return cmocka_run_group_tests(tests, native_up, native_down);
}
