/* SPDX-License-Identifier: MIT */
/* Redisson's RFairLock, operation by operation: its queue and deadlines, who is woken, and what becomes of
 * those who give up or die. */
#include "layout_fixture.h"

#include <stdlib.h>
#include <string.h>

#define CHANNEL "redisson_lock__channel:{t}:"
#define QUEUE "redisson_lock_queue:{t}"
#define TIMEOUTS "redisson_lock_timeout:{t}"

enum { TURN_MS = 300000, SLOT_MS = 30000 };

static int up(void **state) {
	(void)state;
	layout_dialect = &snecki_redisson_fair;
	return layout_up(state);
}

/* How long from now `owner` is waited for. */
static void assert_waited_for(const char *owner, long long ms) {
	long long now_ms = layout_now_ms();
	long long left_ms = layout_do("ZSCORE " TIMEOUTS " %s", owner) - now_ms;

	if (left_ms > ms + 1000 || left_ms < ms - 5000)
		fail_msg("%s is waited for %lld ms, not %lld", owner, left_ms, ms);
}

static void a_free_lock_is_taken(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	assert_keys("t{A.1=1}");
	assert_ttl("t", LEASE_MS);
	layout_do("PEXPIRE t 1000");
	expect(LOCK_GRANTED, acquire(&A, 'W', 1)); /* once more */
	assert_ttl("t", LEASE_MS);
	expect(LOCK_BUSY, try_acquire(&B, 'W', 1));
	assert_keys("t{A.1=1}"); /* who does not wait is not in the queue */
}

static void in_order(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	struct lock_outcome outcome = expect(LOCK_WAITING, acquire(&B, 'W', 1));
	layout_assert_holder(&outcome, 'W', &A, 1);
	expect(LOCK_WAITING, acquire(&C, 'W', 1));
	expect(LOCK_WAITING, acquire(&B, 'W', 1)); /* once more */
	assert_keys(QUEUE "[B.1 C.1] " TIMEOUTS "<B.1 C.1> t{A.1=1}");
	assert_waited_for("B.1", SLOT_MS);
	assert_waited_for("C.1", TURN_MS + SLOT_MS);
	assert_heard("");
	expect(LOCK_DONE, release(&A, 'W', 1));
	assert_string_equal(layout_verdict, "1");
	assert_heard(CHANNEL "B.1 0\n"); /* the first alone */
	expect(LOCK_WAITING, beat(&C, 'W', 1));
	expect(LOCK_BUSY, try_acquire(&A, 'W', 2)); /* nobody overtakes */
	expect(LOCK_GRANTED, beat(&B, 'W', 1));
	assert_keys(QUEUE "[C.1] " TIMEOUTS "<C.1> t{B.1=1}");
	expect(LOCK_WAITING, beat(&C, 'W', 1));
	assert_waited_for("C.1", SLOT_MS);
	expect(LOCK_DONE, release(&B, 'W', 1));
	assert_heard(CHANNEL "C.1 0\n");
	expect(LOCK_GRANTED, beat(&C, 'W', 1));
	assert_keys("t{C.1=1}");
	expect(LOCK_DONE, release(&C, 'W', 1));
	assert_keys("");
	assert_heard("");
}

/* Who is served takes its own time off those behind; Redisson's do so with theirs. */
static void others_deadlines_follow(void **state) {
	(void)state;
	layout_do("RPUSH " QUEUE " A.1 J:1");
	long long now_ms = layout_now_ms();
	layout_do("ZADD " TIMEOUTS " %lld A.1 %lld J:1", now_ms + 100000, now_ms + 400000);
	expect(LOCK_GRANTED, beat(&A, 'W', 1));
	assert_keys(QUEUE "[J:1] " TIMEOUTS "<J:1> t{A.1=1}");
	assert_waited_for("J:1", 400000 - SLOT_MS);
}

static void the_dead_are_dropped(void **state) {
	(void)state;
	layout_do("RPUSH " QUEUE " J:1 J:2 J:3");
	layout_do("ZADD " TIMEOUTS " 1 J:1 99999999999999 J:3"); /* J:2 has none at all */
	expect(LOCK_WAITING, acquire(&A, 'W', 1));
	assert_keys(QUEUE "[J:3 A.1] " TIMEOUTS "<A.1 J:3>");
	layout_do("ZADD " TIMEOUTS " 1 J:3");
	expect(LOCK_GRANTED, beat(&A, 'W', 1));
	assert_keys("t{A.1=1}");
}

