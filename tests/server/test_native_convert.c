/* SPDX-License-Identifier: MIT */
/* The native scripts that change a hold: upgrade, downgrade, rename, and holds of one session beside
 * each other. Every conversion gives the hold a new name, so that a late copy finds nothing. */
#include "native_fixture.h"

#include <stdio.h>
#include <string.h>

/* ---- Upgrade --------------------------------------------------------------------------------*/

static void test_the_only_reader_upgrades_at_once(void **state) {
	(void)state;
	struct lock_outcome read = expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	struct lock_outcome write = expect(LOCK_GRANTED, upgrade(&A, 2, 1));
	assert_true(write.token > read.token);
	assert_state("WA.2");
	struct lock_outcome again = expect(LOCK_GRANTED, upgrade(&A, 2, 1));
	assert_int_equal(again.token, write.token);
	expect(LOCK_GONE, renew(&A, 'R', 1));
	expect(LOCK_GONE, release(&A, 'R', 1));
	assert_state("WA.2");
	expect(LOCK_DONE, release(&A, 'W', 2));
	expect(LOCK_GONE, upgrade(&A, 2, 1)); /* a late copy creates nothing */
	assert_state("");
}

static void test_upgrade_keeps_the_longer_lease(void **state) {
	(void)state;
	struct lock_outcome read = expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	struct lock_op op = native_op(OP_UPGRADE, 'W', 2);
	op.old = 1;
	op.lease_ms = 50;
	assert_int_equal(expect(LOCK_GRANTED, native_run(&A, &op)).deadline_ms, read.deadline_ms);
}

static void test_upgrader_waits_before_all_others(void **state) {
	(void)state;
	native_listen();
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	expect(LOCK_GRANTED, acquire(&B, 'R', 1));
	expect(LOCK_WAITING, acquire(&C, 'W', 1));
	native_heard();
	struct lock_outcome waiting = expect(LOCK_WAITING, upgrade(&A, 2, 1));
	assert_int_equal(waiting.ahead, 0);
	assert_string_equal(native_heard(), "B w 1"); /* not to the session itself */
	expect(LOCK_WAITING, upgrade(&A, 2, 1));
	expect(LOCK_WAITING, upgrade_beat(&A, 2, 1));
	assert_string_equal(native_heard(), "B w 1\nB w 1");
	assert_state("uA.2.1 wC.1 RA.1 RB.1 lA.2.1 lC.1");
	expect(LOCK_GRANTED, renew(&A, 'R', 1)); /* still a reader */
	int64_t read_until = native_score("RA.1");

	struct lock_outcome done = expect(LOCK_DONE, release(&B, 'R', 1));
	assert_string_equal(native_heard(), "A g 2");
	assert_state("wC.1 WA.2 lC.1");
	assert_int_equal(native_score("WA.2"), read_until); /* the longer of its two leases */
	struct lock_outcome write = expect(LOCK_GRANTED, upgrade_beat(&A, 2, 1));
	assert_int_equal(write.token, done.token);
	assert_true(write.token > waiting.token);
	assert_true(write.wanted);
}

static void test_a_granted_upgrade_has_at_least_its_waiter_lease(void **state) {
	(void)state;
	struct lock_op op = native_op(OP_ACQUIRE, 'R', 1);
	op.lease_ms = 1000;
	expect(LOCK_GRANTED, native_run(&A, &op));
	expect(LOCK_GRANTED, acquire(&B, 'R', 1));
	struct lock_outcome waiting = expect(LOCK_WAITING, upgrade(&A, 2, 1));
	assert_int_equal(
	        native_score("uA.2.1"), INT64_C(-8000000000000000) + waiting.server_us / 1000); /* since */
	int64_t wait_until = native_score("lA.2.1") - INT64_C(100000000000000);
	expect(LOCK_DONE, release(&B, 'R', 1));
	assert_int_equal(native_score("WA.2"), wait_until);
}

