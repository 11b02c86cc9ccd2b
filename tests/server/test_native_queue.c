/* SPDX-License-Identifier: MIT */
/* The native scripts, one operation at a time: acquire, beat, release, renew, cancel and advance in
 * every state that they can meet, each also a second time, because a request may arrive twice. */
#include "native_fixture.h"

#include <string.h>

/* ---- A free lock ----------------------------------------------------------------------------*/

static void test_takes_a_free_lock(void **state) {
	(void)state;
	int64_t before = native_now_ms();
	struct lock_outcome got = expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	int64_t after = native_now_ms();

	assert_state("WA.1");
	assert_in_range(got.server_us / 1000, before, after);
	assert_int_equal(got.token, got.server_us);
	assert_int_equal(got.deadline_ms, got.server_us / 1000 + LEASE_MS);
	assert_int_equal(native_score("WA.1"), got.deadline_ms);
	assert_int_equal(native_score("#1"), got.token);
	assert_int_equal(native_pexpiretime(), got.deadline_ms + KEEP_MS);
	assert_false(got.more || got.wanted || got.released_grant);
}

static void test_release_leaves_only_the_token(void **state) {
	(void)state;
	struct lock_outcome got = expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	struct lock_outcome done = expect(LOCK_DONE, release(&A, 'W', 1));
	assert_state("");
	assert_int_equal(native_score("#1"), got.token);
	assert_true(done.token == 0 && done.server_us == 0); /* not asked for when nobody is left */
	expect(LOCK_GONE, release(&A, 'W', 1));
	assert_state("");
}

static void test_operations_on_no_key_create_none(void **state) {
	(void)state;
	expect(LOCK_GONE, beat(&A, 'W', 1));
	expect(LOCK_GONE, renew(&A, 'W', 1));
	expect(LOCK_GONE, release(&A, 'R', 1));
	expect(LOCK_GONE, upgrade(&A, 2, 1));
	expect(LOCK_GONE, downgrade(&A, 2, 1));
	expect(LOCK_GONE, rename_hold(&A, "WB.1", 1));
	expect(LOCK_DONE, cancel(&A, 'W', 1));
	expect(LOCK_DONE, advance(&A));
	assert_state("-");
}

static void test_a_lock_is_taken_again_with_a_larger_token(void **state) {
	(void)state;
	uint64_t last = 0;
	for (uint64_t i = 1; i < 200; i++) {
		struct lock_outcome got = expect(LOCK_GRANTED, acquire(&A, i % 2 ? 'W' : 'R', i));
		assert_true(got.token > last);
		last = got.token;
		expect(LOCK_DONE, release(&A, i % 2 ? 'W' : 'R', i));
	}
}

/* ---- The same request twice -----------------------------------------------------------------*/

static void test_acquire_twice_is_one_hold(void **state) {
	(void)state;
	struct lock_outcome first = expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	struct lock_outcome second = expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	assert_int_equal(second.token, first.token);
	assert_true(second.deadline_ms >= first.deadline_ms);
	assert_state("WA.1");
	expect(LOCK_DONE, release(&A, 'W', 1));
	assert_state("");
}

static void test_acquire_again_never_shortens(void **state) {
	(void)state;
	struct lock_outcome first = expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	struct lock_op op = native_op(OP_ACQUIRE, 'R', 1);
	op.lease_ms = 50;
	assert_int_equal(expect(LOCK_GRANTED, native_run(&A, &op)).deadline_ms, first.deadline_ms);
	assert_int_equal(native_score("RA.1"), first.deadline_ms);
}

static void test_join_twice_is_one_place(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_WAITING, acquire(&B, 'W', 1));
	expect(LOCK_WAITING, acquire(&C, 'W', 1));
	native_end_lease("lB.1");
	expect(LOCK_WAITING, acquire(&B, 'W', 1));
	assert_state("wB.1 wC.1 WA.1 lB.1 lC.1");
}

static void test_acquire_finds_its_entry_dead(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	native_end_lease("WA.1");
	expect(LOCK_GONE, acquire(&A, 'W', 1));
	assert_state("");
}

static void test_another_attempt_is_another_hold(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	struct lock_outcome busy = expect(LOCK_BUSY, try_acquire(&A, 'W', 2));
	assert_string_equal(busy.holder, "A");
	expect(LOCK_GONE, release(&A, 'W', 2));
	expect(LOCK_GONE, release(&A, 'R', 1));
	expect(LOCK_GONE, release(&B, 'W', 1));
	assert_state("WA.1");
}