/* Whoever was taken for dead joins again. */
static void the_dropped_join_again(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_WAITING, acquire(&B, 'W', 1));
	layout_do("ZADD " TIMEOUTS " 1 B.1");
	expect(LOCK_WAITING, acquire(&C, 'W', 1));
	assert_keys(QUEUE "[C.1] " TIMEOUTS "<C.1> t{A.1=1}");
	expect(LOCK_WAITING, beat(&B, 'W', 1));
	assert_keys(QUEUE "[C.1 B.1] " TIMEOUTS "<C.1 B.1> t{A.1=1}");
}

static void giving_up_leaves_nothing(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_WAITING, acquire(&B, 'W', 1));
	expect(LOCK_WAITING, acquire(&C, 'W', 1));
	assert_false(expect(LOCK_DONE, cancel(&B, 'W', 1)).released_grant);
	assert_keys(QUEUE "[C.1] " TIMEOUTS "<C.1> t{A.1=1}");
	assert_waited_for("C.1", TURN_MS);
	assert_heard(""); /* the lock is held */
	assert_true(expect(LOCK_DONE, cancel(&A, 'W', 1)).released_grant);
	assert_heard(CHANNEL "C.1 0\n");
	/* Who gives up when it was its turn wakes the next. */
	expect(LOCK_WAITING, acquire(&B, 'W', 2));
	expect(LOCK_DONE, cancel(&C, 'W', 1));
	assert_heard(CHANNEL "B.2 0\n");
	expect(LOCK_DONE, cancel(&B, 'W', 2));
	assert_keys("");
}

static void the_buried_stay_dead(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_WAITING, acquire(&B, 'W', 1));
	expect(LOCK_DONE, withdraw(&B, 'W', 1));
	expect(LOCK_BURIED, acquire(&B, 'W', 1));
	expect(LOCK_BURIED, beat(&B, 'W', 1));
	assert_keys("t{A.1=1} {t}:sneck_buried:B.1=1");
	expect(LOCK_DONE, withdraw(&A, 'W', 1));
	assert_keys("{t}:sneck_buried:A.1=1 {t}:sneck_buried:B.1=1");
}

static void in_a_cluster_channels_lie_in_slots(void **state) {
	(void)state;
	struct dialect_session session = A;
	session.sharded = true;
	long before = layout_calls("spublish");
	expect(LOCK_GRANTED, acquire(&session, 'W', 1));
	expect(LOCK_WAITING, acquire(&B, 'W', 1));
	expect(LOCK_DONE, release(&session, 'W', 1));
	assert_heard(""); /* by plain channels */
	assert_int_equal(layout_calls("spublish") - before, 1);
}

static void a_renewal_is_the_mutexs(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_WAITING, acquire(&B, 'W', 1));
	layout_do("PEXPIRE t 1000");
	expect(LOCK_GRANTED, renew(&A, 'W', 1, 0, 2));
	assert_keys(QUEUE "[B.1] " TIMEOUTS "<B.1> t{A.1=2}");
	assert_ttl("t", LEASE_MS);
	layout_do("DEL t");
	expect(LOCK_GONE, renew(&A, 'W', 1, 0, 2));
	expect(LOCK_GONE, release(&A, 'W', 1)); /* Redisson calls it released; both wake the first */
	assert_heard(CHANNEL "B.1 0\n");
}

static void assert_refused(const char *keys) {
	assert_int_equal(expect(LOCK_FAILED, acquire(&A, 'W', 1)).code, SNECK_ETYPE);
	assert_keys(keys);
	layout_do("FLUSHALL");
}

static void other_layouts_are_refused(void **state) {
	(void)state;
	layout_do("SET t x");
	assert_refused("t=x");
	layout_do("HSET t mode read J:1 1");
	assert_refused("t{J:1=1 mode=read}");
	layout_do("SET " QUEUE " x");
	assert_refused(QUEUE "=x");
	layout_do("SET " TIMEOUTS " x");
	assert_refused(TIMEOUTS "=x");
}

int main(void) {
	const struct CMUnitTest tests[] = {
		LAYOUT_HEARING_TEST(a_free_lock_is_taken),
		LAYOUT_HEARING_TEST(in_order),
		LAYOUT_HEARING_TEST(others_deadlines_follow),
		LAYOUT_HEARING_TEST(the_dead_are_dropped),
		LAYOUT_HEARING_TEST(the_dropped_join_again),
		LAYOUT_HEARING_TEST(giving_up_leaves_nothing),
		LAYOUT_HEARING_TEST(the_buried_stay_dead),
		LAYOUT_HEARING_TEST(in_a_cluster_channels_lie_in_slots),
		LAYOUT_HEARING_TEST(a_renewal_is_the_mutexs),
		LAYOUT_HEARING_TEST(other_layouts_are_refused),
	};
	return cmocka_run_group_tests(tests, up, layout_down);
}