static void test_second_upgrader_is_a_deadlock(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	expect(LOCK_GRANTED, acquire(&B, 'R', 1));
	expect(LOCK_WAITING, upgrade(&A, 2, 1));
	struct lock_outcome refused = expect(LOCK_DEADLOCK, upgrade(&B, 2, 1));
	assert_string_equal(refused.holder, "A");
	assert_int_equal(refused.holder_mode, 'R');
	assert_state("uA.2.1 RA.1 RB.1 lA.2.1");
	/* A dead upgrader is no obstacle: its place goes to the second, its read hold stays. */
	native_end_lease("lA.2.1");
	expect(LOCK_WAITING, upgrade(&B, 2, 1));
	assert_state("uB.2.1 RA.1 RB.1 lB.2.1");
	expect(LOCK_GONE, upgrade_beat(&A, 2, 1));
}

static void test_upgrade_without_the_queue(void **state) {
	(void)state;
	struct lock_op op = native_op(OP_UPGRADE, 'W', 2);
	op.old = 1;
	op.queue = false;
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	expect(LOCK_GRANTED, acquire(&B, 'R', 1));
	assert_string_equal(expect(LOCK_BUSY, native_run(&A, &op)).holder, "B");
	assert_state("RA.1 RB.1");
	native_end_lease("RB.1");
	expect(LOCK_GRANTED, native_run(&A, &op));
	assert_state("WA.2");
}

static void test_upgrade_of_nothing(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&B, 'R', 1));
	expect(LOCK_GONE, upgrade(&A, 2, 1));
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	native_end_lease("RA.1");
	expect(LOCK_GONE, upgrade(&A, 2, 1));
	assert_state("RB.1");
	expect(LOCK_WAITING, acquire(&C, 'W', 1));
	native_end_lease("RB.1");
	expect(LOCK_GONE, upgrade(&A, 2, 1));
	assert_state("WC.1"); /* it lets the next one in all the same */
}

static void test_upgrader_whose_read_hold_dies(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	expect(LOCK_GRANTED, acquire(&B, 'R', 1));
	expect(LOCK_WAITING, upgrade(&A, 2, 1));
	native_end_lease("RA.1");
	expect(LOCK_GONE, upgrade_beat(&A, 2, 1));
	assert_state("RB.1");
}

static void test_the_granted_upgrade_dies(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	expect(LOCK_GRANTED, upgrade(&A, 2, 1));
	native_end_lease("WA.2");
	expect(LOCK_GONE, upgrade(&A, 2, 1));
	assert_state("");
}

static void test_cancelled_upgrade_lets_readers_in(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	expect(LOCK_GRANTED, acquire(&B, 'R', 1));
	expect(LOCK_WAITING, upgrade(&A, 2, 1));
	expect(LOCK_WAITING, acquire(&C, 'R', 1));
	struct lock_outcome done = expect(LOCK_DONE, upgrade_cancel(&A, 2, 1));
	assert_false(done.released_grant);
	assert_state("RA.1 RB.1 RC.1");
	expect(LOCK_DONE, upgrade_cancel(&A, 2, 1));
	expect(LOCK_GRANTED, renew(&A, 'R', 1));
}

static void test_cancel_after_the_grant_keeps_write(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	expect(LOCK_GRANTED, acquire(&B, 'R', 1));
	expect(LOCK_WAITING, upgrade(&A, 2, 1));
	expect(LOCK_DONE, release(&B, 'R', 1));
	struct lock_op op = native_op(OP_CANCEL, 'W', 2);
	op.old = 1;
	op.bury_n = 1;
	op.bury[0] = 2;
	struct lock_outcome done = expect(LOCK_DONE, native_run(&A, &op));
	assert_true(done.released_grant);
	assert_int_equal(done.deadline_ms, native_score("WA.2"));
	assert_state("WA.2"); /* nor is it buried: it lives */
	native_end_lease("WA.2");
	expect(LOCK_GONE, native_run(&A, &op));
	assert_state("xA.2");
}