/* ---- Who is let in --------------------------------------------------------------------------*/

static void test_readers_share_and_writers_do_not(void **state) {
	(void)state;
	struct lock_outcome first = expect(LOCK_GRANTED, try_acquire(&A, 'R', 1));
	struct lock_outcome second = expect(LOCK_GRANTED, try_acquire(&B, 'R', 1));
	assert_int_equal(second.token, first.token);
	struct lock_outcome busy = expect(LOCK_BUSY, try_acquire(&C, 'W', 1));
	assert_int_equal(busy.holder_mode, 'R');
	assert_int_equal(busy.holder_deadline_ms, second.deadline_ms);
	assert_state("RA.1 RB.1");
	expect(LOCK_DONE, release(&A, 'R', 1));
	expect(LOCK_BUSY, try_acquire(&C, 'W', 1));
	expect(LOCK_DONE, release(&B, 'R', 1));
	struct lock_outcome writer = expect(LOCK_GRANTED, try_acquire(&C, 'W', 1));
	assert_true(writer.token > first.token);
	busy = expect(LOCK_BUSY, try_acquire(&A, 'R', 2));
	assert_int_equal(busy.holder_mode, 'W');
	assert_string_equal(busy.holder, "C");
	assert_int_equal(busy.token, writer.token);
	assert_state("WC.1");
}

static void test_readers_do_not_pass_a_waiting_writer(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	expect(LOCK_WAITING, acquire(&B, 'W', 1));
	expect(LOCK_BUSY, try_acquire(&C, 'R', 1));
	struct lock_outcome waiting = expect(LOCK_WAITING, acquire(&C, 'R', 2));
	assert_int_equal(waiting.ahead, 1);
	assert_true(waiting.wanted);
	expect(LOCK_DONE, release(&A, 'R', 1));
	assert_state("rC.2 WB.1 lC.2");
}

static void test_a_dead_holder_makes_room(void **state) {
	(void)state;
	struct lock_outcome first = expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	native_end_lease("WA.1");
	struct lock_outcome second = expect(LOCK_GRANTED, try_acquire(&B, 'W', 1));
	assert_true(second.token > first.token);
	assert_state("WB.1");
	expect(LOCK_GONE, renew(&A, 'W', 1));
	expect(LOCK_GONE, release(&A, 'W', 1));
	assert_state("WB.1");
}

static void test_whoever_comes_to_a_dead_holder_takes_its_place(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	native_end_lease("WA.1");
	expect(LOCK_GRANTED, acquire(&B, 'W', 1));
	assert_state("WB.1");
}

static void test_a_dead_reader_is_removed_when_one_joins(void **state) {
	(void)state;
	struct lock_outcome first = expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	expect(LOCK_GRANTED, acquire(&B, 'R', 1));
	native_end_lease("RA.1");
	struct lock_outcome third = expect(LOCK_GRANTED, acquire(&C, 'R', 1));
	assert_int_equal(third.token, first.token);
	assert_state("RB.1 RC.1");
}

/* ---- The queue ------------------------------------------------------------------------------*/

static void test_join_says_who_and_how_many(void **state) {
	(void)state;
	native_listen();
	struct lock_outcome held = expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	struct lock_outcome first = expect(LOCK_WAITING, acquire(&B, 'W', 1));
	assert_int_equal(first.ahead, 0);
	assert_string_equal(first.holder, "A");
	assert_int_equal(first.holder_mode, 'W');
	assert_int_equal(first.holder_deadline_ms, held.deadline_ms);
	assert_int_equal(first.token, held.token);
	assert_false(first.wanted); /* nobody of another session waits */
	assert_string_equal(native_heard(), "A w 1");
	assert_int_equal(expect(LOCK_WAITING, acquire(&C, 'R', 1)).ahead, 1);
	assert_string_equal(native_heard(), ""); /* it knows that another session waits */
	assert_state("wB.1 rC.1 WA.1 lB.1 lC.1");
	assert_int_equal(
	        native_score("lB.1"), INT64_C(100000000000000) + first.server_us / 1000 + WAIT_LEASE_MS);
}

