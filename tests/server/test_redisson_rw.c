/* SPDX-License-Identifier: MIT */
/* Redisson's RReadWriteLock, operation by operation: exactly its keys, fields, values, times to live, channel
 * and payloads, and what a repeated or late request may not do. */
#include "layout_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHANNEL "redisson_rwlock:{t}"
#define TIMEOUT(owner, n) "{t}:" owner ":rwlock_timeout:" n

static int up(void **state) {
	(void)state;
	layout_dialect = &snecki_redisson_rwlock;
	return layout_up(state);
}

/* ---- Acquire ------------------------------------------------------------------------------------*/

static void keys_of_a_reader(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	assert_keys("t{A.1=1 mode=read} " TIMEOUT("A.1", "1") "=1");
	assert_ttl("t", LEASE_MS);
	assert_ttl(TIMEOUT("A.1", "1"), LEASE_MS);
	assert_heard("");
}

static void keys_of_a_writer(void **state) {
	(void)state;
	struct lock_outcome outcome = expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	assert_int_equal(outcome.token, 0);
	assert_keys("t{A.1:write=1 mode=write}");
	assert_ttl("t", LEASE_MS);
	assert_heard("");
}

static void readers_share_and_writers_do_not(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	expect(LOCK_GRANTED, acquire(&B, 'R', 1));
	assert_keys("t{A.1=1 B.1=1 mode=read} " TIMEOUT("A.1", "1") "=1 " TIMEOUT("B.1", "1") "=1");
	struct lock_outcome outcome = expect(LOCK_WAITING, acquire(&C, 'W', 1));
	assert_int_equal(outcome.holder_mode, 'R');
	assert_in_range(outcome.holder_deadline_ms - outcome.server_us / 1000, LEASE_MS - 5000, LEASE_MS);
	expect(LOCK_BUSY, try_acquire(&C, 'W', 1));
	expect(LOCK_DONE, release(&A, 'R', 1));
	expect(LOCK_DONE, release(&B, 'R', 1));
	expect(LOCK_GRANTED, beat(&C, 'W', 1));
	outcome = expect(LOCK_WAITING, acquire(&A, 'R', 2));
	layout_assert_holder(&outcome, 'W', &C, 1);
	expect(LOCK_WAITING, acquire(&A, 'W', 3));
	expect(LOCK_WAITING, acquire(&C, 'R', 2)); /* READ under WRITE is told by the writer's own counts */
	assert_keys("t{C.1:write=1 mode=write}");
}

static void a_reader_who_joins_never_shortens(void **state) {
	(void)state;
	struct lock_op op = layout_op(OP_ACQUIRE, 'R', 1);
	op.lease_ms = 600000;
	expect(LOCK_GRANTED, layout_run(&A, &op));
	expect(LOCK_GRANTED, acquire(&B, 'R', 1));
	assert_ttl("t", 600000);
	assert_ttl(TIMEOUT("B.1", "1"), LEASE_MS);
}

/* Dead readers are in the hash as long as others keep it alive. */
static void a_writer_passes_over_dead_readers(void **state) {
	(void)state;
	layout_do("HSET t mode read J:1 2 J:2 1");
	layout_do("PEXPIRE t 600000");
	layout_do("SET " TIMEOUT("J:2", "1") " 1 PX 600000");
	expect(LOCK_WAITING, acquire(&A, 'W', 1));
	layout_do("DEL " TIMEOUT("J:2", "1"));
	layout_do("SET " TIMEOUT("J:1", "1") " 1 PX 600000"); /* of its two holds the second has ended */
	expect(LOCK_WAITING, acquire(&A, 'W', 1));
	layout_do("DEL " TIMEOUT("J:1", "1"));
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	assert_keys("t{A.1:write=1 mode=write}");
	assert_ttl("t", LEASE_MS);
}

