/* SPDX-License-Identifier: MIT */
/* The native scripts among many: no call does more than a bounded number of things, and what it leaves is
 * done by the next. */
#include "native_fixture.h"

#include <stdio.h>
#include <string.h>

static struct dialect_session session_number(unsigned i, char id[16]) {
	struct dialect_session session = A;
	snprintf(id, 16, "s%u", i);
	session.id = id;
	return session;
}

static void crowd(char mode, unsigned n, enum lock_status status) {
	for (unsigned i = 0; i < n; i++) {
		char id[16];
		struct dialect_session session = session_number(i, id);
		struct lock_op op = native_op(OP_ACQUIRE, mode, 1);
		expect(status, native_run_name(&session, &op, "t", 1));
	}
}

/* Give all members of a kind a deadline of long ago. */
static void end_leases(char kind) {
	redisReply *members = redisCommand(native_redis, "ZRANGE " KEY " 0 -1");
	for (size_t i = 0; i < members->elements; i++) {
		if (members->element[i]->str[0] == kind)
			native_end_lease(members->element[i]->str);
	}
	freeReplyObject(members);
}

static long count_kind(char kind) {
	long n = 0;
	redisReply *members = redisCommand(native_redis, "ZRANGE " KEY " 0 -1");
	for (size_t i = 0; i < members->elements; i++)
		n += members->element[i]->str[0] == kind;
	freeReplyObject(members);
	return n;
}

static void test_many_dead_readers_take_several_calls(void **state) {
	(void)state;
	crowd('R', 130, LOCK_GRANTED);
	end_leases('R');
	struct lock_outcome waiting = expect(LOCK_WAITING, acquire(&A, 'W', 1));
	assert_true(waiting.more); /* nobody is let in while dead ones are left */
	assert_int_equal(count_kind('R'), 66);
	waiting = expect(LOCK_WAITING, beat(&A, 'W', 1));
	assert_true(waiting.more);
	assert_int_equal(count_kind('R'), 2);
	expect(LOCK_GRANTED, beat(&A, 'W', 1));
	assert_state("WA.1");
}

static void test_a_dead_crowd_is_busy_at_most_for_a_while(void **state) {
	(void)state;
	crowd('R', 65, LOCK_GRANTED);
	end_leases('R');
	assert_true(expect(LOCK_BUSY, try_acquire(&A, 'W', 1)).more);
	assert_false(expect(LOCK_DONE, advance(&A)).more);
	expect(LOCK_GRANTED, try_acquire(&A, 'W', 1));
}

/* An operation that finds its own hold dead removes it, also where many are dead. */
static void test_ones_own_death_is_not_left_to_others(void **state) {
	(void)state;
	static const struct dialect_session last = {
		.name_space = "sneck", .id = "z", .keep_ms = KEEP_MS, .bury_ms = BURY_MS
	};
	static const enum lock_op_kind kinds[] = { OP_ACQUIRE, OP_BEAT, OP_RENEW, OP_UPGRADE, OP_RENAME };
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct lock_op op = native_op(kinds[i], 'R', 1);
		native_do("DEL " KEY);
		crowd('R', 70, LOCK_GRANTED);
		expect(LOCK_GRANTED, acquire(&last, 'R', 1));
		end_leases('R');
		if (kinds[i] == OP_UPGRADE || kinds[i] == OP_RENAME)
			op.attempt = 2;
		op.old = kinds[i] == OP_UPGRADE ? 1 : 0;
		snprintf(op.foreign_id, sizeof(op.foreign_id), "Rz.1");
		assert_true(expect(LOCK_GONE, native_run(&last, &op)).more);
		expect(LOCK_GONE, release(&last, 'R', 1));
	}
}

static void test_a_thousand_dead_waiters(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	crowd('W', 500, LOCK_WAITING);
	crowd('R', 500, LOCK_WAITING); /* the same attempts in the other mode are other entries */
	end_leases('l');
	expect(LOCK_WAITING, acquire(&B, 'W', 1)); /* the holder lives: the dead are being passed over */
	struct lock_outcome done = expect(LOCK_DONE, release(&A, 'W', 1));
	unsigned calls = 1;
	while (done.more) {
		done = expect(LOCK_DONE, advance(&A));
		assert_true(++calls <= 1000 / 64 + 2);
	}
	assert_state("WB.1");
}

static void test_many_readers_come_in_together(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	crowd('R', 150, LOCK_WAITING);
	struct lock_outcome done = expect(LOCK_DONE, release(&A, 'W', 1));
	assert_true(done.more);
	assert_int_equal(count_kind('R'), 64);
	struct lock_outcome rest = expect(LOCK_DONE, advance(&B));
	assert_true(rest.more);
	assert_int_equal(rest.token, done.token); /* one phase */
	/* A claim does the same, so a caller that died stops nobody. */
	char id[16];
	struct dialect_session session = session_number(0, id);
	rest = expect(LOCK_GRANTED, beat(&session, 'R', 1));
	assert_false(rest.more);
	assert_int_equal(rest.token, done.token);
	assert_int_equal(count_kind('R'), 150);
	assert_int_equal(count_kind('l'), 0);
}

static void test_hints_go_to_a_bounded_number(void **state) {
	(void)state;
	crowd('R', 40, LOCK_GRANTED);
	native_listen();
	expect(LOCK_WAITING, acquire(&A, 'W', 1));
	unsigned hints = 0;
	for (const char *heard = native_heard(); heard; heard = strchr(heard + 1, '\n'))
		hints++;
	assert_int_equal(hints, 32);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		NATIVE_TEST(test_many_dead_readers_take_several_calls),
		NATIVE_TEST(test_a_dead_crowd_is_busy_at_most_for_a_while),
		NATIVE_TEST(test_ones_own_death_is_not_left_to_others),
		NATIVE_TEST(test_a_thousand_dead_waiters),
		NATIVE_TEST(test_many_readers_come_in_together),
		NATIVE_TEST(test_hints_go_to_a_bounded_number),
	};
	return cmocka_run_group_tests(tests, native_up, native_down);
}