/* Who holds it has not been told as long as only its own session waits. */
/* Where readers hold there is no short way into the queue; each of them is told. */
static void test_readers_who_hold_are_told(void **state) {
	(void)state;
	native_listen();
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	expect(LOCK_GRANTED, acquire(&B, 'R', 1));
	assert_string_equal(native_heard(), "");
	assert_int_equal(expect(LOCK_WAITING, acquire(&C, 'W', 1)).ahead, 0);
	assert_string_equal(native_heard(), "A w 1\nB w 1");
}

static void test_the_first_stranger_is_announced(void **state) {
	(void)state;
	native_listen();
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	assert_false(expect(LOCK_WAITING, acquire(&A, 'W', 2)).wanted);
	assert_string_equal(native_heard(), "");
	assert_true(expect(LOCK_WAITING, acquire(&B, 'W', 1)).wanted);
	assert_string_equal(native_heard(), "A w 1");
}

/* The new holder hears with the grant whether another session waits: it need not ask. */
static void test_a_grant_tells_who_waits_behind_it(void **state) {
	(void)state;
	native_listen();
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_WAITING, acquire(&B, 'W', 1));
	expect(LOCK_WAITING, acquire(&C, 'W', 1));
	expect(LOCK_WAITING, acquire(&C, 'W', 2));
	native_heard();
	assert_true(expect(LOCK_DONE, release(&A, 'W', 1)).wanted);
	assert_string_equal(native_heard(), "B g 1 wanted");
	assert_true(expect(LOCK_DONE, release(&B, 'W', 1)).wanted);
	assert_string_equal(native_heard(), "C g 1"); /* behind it is its own session */
	assert_false(expect(LOCK_DONE, release(&C, 'W', 1)).wanted);
	assert_string_equal(native_heard(), "C g 2");
	assert_state("WC.2");
}

/* A writer may share the lock with readers of its own session: they keep the next one out. */
static void test_own_readers_stay_behind_a_writer(void **state) {
	(void)state;
	struct lock_op beside = native_op(OP_ACQUIRE, 'R', 2);
	native_listen();
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	beside.own_n = 1;
	beside.own[0] = 1;
	expect(LOCK_GRANTED, native_run(&A, &beside));
	expect(LOCK_WAITING, acquire(&B, 'W', 1));
	native_heard();
	expect(LOCK_DONE, release(&A, 'W', 1));
	assert_string_equal(native_heard(), "");
	assert_state("wB.1 RA.2 lB.1");
}

static void test_hands_over_in_order(void **state) {
	(void)state;
	native_listen();
	struct lock_outcome held = expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_WAITING, acquire(&B, 'W', 1));
	expect(LOCK_WAITING, acquire(&C, 'R', 1));
	expect(LOCK_WAITING, acquire(&D, 'R', 1));
	expect(LOCK_WAITING, acquire(&A, 'W', 2));
	native_heard();
	int64_t wait_until = native_score("lB.1") - INT64_C(100000000000000);

	struct lock_outcome done = expect(LOCK_DONE, release(&A, 'W', 1));
	assert_string_equal(native_heard(), "B g 1 wanted");
	assert_true(done.token > held.token);
	assert_int_equal(native_score("WB.1"), wait_until); /* its own lease, until it claims */
	struct lock_outcome claimed = expect(LOCK_GRANTED, beat(&B, 'W', 1));
	assert_int_equal(claimed.token, done.token);
	assert_int_equal(claimed.deadline_ms, claimed.server_us / 1000 + LEASE_MS);
	assert_true(claimed.wanted);

	done = expect(LOCK_DONE, release(&B, 'W', 1));
	assert_string_equal(native_heard(), "C g 1\nD g 1"); /* neighbouring readers together */
	assert_true(done.token > claimed.token);
	assert_state("wA.2 RC.1 RD.1 lA.2");
	struct lock_outcome c = expect(LOCK_GRANTED, beat(&C, 'R', 1));
	struct lock_outcome d = expect(LOCK_GRANTED, beat(&D, 'R', 1));
	assert_int_equal(c.token, done.token);
	assert_int_equal(d.token, done.token);
	expect(LOCK_DONE, release(&C, 'R', 1));
	assert_string_equal(native_heard(), "");
	expect(LOCK_DONE, release(&D, 'R', 1));
	assert_string_equal(native_heard(), "A g 2");
	assert_state("WA.2");
}

static void test_readers_behind_a_writer_wait_for_it(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_WAITING, acquire(&B, 'R', 1));
	expect(LOCK_WAITING, acquire(&C, 'W', 1));
	expect(LOCK_WAITING, acquire(&D, 'R', 1));
	expect(LOCK_DONE, release(&A, 'W', 1));
	assert_state("wC.1 rD.1 RB.1 lC.1 lD.1");
}