static void a_writer_looks_at_all_of_many(void **state) {
	(void)state;
	layout_do("HSET t mode read");
	for (int i = 0; i < 1000; i++)
		layout_do("HSET t J:%d 1", i);
	layout_do("PEXPIRE t 600000");
	for (int i = 0; i < 1000; i += 111) { /* wherever the one is that lives */
		layout_do("SET {t}:J:%d:rwlock_timeout:1 1 PX 600000", i);
		expect(LOCK_WAITING, acquire(&A, 'W', 1));
		layout_do("DEL {t}:J:%d:rwlock_timeout:1", i);
	}
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	assert_keys("t{A.1:write=1 mode=write}");
}

/* The count of one owner may be any number: it is not gone through one by one. */
static void a_huge_count_costs_little(void **state) {
	(void)state;
	layout_do("HSET t mode read J:1 900000000000000");
	layout_do("PEXPIRE t 30000");
	expect(LOCK_WAITING, acquire(&A, 'W', 1));
	expect(LOCK_GRANTED, acquire(&A, 'R', 2));
	expect(LOCK_DONE, release(&A, 'R', 2));
	assert_keys("t{J:1=900000000000000 mode=read}");
	assert_ttl("t", LEASE_MS);
}

/* ---- Release ------------------------------------------------------------------------------------*/

static void the_last_reader_frees_and_tells(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	expect(LOCK_GRANTED, acquire(&B, 'R', 1));
	expect(LOCK_GONE, release(&C, 'R', 1));
	assert_string_equal(layout_verdict, "nil");
	expect(LOCK_DONE, release(&A, 'R', 1));
	assert_string_equal(layout_verdict, "0");
	assert_keys("t{B.1=1 mode=read} " TIMEOUT("B.1", "1") "=1");
	assert_heard("");
	expect(LOCK_DONE, release(&B, 'R', 1));
	assert_string_equal(layout_verdict, "1");
	assert_keys("");
	assert_heard(CHANNEL " 0\n");
}

static void a_writer_frees_and_tells(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_GONE, release(&B, 'W', 1));
	assert_heard("");
	expect(LOCK_DONE, release(&A, 'W', 1));
	assert_string_equal(layout_verdict, "1");
	assert_keys("");
	assert_heard(CHANNEL " 1\n");
}

static void the_lock_lasts_as_long_as_its_longest_reader(void **state) {
	(void)state;
	struct lock_op op = layout_op(OP_ACQUIRE, 'R', 1);
	op.lease_ms = 600000;
	expect(LOCK_GRANTED, layout_run(&A, &op));
	expect(LOCK_GRANTED, acquire(&B, 'R', 1));
	expect(LOCK_DONE, release(&A, 'R', 1));
	assert_ttl("t", LEASE_MS);
}

static void only_dead_ones_left(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	layout_do("HSET t J:1 1");
	expect(LOCK_DONE, release(&A, 'R', 1));
	assert_string_equal(layout_verdict, "1");
	assert_keys("");
	assert_heard(CHANNEL " 0\n");
}

/* Of more than sixteen others a release looks at none, and leaves the hash its time. */
static void a_release_looks_at_few(void **state) {
	(void)state;
	for (int i = 1; i <= 17; i++)
		expect(LOCK_GRANTED, acquire(&B, 'R', (uint64_t)i));
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	layout_do("PEXPIRE t 600000");
	long before = layout_calls("pttl");
	expect(LOCK_DONE, release(&A, 'R', 1));
	assert_ttl("t", 600000);
	assert_in_range(layout_calls("pttl") - before, 0, 2);
	expect(LOCK_DONE, release(&B, 'R', 1)); /* sixteen are left */
	assert_ttl("t", LEASE_MS);
}

/* A read hold that died while others kept the hash alive was lost, and is removed. */
static void a_dead_hold_is_not_released_but_gone(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	expect(LOCK_GRANTED, acquire(&B, 'R', 1));
	layout_do("DEL " TIMEOUT("A.1", "1"));
	expect(LOCK_GONE, acquire(&A, 'R', 1));
	expect(LOCK_GONE, release(&A, 'R', 1));
	assert_keys("t{B.1=1 mode=read} " TIMEOUT("B.1", "1") "=1");
	layout_do("DEL " TIMEOUT("B.1", "1"));
	expect(LOCK_GONE, renew(&B, 'R', 1, 1, 0));
	assert_keys("");
	assert_heard(CHANNEL " 0\n");
}