static void test_buried_upgrade_stays_withdrawn(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	expect(LOCK_GRANTED, acquire(&B, 'R', 1));
	expect(LOCK_WAITING, upgrade(&A, 2, 1));
	struct lock_op op = native_op(OP_CANCEL, 'W', 2);
	op.old = 1;
	op.bury_n = 1;
	op.bury[0] = 2;
	expect(LOCK_DONE, native_run(&A, &op));
	expect(LOCK_BURIED, upgrade(&A, 2, 1));
	assert_state("RA.1 RB.1 xA.2");
}

/* ---- Downgrade ------------------------------------------------------------------------------*/

static void test_downgrade_lets_readers_in(void **state) {
	(void)state;
	native_listen();
	struct lock_outcome write = expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_WAITING, acquire(&B, 'R', 1));
	expect(LOCK_WAITING, acquire(&C, 'W', 1));
	native_heard();
	struct lock_outcome read = expect(LOCK_GRANTED, downgrade(&A, 2, 1));
	assert_true(read.token > write.token);
	assert_true(read.deadline_ms >= write.deadline_ms);
	assert_true(read.wanted);
	assert_string_equal(native_heard(), "B g 1");
	assert_state("wC.1 RA.2 RB.1 lC.1");
	struct lock_outcome again = expect(LOCK_GRANTED, downgrade(&A, 2, 1));
	assert_int_equal(again.token, read.token);
	expect(LOCK_GONE, renew(&A, 'W', 1));
	expect(LOCK_DONE, release(&A, 'R', 2));
	expect(LOCK_GONE, downgrade(&A, 2, 1));
	assert_state("wC.1 RB.1 lC.1");
}

static void test_downgrade_keeps_the_longer_lease(void **state) {
	(void)state;
	struct lock_outcome write = expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	struct lock_op op = native_op(OP_DOWNGRADE, 'R', 2);
	op.old = 1;
	op.lease_ms = 50;
	assert_int_equal(expect(LOCK_GRANTED, native_run(&A, &op)).deadline_ms, write.deadline_ms);
}

static void test_downgrade_of_nothing(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_WAITING, acquire(&B, 'W', 1));
	native_end_lease("WA.1");
	expect(LOCK_GONE, downgrade(&A, 2, 1));
	assert_state("WB.1"); /* and the next one has it */
	expect(LOCK_GONE, downgrade(&A, 2, 1));
	assert_state("WB.1");
}

static void test_downgraded_hold_dies(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_GRANTED, downgrade(&A, 2, 1));
	native_end_lease("RA.2");
	expect(LOCK_GONE, downgrade(&A, 2, 1));
	assert_state("");
}

/* ---- Rename ---------------------------------------------------------------------------------*/

static void test_one_adopter_wins(void **state) {
	(void)state;
	struct lock_outcome held = expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	struct lock_outcome adopted = expect(LOCK_GRANTED, rename_hold(&B, "WA.1", 1));
	assert_int_equal(adopted.token, held.token);
	assert_true(adopted.deadline_ms >= held.deadline_ms);
	expect(LOCK_GONE, rename_hold(&C, "WA.1", 1));
	expect(LOCK_GRANTED, rename_hold(&B, "WA.1", 1));
	expect(LOCK_GONE, renew(&A, 'W', 1));
	assert_state("WB.1");
}

static void test_rename_of_the_dead(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_WAITING, acquire(&C, 'W', 1));
	native_end_lease("WA.1");
	expect(LOCK_GONE, rename_hold(&B, "WA.1", 1));
	assert_state("WC.1"); /* and the next one has it */
	expect(LOCK_GRANTED, rename_hold(&B, "WC.1", 2));
	native_end_lease("WB.2");
	expect(LOCK_GONE, rename_hold(&B, "WC.1", 2));
	assert_state("");
}

static void test_rename_keeps_the_longer_lease(void **state) {
	(void)state;
	struct lock_op op = native_op(OP_RENAME, 'W', 2);
	struct lock_outcome held = expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	snprintf(op.foreign_id, sizeof(op.foreign_id), "WA.1");
	op.lease_ms = 1000;
	assert_int_equal(expect(LOCK_GRANTED, native_run(&A, &op)).deadline_ms, held.deadline_ms);
	snprintf(op.foreign_id, sizeof(op.foreign_id), "WA.2");
	op.attempt = 3;
	op.lease_ms = 2 * LEASE_MS; /* and the key lasts as long */
	assert_true(expect(LOCK_GRANTED, native_run(&A, &op)).deadline_ms > held.deadline_ms);
}