static void test_preferred_waiters_come_first(void **state) {
	(void)state;
	struct lock_op prefer = native_op(OP_ACQUIRE, 'W', 1);
	prefer.prefer = true;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_WAITING, acquire(&B, 'R', 1));
	assert_int_equal(expect(LOCK_WAITING, native_run(&C, &prefer)).ahead, 0);
	assert_int_equal(expect(LOCK_WAITING, native_run(&D, &prefer)).ahead, 1);
	assert_int_equal(expect(LOCK_WAITING, beat(&B, 'R', 1)).ahead, 2);
	expect(LOCK_DONE, release(&A, 'W', 1));
	assert_state("wD.1 rB.1 WC.1 lB.1 lD.1");
}

/* A place says since when; the order is that of coming, also within one millisecond and when the clock
 * has stepped back. */
static void test_a_place_says_since_when(void **state) {
	(void)state;
	const int64_t plain = INT64_C(-4000000000000000), preferred = INT64_C(-6000000000000000);
	struct lock_op prefer = native_op(OP_ACQUIRE, 'W', 1);
	prefer.prefer = true;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	struct lock_outcome b = expect(LOCK_WAITING, acquire(&B, 'R', 1));
	assert_int_equal(native_score("rB.1"), plain + b.server_us / 1000);
	struct lock_outcome c = expect(LOCK_WAITING, native_run(&C, &prefer));
	assert_int_equal(native_score("wC.1"), preferred + c.server_us / 1000);
	expect(LOCK_WAITING, beat(&B, 'R', 1));
	assert_int_equal(native_score("rB.1"), plain + b.server_us / 1000); /* a beat moves nobody */

	int64_t ahead = plain + native_now_ms() + 3600000;
	native_do("ZADD " KEY " XX %lld rB.1", (long long)ahead);
	assert_int_equal(expect(LOCK_WAITING, acquire(&D, 'W', 1)).ahead, 2);
	assert_int_equal(native_score("wD.1"), ahead + 1);
	expect(LOCK_WAITING, acquire(&D, 'W', 2));
	assert_int_equal(native_score("wD.2"), ahead + 2);
}

static void test_beat_keeps_a_place(void **state) {
	(void)state;
	native_listen();
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_WAITING, acquire(&B, 'W', 1));
	expect(LOCK_WAITING, acquire(&C, 'W', 1));
	native_heard();
	native_end_lease("lB.1");
	struct lock_outcome waiting = expect(LOCK_WAITING, beat(&B, 'W', 1));
	assert_int_equal(waiting.ahead, 0);
	assert_int_equal(
	        native_score("lB.1"), INT64_C(100000000000000) + waiting.server_us / 1000 + WAIT_LEASE_MS);
	assert_string_equal(native_heard(), "A w 1"); /* the head repeats the hint */
	assert_int_equal(expect(LOCK_WAITING, beat(&C, 'W', 1)).ahead, 1);
	assert_string_equal(native_heard(), "");
	assert_state("wB.1 wC.1 WA.1 lB.1 lC.1");
}

static void test_beat_finds_the_holder_dead(void **state) {
	(void)state;
	native_listen();
	struct lock_outcome held = expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_WAITING, acquire(&B, 'W', 1));
	expect(LOCK_WAITING, acquire(&C, 'W', 1));
	native_heard();
	native_end_lease("WA.1");
	struct lock_outcome c = expect(LOCK_WAITING, beat(&C, 'W', 1)); /* not the head, but it advances */
	assert_string_equal(native_heard(), "B g 1\nB w 1");            /* C is the head now */
	assert_true(c.token > held.token);
	assert_state("wC.1 WB.1 lC.1");
	struct lock_outcome b = expect(LOCK_GRANTED, beat(&B, 'W', 1));
	assert_int_equal(b.token, c.token);
}

static void test_beat_takes_what_is_free_without_a_message(void **state) {
	(void)state;
	native_listen();
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_WAITING, acquire(&B, 'R', 1));
	native_heard();
	native_end_lease("WA.1");
	struct lock_outcome got = expect(LOCK_GRANTED, beat(&B, 'R', 1));
	assert_int_equal(got.deadline_ms, got.server_us / 1000 + LEASE_MS);
	assert_string_equal(native_heard(), "");
	assert_int_equal(expect(LOCK_GRANTED, beat(&B, 'R', 1)).token, got.token);
	assert_state("RB.1");
}