/* ---- Renewal and counts -------------------------------------------------------------------------*/

static void every_read_hold_has_its_key(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	struct lock_op op = layout_op(OP_RENEW, 'R', 1);
	op.lease_ms = 1; /* tells the counts and lengthens nothing */
	op.reads = 3;
	layout_do("PEXPIRE " TIMEOUT("A.1", "1") " 20000");
	expect(LOCK_GRANTED, layout_run(&A, &op));
	assert_keys("t{A.1=3 mode=read} " TIMEOUT("A.1", "1") "=1 " TIMEOUT("A.1", "2") "=1 " TIMEOUT(
	        "A.1", "3") "=1");
	assert_ttl(TIMEOUT("A.1", "1"), 20000);
	assert_ttl(TIMEOUT("A.1", "3"), 20000);
	op.reads = 1;
	expect(LOCK_GRANTED, layout_run(&A, &op));
	expect(LOCK_GRANTED, layout_run(&A, &op));
	assert_keys("t{A.1=1 mode=read} " TIMEOUT("A.1", "1") "=1");
	expect(LOCK_GRANTED, renew(&A, 'R', 1, 2, 0));
	assert_ttl(TIMEOUT("A.1", "1"), LEASE_MS);
	expect(LOCK_DONE, release(&A, 'R', 1));
	assert_keys("");
}

static void a_writer_who_reads(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_GRANTED, renew(&A, 'W', 1, 2, 1));
	assert_keys("t{A.1:write=1 A.1=2 mode=write} " TIMEOUT("A.1", "1") "=1 " TIMEOUT("A.1", "2") "=1");
	expect(LOCK_GRANTED, renew(&A, 'W', 1, 1, 2));
	assert_keys("t{A.1:write=2 A.1=1 mode=write} " TIMEOUT("A.1", "1") "=1");
	expect(LOCK_GRANTED, renew(&A, 'W', 1, 0, 2));
	assert_keys("t{A.1:write=2 mode=write}");
	expect(LOCK_GRANTED, renew(&A, 'W', 1, 1, 1));
	expect(LOCK_DONE, release(&A, 'W', 1));
	assert_keys("");
	assert_heard(CHANNEL " 1\n");
}

static void a_renewal_is_for_our_own_holds(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	expect(LOCK_GRANTED, acquire(&B, 'R', 1));
	layout_do("PEXPIRE " TIMEOUT("B.1", "1") " 10000");
	layout_do("PEXPIRE t 600000");
	expect(LOCK_GRANTED, renew(&A, 'R', 1, 1, 0));
	assert_ttl(TIMEOUT("B.1", "1"), 10000);
	assert_ttl("t", 600000); /* never shorter */
	layout_do("PEXPIRE t 1000");
	layout_do("PEXPIRE " TIMEOUT("A.1", "1") " 600000");
	expect(LOCK_GRANTED, renew(&A, 'R', 1, 1, 0));
	assert_ttl(TIMEOUT("A.1", "1"), 600000);
	assert_ttl("t", 600000); /* what another's renewal had cut */
	layout_do("FLUSHALL");
	expect(LOCK_GONE, renew(&A, 'R', 1, 1, 0));
	expect(LOCK_GONE, renew(&A, 'W', 2, 0, 1));
	assert_keys("");
}

/* With two holds that read. */
static void in_a_cluster_channels_lie_in_slots(void **state) {
	(void)state;
	struct dialect_session session = A;
	session.sharded = true;
	long before = layout_calls("spublish");
	expect(LOCK_GRANTED, acquire(&session, 'R', 1));
	expect(LOCK_DONE, release(&session, 'R', 1));
	expect(LOCK_GRANTED, acquire(&session, 'W', 2));
	expect(LOCK_GRANTED, downgrade(&session, 3, 2));
	expect(LOCK_DONE, release(&session, 'R', 3));
	assert_heard(""); /* by plain channels */
	assert_int_equal(layout_calls("spublish") - before, 3);
}

static struct lock_outcome downgrade_two(
        const struct dialect_session *session, uint64_t attempt, uint64_t old) {
	struct lock_op op = layout_op(OP_DOWNGRADE, 'R', attempt);
	op.old = old;
	op.reads = 2;
	return layout_run(session, &op);
}