static void test_rename_takes_holds_only(void **state) {
	(void)state;
	struct lock_outcome held = expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_WAITING, acquire(&B, 'W', 1));
	expect(LOCK_GONE, rename_hold(&C, "#1", 1));
	expect(LOCK_GONE, rename_hold(&C, "lB.1", 1));
	expect(LOCK_GONE, rename_hold(&C, "wB.1", 1));
	assert_state("wB.1 WA.1 lB.1");
	assert_int_equal(native_score("#1"), held.token);
}

static void test_rename_may_end_a_lease_sooner(void **state) {
	(void)state;
	struct lock_op op = native_op(OP_RENAME, 'W', 2);
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	snprintf(op.foreign_id, sizeof(op.foreign_id), "WA.1");
	op.lease_ms = 1000;
	op.shrink_expiry = true;
	struct lock_outcome renamed = expect(LOCK_GRANTED, native_run(&A, &op));
	assert_int_equal(renamed.deadline_ms, renamed.server_us / 1000 + 1000);
	assert_int_equal(native_score("WA.2"), renamed.deadline_ms);
}

static void test_split_of_a_read_hold(void **state) {
	(void)state;
	struct lock_op op = native_op(OP_RENAME, 'R', 2);
	struct lock_outcome held = expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	snprintf(op.foreign_id, sizeof(op.foreign_id), "RA.1");
	op.keep_old = true;
	op.lease_ms = 1000;
	struct lock_outcome split = expect(LOCK_GRANTED, native_run(&A, &op));
	assert_int_equal(split.token, held.token);
	assert_int_equal(split.deadline_ms, split.server_us / 1000 + 1000);
	assert_state("RA.1 RA.2");
	expect(LOCK_GRANTED, native_run(&A, &op));
	expect(LOCK_DONE, release(&A, 'R', 1));
	assert_state("RA.2");
	/* There is one WRITE, and it is not split. */
	expect(LOCK_GRANTED, upgrade(&A, 3, 2));
	snprintf(op.foreign_id, sizeof(op.foreign_id), "WA.3");
	op.attempt = 4;
	expect(LOCK_BUSY, native_run(&A, &op));
	assert_state("WA.3");
}

static void test_a_buried_attempt_is_not_renamed_to(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_DONE, withdraw(&B, 'W', 1));
	expect(LOCK_BURIED, rename_hold(&B, "WA.1", 1));
	assert_state("WA.1 xB.1");
}

/* ---- Holds of one session beside each other -------------------------------------------------*/

static struct lock_outcome reenter(
        const struct dialect_session *session, char mode, uint64_t attempt, uint64_t own) {
	struct lock_op op = native_op(OP_ACQUIRE, mode, attempt);
	op.own_n = 1;
	op.own[0] = own;
	op.queue = false;
	return native_run(session, &op);
}

static void test_a_reader_reenters_past_the_queue(void **state) {
	(void)state;
	struct lock_outcome held = expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	expect(LOCK_WAITING, acquire(&B, 'W', 1));
	expect(LOCK_BUSY, try_acquire(&A, 'R', 2));
	expect(LOCK_BUSY, reenter(&C, 'R', 2, 1)); /* it holds nothing, whatever it says */
	struct lock_outcome again = expect(LOCK_GRANTED, reenter(&A, 'R', 2, 1));
	assert_int_equal(again.token, held.token);
	assert_true(again.wanted);
	assert_state("wB.1 RA.1 RA.2 lB.1");
}

static void test_a_dead_hold_does_not_vouch(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	expect(LOCK_GRANTED, acquire(&B, 'R', 1));
	expect(LOCK_WAITING, acquire(&C, 'W', 1));
	native_end_lease("RA.1");
	expect(LOCK_BUSY, reenter(&A, 'R', 2, 1));
	assert_state("wC.1 RB.1 lC.1");
}