static void test_beat_of_a_dead_grant_is_gone(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_WAITING, acquire(&B, 'W', 1));
	expect(LOCK_DONE, release(&A, 'W', 1));
	native_end_lease("WB.1");
	expect(LOCK_GONE, beat(&B, 'W', 1));
	assert_state("");
	expect(LOCK_GONE, beat(&B, 'W', 1));
}

static void test_whoever_finds_a_death_lets_the_next_in(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_WAITING, acquire(&B, 'W', 1));
	expect(LOCK_WAITING, acquire(&C, 'W', 1));
	native_end_lease("WA.1");
	expect(LOCK_GONE, beat(&D, 'W', 9)); /* has no part in it */
	assert_state("wC.1 WB.1 lC.1");
	native_end_lease("WB.1");
	expect(LOCK_GONE, beat(&B, 'W', 1)); /* the dead one itself */
	assert_state("WC.1");
}

static void test_dead_waiters_are_passed_over(void **state) {
	(void)state;
	native_listen();
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_WAITING, acquire(&B, 'W', 1));
	expect(LOCK_WAITING, acquire(&C, 'W', 1));
	native_heard();
	native_end_lease("lB.1");
	expect(LOCK_DONE, release(&A, 'W', 1));
	assert_string_equal(native_heard(), "C g 1");
	assert_state("WC.1");
	expect(LOCK_GONE, beat(&B, 'W', 1)); /* it joins again, at the end */
}

static void test_a_waiter_without_a_lease_is_dead(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_WAITING, acquire(&B, 'R', 1));
	expect(LOCK_WAITING, acquire(&C, 'R', 1));
	native_do("ZREM " KEY " lB.1 lC.1");
	expect(LOCK_DONE, release(&A, 'W', 1));
	assert_state("");
}

/* ---- Renew ----------------------------------------------------------------------------------*/

static void test_renew_lengthens_and_never_shortens(void **state) {
	(void)state;
	struct lock_outcome held = expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	struct lock_op op = native_op(OP_RENEW, 'W', 1);
	op.lease_ms = 50;
	assert_int_equal(expect(LOCK_GRANTED, native_run(&A, &op)).deadline_ms, held.deadline_ms);
	op.lease_ms = 2 * LEASE_MS;
	struct lock_outcome renewed = expect(LOCK_GRANTED, native_run(&A, &op));
	assert_int_equal(renewed.deadline_ms, renewed.server_us / 1000 + 2 * LEASE_MS);
	assert_int_equal(native_score("WA.1"), renewed.deadline_ms);
	assert_int_equal(native_pexpiretime(), renewed.deadline_ms + KEEP_MS);
	assert_int_equal(renewed.token, held.token);
	assert_false(renewed.wanted);
	expect(LOCK_WAITING, acquire(&A, 'W', 2));
	assert_false(expect(LOCK_GRANTED, renew(&A, 'W', 1)).wanted); /* only our own session waits */
	expect(LOCK_DONE, cancel(&A, 'W', 2));
	expect(LOCK_WAITING, acquire(&B, 'W', 1));
	assert_true(expect(LOCK_GRANTED, renew(&A, 'W', 1)).wanted);
}

static void test_renew_does_not_revive(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_WAITING, acquire(&B, 'W', 1));
	native_end_lease("WA.1");
	expect(LOCK_GONE, renew(&A, 'W', 1));
	assert_state("WB.1"); /* and the next one has it */
	expect(LOCK_GONE, renew(&A, 'W', 1));
	expect(LOCK_GONE, renew(&A, 'R', 1));
	assert_state("WB.1");
}

static void test_one_session_never_lengthens_anothers_lease(void **state) {
	(void)state;
	struct lock_outcome a = expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	struct lock_op op = native_op(OP_ACQUIRE, 'R', 1);
	op.lease_ms = 1000000;
	expect(LOCK_GRANTED, native_run(&B, &op));
	op.kind = OP_RENEW;
	expect(LOCK_GRANTED, native_run(&B, &op));
	assert_int_equal(native_score("RA.1"), a.deadline_ms);
}

/* ---- Cancel ---------------------------------------------------------------------------------*/