/* ---- Downgrade ----------------------------------------------------------------------------------*/

static void a_downgrade_wakes_readers(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_GRANTED, renew(&A, 'W', 1, 2, 1));
	layout_do("PEXPIRE t 600000");
	struct lock_outcome outcome = expect(LOCK_GRANTED, downgrade_two(&A, 2, 1));
	assert_true(outcome.deadline_ms - outcome.server_us / 1000 > LEASE_MS);
	assert_keys("t{A.2=2 mode=read} " TIMEOUT("A.2", "1") "=1 " TIMEOUT("A.2", "2") "=1");
	assert_ttl("t", 600000);
	assert_ttl(TIMEOUT("A.2", "2"), 600000);
	assert_heard(CHANNEL " 1\n");
	layout_do("PEXPIRE t 1000");
	layout_do("PEXPIRE " TIMEOUT("A.2", "1") " 1000");
	layout_do("PEXPIRE " TIMEOUT("A.2", "2") " 1000");
	expect(LOCK_GRANTED, downgrade_two(&A, 2, 1)); /* once more, for the whole lease */
	assert_ttl("t", LEASE_MS);
	assert_ttl(TIMEOUT("A.2", "2"), LEASE_MS);
	assert_heard("");
	expect(LOCK_GRANTED, acquire(&B, 'R', 1));
	expect(LOCK_GONE, downgrade(&B, 2, 7));
	expect(LOCK_DONE, release(&A, 'R', 2));
	assert_keys("t{B.1=1 mode=read} " TIMEOUT("B.1", "1") "=1");
}

/* ---- Late and repeated --------------------------------------------------------------------------*/

static void a_request_sent_twice_changes_nothing_twice(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	assert_keys("t{A.1=1 mode=read} " TIMEOUT("A.1", "1") "=1");
	/* Who asks again believes that it has the whole lease from then on. */
	layout_do("PEXPIRE t 1000");
	layout_do("PEXPIRE " TIMEOUT("A.1", "1") " 1000");
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	assert_ttl("t", LEASE_MS);
	assert_ttl(TIMEOUT("A.1", "1"), LEASE_MS);
	expect(LOCK_DONE, release(&A, 'R', 1));
	expect(LOCK_GRANTED, acquire(&A, 'W', 2));
	layout_do("PEXPIRE t 1000");
	expect(LOCK_GRANTED, acquire(&A, 'W', 2));
	assert_ttl("t", LEASE_MS);
	assert_keys("t{A.2:write=1 mode=write}");
}

static void the_buried_stay_dead(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	assert_true(expect(LOCK_DONE, withdraw(&A, 'R', 1)).released_grant);
	assert_heard(CHANNEL " 0\n");
	expect(LOCK_BURIED, acquire(&A, 'R', 1));
	expect(LOCK_BURIED, beat(&A, 'R', 1));
	expect(LOCK_GRANTED, acquire(&A, 'W', 2));
	expect(LOCK_BURIED, downgrade(&A, 1, 2));
	assert_keys("t{A.2:write=1 mode=write} {t}:sneck_buried:A.1=1");
	/* A downgrade that was answered to nobody: the release of the old name buries the new one. */
	expect(LOCK_GRANTED, downgrade(&A, 3, 2));
	struct lock_op op = layout_op(OP_RELEASE, 'W', 2);
	op.bury_n = 1;
	op.bury[0] = 3;
	expect(LOCK_GONE, layout_run(&A, &op));
	assert_keys("{t}:sneck_buried:A.1=1 {t}:sneck_buried:A.3=1");
	assert_heard(CHANNEL " 1\n" CHANNEL " 0\n");
}

/* ---- Bad input ----------------------------------------------------------------------------------*/

static void assert_refused(const char *keys) {
	assert_int_equal(expect(LOCK_FAILED, acquire(&A, 'R', 1)).code, SNECK_ETYPE);
	assert_int_equal(expect(LOCK_FAILED, acquire(&A, 'W', 1)).code, SNECK_ETYPE);
	assert_keys(keys);
}