static void test_a_writer_reads_and_writes_beside_itself(void **state) {
	(void)state;
	struct lock_outcome held = expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_WAITING, acquire(&B, 'R', 1));
	assert_int_equal(expect(LOCK_GRANTED, reenter(&A, 'R', 2, 1)).token, held.token);
	struct lock_op op = native_op(OP_ACQUIRE, 'W', 3);
	op.queue = false;
	op.own_n = 1;
	op.own[0] = 1;
	expect(LOCK_BUSY, native_run(&A, &op)); /* attempt 2 is not vouched for */
	op.own_n = 2;
	op.own[1] = 2;
	assert_int_equal(expect(LOCK_GRANTED, native_run(&A, &op)).token, held.token);
	expect(LOCK_BUSY, try_acquire(&C, 'R', 1));
	assert_state("rB.1 RA.2 WA.1 WA.3 lB.1");

	/* One WRITE is left: nobody comes in. None is left: readers do, in a phase of their own. */
	assert_int_equal(expect(LOCK_DONE, release(&A, 'W', 1)).token, held.token);
	assert_state("rB.1 RA.2 WA.3 lB.1");
	struct lock_outcome done = expect(LOCK_DONE, release(&A, 'W', 3));
	assert_true(done.token > held.token);
	assert_state("RA.2 RB.1");
}

static void test_a_dead_writer_beside_its_reader_ends_the_phase(void **state) {
	(void)state;
	struct lock_outcome held = expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_GRANTED, reenter(&A, 'R', 2, 1));
	native_end_lease("WA.1");
	struct lock_outcome joined = expect(LOCK_GRANTED, acquire(&B, 'R', 1));
	assert_true(joined.token > held.token);
	assert_state("RA.2 RB.1");
}

static void test_a_cancelled_writer_beside_its_reader_ends_the_phase(void **state) {
	(void)state;
	struct lock_outcome held = expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_GRANTED, reenter(&A, 'R', 2, 1));
	assert_true(expect(LOCK_DONE, cancel(&A, 'W', 1)).token > held.token);
	assert_state("RA.2");
}

static void test_write_beside_own_reads_is_a_new_phase(void **state) {
	(void)state;
	struct lock_outcome held = expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	assert_true(expect(LOCK_GRANTED, reenter(&A, 'W', 2, 1)).token > held.token);
	assert_state("RA.1 WA.2");
	expect(LOCK_BUSY, try_acquire(&B, 'R', 1));
}

static void test_own_list_does_not_open_a_strangers_lock(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_BUSY, reenter(&B, 'W', 2, 1));
	expect(LOCK_BUSY, reenter(&B, 'R', 2, 1));
	expect(LOCK_DONE, release(&A, 'W', 1));
	expect(LOCK_GRANTED, acquire(&A, 'R', 2));
	expect(LOCK_GRANTED, acquire(&B, 'R', 1));
	expect(LOCK_BUSY, reenter(&A, 'W', 3, 2)); /* B reads */
	assert_state("RA.2 RB.1");
}

static void test_beside_a_writer_there_is_a_bound(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	for (uint64_t i = 2; i <= 16; i++)
		expect(LOCK_GRANTED, reenter(&A, 'R', i, 1));
	expect(LOCK_BUSY, reenter(&A, 'R', 17, 1));
	struct lock_op op = native_op(OP_RENAME, 'R', 18);
	snprintf(op.foreign_id, sizeof(op.foreign_id), "RA.2");
	op.keep_old = true;
	expect(LOCK_BUSY, native_run(&A, &op));
	expect(LOCK_BUSY, try_acquire(&B, 'R', 1)); /* the writer is seen among them */
	expect(LOCK_DONE, release(&A, 'W', 1));
	expect(LOCK_GRANTED, try_acquire(&B, 'R', 1));
}