static void test_cancel_leaves_the_queue(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	expect(LOCK_WAITING, acquire(&B, 'W', 1));
	expect(LOCK_WAITING, acquire(&C, 'R', 1));
	struct lock_outcome done = expect(LOCK_DONE, cancel(&B, 'W', 1));
	assert_false(done.released_grant);
	assert_state("RA.1 RC.1"); /* the reader behind it comes in */
	expect(LOCK_DONE, cancel(&B, 'W', 1));
	assert_state("RA.1 RC.1");
}

static void test_cancel_gives_a_grant_back(void **state) {
	(void)state;
	native_listen();
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_WAITING, acquire(&B, 'W', 1));
	expect(LOCK_WAITING, acquire(&C, 'W', 1));
	expect(LOCK_DONE, release(&A, 'W', 1));
	native_heard();
	struct lock_outcome done = expect(LOCK_DONE, cancel(&B, 'W', 1));
	assert_true(done.released_grant);
	assert_string_equal(native_heard(), "C g 1");
	assert_state("WC.1");
}

static void test_release_of_a_dead_hold_lets_the_next_in(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	expect(LOCK_GRANTED, acquire(&B, 'R', 1));
	expect(LOCK_WAITING, acquire(&C, 'W', 1));
	native_end_lease("RB.1");
	expect(LOCK_DONE, release(&A, 'R', 1));
	assert_state("WC.1");
}

static void test_advance_does_what_is_due(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_WAITING, acquire(&B, 'W', 1));
	assert_false(expect(LOCK_DONE, advance(&C)).more);
	assert_state("wB.1 WA.1 lB.1");
	native_end_lease("WA.1");
	assert_false(expect(LOCK_DONE, advance(&C)).more);
	assert_state("WB.1");
}

int main(void) {
	const struct CMUnitTest tests[] = {
		NATIVE_TEST(test_takes_a_free_lock),
		NATIVE_TEST(test_release_leaves_only_the_token),
		NATIVE_TEST(test_operations_on_no_key_create_none),
		NATIVE_TEST(test_a_lock_is_taken_again_with_a_larger_token),
		NATIVE_TEST(test_acquire_twice_is_one_hold),
		NATIVE_TEST(test_acquire_again_never_shortens),
		NATIVE_TEST(test_join_twice_is_one_place),
		NATIVE_TEST(test_acquire_finds_its_entry_dead),
		NATIVE_TEST(test_another_attempt_is_another_hold),
		NATIVE_TEST(test_readers_share_and_writers_do_not),
		NATIVE_TEST(test_readers_do_not_pass_a_waiting_writer),
		NATIVE_TEST(test_a_dead_holder_makes_room),
		NATIVE_TEST(test_whoever_comes_to_a_dead_holder_takes_its_place),
		NATIVE_TEST(test_a_dead_reader_is_removed_when_one_joins),
		NATIVE_TEST(test_join_says_who_and_how_many),
		NATIVE_TEST(test_readers_who_hold_are_told),
		NATIVE_TEST(test_the_first_stranger_is_announced),
		NATIVE_TEST(test_a_grant_tells_who_waits_behind_it),
		NATIVE_TEST(test_own_readers_stay_behind_a_writer),
		NATIVE_TEST(test_hands_over_in_order),
		NATIVE_TEST(test_readers_behind_a_writer_wait_for_it),
		NATIVE_TEST(test_preferred_waiters_come_first),
		NATIVE_TEST(test_a_place_says_since_when),
		NATIVE_TEST(test_beat_keeps_a_place),
		NATIVE_TEST(test_beat_finds_the_holder_dead),
		NATIVE_TEST(test_beat_takes_what_is_free_without_a_message),
		NATIVE_TEST(test_beat_of_a_dead_grant_is_gone),
		NATIVE_TEST(test_whoever_finds_a_death_lets_the_next_in),
		NATIVE_TEST(test_dead_waiters_are_passed_over),
		NATIVE_TEST(test_a_waiter_without_a_lease_is_dead),
		NATIVE_TEST(test_renew_lengthens_and_never_shortens),
		NATIVE_TEST(test_renew_does_not_revive),
		NATIVE_TEST(test_one_session_never_lengthens_anothers_lease),
		NATIVE_TEST(test_cancel_leaves_the_queue),
		NATIVE_TEST(test_cancel_gives_a_grant_back),
		NATIVE_TEST(test_release_of_a_dead_hold_lets_the_next_in),
		NATIVE_TEST(test_advance_does_what_is_due),
	};
	return cmocka_run_group_tests(tests, native_up, native_down);
}