static void other_layouts_are_refused(void **state) {
	(void)state;
	static const char *const bad[] = { "x", "-1", "0", "1.5", NULL };
	char keys[64];

	layout_do("SET t x");
	assert_refused("t=x");
	assert_int_equal(expect(LOCK_FAILED, release(&A, 'R', 1)).code, SNECK_ETYPE);
	assert_int_equal(expect(LOCK_FAILED, renew(&A, 'R', 1, 1, 0)).code, SNECK_ETYPE);
	assert_int_equal(expect(LOCK_FAILED, downgrade(&A, 2, 1)).code, SNECK_ETYPE);
	layout_do("DEL t");
	layout_do("HSET t J:7 1"); /* a mutex */
	assert_refused("t{J:7=1}");
	assert_int_equal(expect(LOCK_FAILED, release(&A, 'R', 1)).code, SNECK_ETYPE);
	layout_do("HSET t mode other");
	assert_refused("t{J:7=1 mode=other}");
	layout_do("HSET t mode read");
	for (size_t i = 0; bad[i]; i++) {
		layout_do("HSET t J:7 %s", bad[i]);
		snprintf(keys, sizeof keys, "t{J:7=%s mode=read}", bad[i]);
		assert_refused(keys);
	}
	assert_heard("");
}

static void names_with_braces_and_colons(void **state) {
	(void)state;
	layout_name = "{test}:abc:key";
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	assert_keys("{test}:abc:key:A.1:rwlock_timeout:1=1 {test}:abc:key{A.1=1 mode=read}");
	expect(LOCK_DONE, release(&A, 'R', 1));
	assert_keys("");
	assert_heard("redisson_rwlock:{test}:abc:key 0\n");
}

static void memory_is_full(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	layout_do("CONFIG SET maxmemory 1");
	assert_int_equal(expect(LOCK_FAILED, acquire(&B, 'R', 1)).code, SNECK_ESERVER);
	expect(LOCK_GRANTED, renew(&A, 'R', 1, 1, 0));
	expect(LOCK_DONE, withdraw(&A, 'R', 1));
	layout_do("CONFIG SET maxmemory 0");
	assert_keys("{t}:sneck_buried:A.1=1");
}

int main(void) {
	const struct CMUnitTest tests[] = {
		LAYOUT_HEARING_TEST(keys_of_a_reader),
		LAYOUT_HEARING_TEST(keys_of_a_writer),
		LAYOUT_HEARING_TEST(readers_share_and_writers_do_not),
		LAYOUT_HEARING_TEST(a_reader_who_joins_never_shortens),
		LAYOUT_HEARING_TEST(a_writer_passes_over_dead_readers),
		LAYOUT_HEARING_TEST(a_writer_looks_at_all_of_many),
		LAYOUT_HEARING_TEST(a_huge_count_costs_little),
		LAYOUT_HEARING_TEST(the_last_reader_frees_and_tells),
		LAYOUT_HEARING_TEST(a_writer_frees_and_tells),
		LAYOUT_HEARING_TEST(the_lock_lasts_as_long_as_its_longest_reader),
		LAYOUT_HEARING_TEST(only_dead_ones_left),
		LAYOUT_HEARING_TEST(a_release_looks_at_few),
		LAYOUT_HEARING_TEST(a_dead_hold_is_not_released_but_gone),
		LAYOUT_HEARING_TEST(every_read_hold_has_its_key),
		LAYOUT_HEARING_TEST(a_writer_who_reads),
		LAYOUT_HEARING_TEST(a_renewal_is_for_our_own_holds),
		LAYOUT_HEARING_TEST(a_downgrade_wakes_readers),
		LAYOUT_HEARING_TEST(in_a_cluster_channels_lie_in_slots),
		LAYOUT_HEARING_TEST(a_request_sent_twice_changes_nothing_twice),
		LAYOUT_HEARING_TEST(the_buried_stay_dead),
		LAYOUT_HEARING_TEST(other_layouts_are_refused),
		LAYOUT_HEARING_TEST(names_with_braces_and_colons),
		LAYOUT_HEARING_TEST(memory_is_full),
	};
	return cmocka_run_group_tests(tests, up, layout_down);
}