static void test_upgrade_beside_own_reads(void **state) {
	(void)state;
	struct lock_op op = native_op(OP_UPGRADE, 'W', 3);
	op.old = 1;
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	expect(LOCK_GRANTED, acquire(&A, 'R', 2));
	expect(LOCK_GRANTED, acquire(&B, 'R', 1));
	expect(LOCK_WAITING, native_run(&A, &op));
	expect(LOCK_DONE, release(&B, 'R', 1));
	expect(LOCK_WAITING, upgrade_beat(&A, 3, 1)); /* its own attempt 2 stands in the way… */
	op.kind = OP_BEAT;
	op.own_n = 1;
	op.own[0] = 2;
	expect(LOCK_GRANTED, native_run(&A, &op)); /* …unless the session says that it does not */
	assert_state("RA.2 WA.3");
	expect(LOCK_BUSY, try_acquire(&B, 'R', 2));
	expect(LOCK_DONE, release(&A, 'W', 3));
	expect(LOCK_DONE, release(&A, 'R', 2));
	assert_state("");
}

/* WAIT waits for what its connection has written: a renewal that is to be waited for writes each time, also
 * one that lengthens nothing. */
static void test_a_renewal_that_must_write(void **state) {
	struct lock_op op = native_op(OP_RENEW, 'W', 1);
	(void)state;

	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	op.lease_ms = 1;
	int64_t before = native_score("WA.1");
	expect(LOCK_GRANTED, native_run(&A, &op));
	assert_int_equal(native_score("WA.1"), before);
	op.must_write = true;
	for (int i = 1; i <= 3; i++) {
		expect(LOCK_GRANTED, native_run(&A, &op));
		assert_int_equal(native_score("WA.1"), before + i);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		NATIVE_TEST(test_a_renewal_that_must_write),
		NATIVE_TEST(test_the_only_reader_upgrades_at_once),
		NATIVE_TEST(test_upgrade_keeps_the_longer_lease),
		NATIVE_TEST(test_upgrader_waits_before_all_others),
		NATIVE_TEST(test_a_granted_upgrade_has_at_least_its_waiter_lease),
		NATIVE_TEST(test_second_upgrader_is_a_deadlock),
		NATIVE_TEST(test_upgrade_without_the_queue),
		NATIVE_TEST(test_upgrade_of_nothing),
		NATIVE_TEST(test_upgrader_whose_read_hold_dies),
		NATIVE_TEST(test_the_granted_upgrade_dies),
		NATIVE_TEST(test_cancelled_upgrade_lets_readers_in),
		NATIVE_TEST(test_cancel_after_the_grant_keeps_write),
		NATIVE_TEST(test_buried_upgrade_stays_withdrawn),
		NATIVE_TEST(test_downgrade_lets_readers_in),
		NATIVE_TEST(test_downgrade_keeps_the_longer_lease),
		NATIVE_TEST(test_downgrade_of_nothing),
		NATIVE_TEST(test_downgraded_hold_dies),
		NATIVE_TEST(test_one_adopter_wins),
		NATIVE_TEST(test_rename_of_the_dead),
		NATIVE_TEST(test_rename_keeps_the_longer_lease),
		NATIVE_TEST(test_rename_takes_holds_only),
		NATIVE_TEST(test_rename_may_end_a_lease_sooner),
		NATIVE_TEST(test_split_of_a_read_hold),
		NATIVE_TEST(test_a_buried_attempt_is_not_renamed_to),
		NATIVE_TEST(test_a_reader_reenters_past_the_queue),
		NATIVE_TEST(test_a_dead_hold_does_not_vouch),
		NATIVE_TEST(test_a_writer_reads_and_writes_beside_itself),
		NATIVE_TEST(test_a_dead_writer_beside_its_reader_ends_the_phase),
		NATIVE_TEST(test_a_cancelled_writer_beside_its_reader_ends_the_phase),
		NATIVE_TEST(test_write_beside_own_reads_is_a_new_phase),
		NATIVE_TEST(test_own_list_does_not_open_a_strangers_lock),
		NATIVE_TEST(test_beside_a_writer_there_is_a_bound),
		NATIVE_TEST(test_upgrade_beside_own_reads),
	};
	return cmocka_run_group_tests(tests, native_up, native_down);
}
