/* SPDX-License-Identifier: MIT */
/* The counted layout on a real server, one operation at a time: every operation in every state that it can
 * meet, and again, because a request may arrive twice. What is on the server is compared exactly. */
#include "layout_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/counted/counted.h"

static void assert_left(int64_t least, int64_t most) {
	int64_t left = layout_pttl("t");
	if (left < least || left > most)
		fail_msg("the lock has %lld ms left, not %lld to %lld", (long long)left, (long long)least,
		        (long long)most);
}

/* ---- RLock and RUnLock ------------------------------------------------------------------------*/

static void the_first_reader_makes_the_lock(void **state) {
	(void)state;
	struct lock_outcome got = expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	assert_keys("t{mode=read r:A.1=1 rcount=1}");
	assert_left(LEASE_MS - 1000, LEASE_MS);
	assert_int_equal(got.deadline_ms - got.server_us / 1000, LEASE_MS);
	assert_int_equal(got.token, 0);
	assert_string_equal(layout_verdict, "1 30000");
}

static void readers_share_and_are_counted(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	expect(LOCK_GRANTED, acquire(&B, 'R', 1));
	assert_keys("t{mode=read r:A.1=1 r:B.1=1 rcount=2}");
	expect(LOCK_GRANTED, acquire(&A, 'R', 1)); /* the same request again */
	expect(LOCK_GRANTED, beat(&A, 'R', 1));
	assert_keys("t{mode=read r:A.1=1 r:B.1=1 rcount=2}");
	expect(LOCK_DONE, release(&A, 'R', 1));
	assert_int_equal(layout_verdict[0], '1');
	assert_keys("t{mode=read r:B.1=1 rcount=1}");
	expect(LOCK_GONE, release(&A, 'R', 1));
	assert_int_equal(layout_verdict[0], '0');
	assert_keys("t{mode=read r:B.1=1 rcount=1}");
	expect(LOCK_DONE, release(&B, 'R', 1));
	assert_keys("");
}

static void a_reader_waits_for_a_writer(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	struct lock_outcome got = expect(LOCK_WAITING, acquire(&B, 'R', 1));
	assert_int_equal(got.holder_mode, 'W');
	assert_in_range(got.holder_deadline_ms - got.server_us / 1000, LEASE_MS - 1000, LEASE_MS);
	assert_int_equal(layout_verdict[0], '0');
	expect(LOCK_BUSY, try_acquire(&B, 'R', 1));
	expect(LOCK_WAITING, beat(&B, 'R', 1));
	assert_keys("t{mode=write wcount=1 writer=A.1}");
}

static void what_a_waiter_asks_for_again_it_gets(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_WAITING, acquire(&B, 'W', 1));
	expect(LOCK_DONE, release(&A, 'W', 1));
	expect(LOCK_GRANTED, beat(&B, 'W', 1));
	assert_keys("t{mode=write wcount=1 writer=B.1}");
}

/* ---- WLock and WUnLock ------------------------------------------------------------------------*/

static void a_writer_is_alone(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	assert_keys("t{mode=write wcount=1 writer=A.1}");
	assert_left(LEASE_MS - 1000, LEASE_MS);
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_WAITING, acquire(&B, 'W', 1));
	expect(LOCK_WAITING, acquire(&A, 'W', 2)); /* another attempt is another owner */
	expect(LOCK_GONE, release(&B, 'W', 1));
	assert_keys("t{mode=write wcount=1 writer=A.1}");
	expect(LOCK_DONE, release(&A, 'W', 1));
	assert_keys("");
	expect(LOCK_GONE, release(&A, 'W', 1));
	assert_keys("");
}

static void a_writer_waits_for_readers(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	struct lock_outcome got = expect(LOCK_WAITING, acquire(&B, 'W', 1));
	assert_int_equal(got.holder_mode, 'R');
	assert_memory_equal(got.holder, "aaaaaaaa-", 9);
	expect(LOCK_BUSY, try_acquire(&B, 'W', 1));
	assert_keys("t{mode=read r:A.1=1 rcount=1}");
}

/* ---- Counts -----------------------------------------------------------------------------------*/

static void counts_are_told_as_they_are(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_GRANTED, renew(&A, 'W', 1, 2, 3));
	assert_keys("t{mode=write r:A.1=2 rcount=2 wcount=3 writer=A.1}");
	expect(LOCK_GRANTED, renew(&A, 'W', 1, 2, 3));
	expect(LOCK_GRANTED, renew(&A, 'W', 1, 1, 1));
	assert_keys("t{mode=write r:A.1=1 rcount=1 wcount=1 writer=A.1}");
	expect(LOCK_GRANTED, renew(&A, 'W', 1, 0, 1));
	assert_keys("t{mode=write wcount=1 writer=A.1}"); /* rcount goes with the last read */
	expect(LOCK_GRANTED, renew(&A, 'W', 1, 4, 1));
	expect(LOCK_DONE, release(&A, 'W', 1));
	assert_keys("");
}

static void readers_counts_add_up(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	expect(LOCK_GRANTED, acquire(&B, 'R', 1));
	expect(LOCK_GRANTED, renew(&A, 'R', 1, 3, 0));
	assert_keys("t{mode=read r:A.1=3 r:B.1=1 rcount=4}");
	expect(LOCK_GRANTED, renew(&A, 'R', 1, 2, 0));
	assert_keys("t{mode=read r:A.1=2 r:B.1=1 rcount=3}");
	expect(LOCK_DONE, release(&A, 'R', 1));
	assert_keys("t{mode=read r:B.1=1 rcount=1}");
}

/* ---- RRenew and WRenew ------------------------------------------------------------------------*/

static void renewal_is_for_holders_alone(void **state) {
	(void)state;
	expect(LOCK_GONE, renew(&A, 'R', 1, 1, 0));
	expect(LOCK_GONE, renew(&A, 'W', 1, 0, 1));
	assert_keys("");
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	layout_do("PEXPIRE t 5000");
	expect(LOCK_GONE, renew(&B, 'R', 1, 1, 0));
	expect(LOCK_GONE, renew(&A, 'W', 1, 0, 1));
	assert_int_equal(layout_verdict[0], '0');
	assert_left(1, 5000);
	expect(LOCK_GRANTED, renew(&A, 'R', 1, 1, 0));
	assert_string_equal(layout_verdict, "1 30000");
	assert_left(LEASE_MS - 1000, LEASE_MS);
	assert_keys("t{mode=read r:A.1=1 rcount=1}");
}

static void nothing_makes_the_lock_shorter(void **state) {
	(void)state;
	struct lock_op op = layout_op(OP_ACQUIRE, 'R', 1);
	op.lease_ms = 90000;
	struct lock_outcome got = expect(LOCK_GRANTED, layout_run(&A, &op));
	expect(LOCK_GRANTED, acquire(&B, 'R', 1));
	assert_left(89000, 90000);
	got = expect(LOCK_GRANTED, renew(&B, 'R', 1, 1, 0));
	assert_in_range(got.deadline_ms - got.server_us / 1000, 89000, 90000);
	assert_left(89000, 90000);
}

/* ---- Upgrade and downgrade --------------------------------------------------------------------*/

static void a_sole_reader_becomes_the_writer(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	expect(LOCK_GRANTED, renew(&A, 'R', 1, 2, 0));
	layout_do("PEXPIRE t 5000");
	expect(LOCK_GRANTED, upgrade(&A, 2, 1));
	assert_keys("t{mode=write r:A.2=2 rcount=2 wcount=1 writer=A.2}");
	assert_left(LEASE_MS - 1000, LEASE_MS);
	expect(LOCK_GRANTED, upgrade(&A, 2, 1)); /* again */
	assert_keys("t{mode=write r:A.2=2 rcount=2 wcount=1 writer=A.2}");
	expect(LOCK_GRANTED, downgrade(&A, 3, 2));
	assert_keys("t{mode=read r:A.3=1 rcount=1}");
	expect(LOCK_GRANTED, downgrade(&A, 3, 2));
	assert_keys("t{mode=read r:A.3=1 rcount=1}");
	expect(LOCK_GONE, upgrade(&A, 4, 2));
	expect(LOCK_GONE, downgrade(&A, 4, 2));
	expect(LOCK_DONE, release(&A, 'R', 3));
	expect(LOCK_GRANTED, acquire(&A, 'W', 5));
	expect(LOCK_GONE, downgrade(&B, 6, 5)); /* another's */
	assert_keys("t{mode=write wcount=1 writer=A.5}");
}

static void an_upgrade_waits_for_other_readers(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	expect(LOCK_GRANTED, acquire(&B, 'R', 1));
	struct lock_op op = layout_op(OP_UPGRADE, 'W', 2);
	op.old = 1;
	op.queue = false;
	expect(LOCK_BUSY, layout_run(&A, &op));
	assert_keys("t{mode=read r:A.1=1 r:B.1=1 rcount=2}");
	expect(LOCK_WAITING, upgrade(&A, 2, 1));
	assert_keys("t{mode=read r:A.1=1 r:B.1=1 rcount=2} {t}:sneck_upgrader=A.2");
	assert_in_range(layout_pttl("{t}:sneck_upgrader"), 1, WAIT_LEASE_MS);
	expect(LOCK_DEADLOCK, upgrade(&B, 2, 1)); /* it would wait for A, and A for it */
	expect(LOCK_DONE, release(&B, 'R', 1));
	op.kind = OP_BEAT;
	expect(LOCK_GRANTED, layout_run(&A, &op));
	assert_keys("t{mode=write r:A.2=1 rcount=1 wcount=1 writer=A.2}");
}

static void an_upgrade_beside_reads_of_its_own_session(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	expect(LOCK_GRANTED, acquire(&A, 'R', 2));
	struct lock_op op = layout_op(OP_UPGRADE, 'W', 3);
	op.old = 1;
	op.own_n = 1;
	op.own[0] = 2;
	expect(LOCK_GRANTED, layout_run(&A, &op));
	assert_keys("t{mode=write r:A.2=1 r:A.3=1 rcount=2 wcount=1 writer=A.3}");
	expect(LOCK_DONE, release(&A, 'W', 3));
	assert_keys("t{mode=read r:A.2=1 rcount=1}"); /* back to read mode */
	op.attempt = 5;
	op.old = 4;
	expect(LOCK_GRANTED, acquire(&A, 'R', 4));
	expect(LOCK_GRANTED, layout_run(&A, &op));
	expect(LOCK_GRANTED, renew(&A, 'W', 5, 0, 1));
	assert_keys("t{mode=write r:A.2=1 rcount=1 wcount=1 writer=A.5}");
	layout_listen();
	expect(LOCK_DONE, release(&A, 'R', 2));
	assert_keys("t{mode=write wcount=1 writer=A.5}"); /* the last read goes, the write stays */
	assert_string_equal(layout_heard(), "");
}

static void an_upgrade_that_is_given_up(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	expect(LOCK_GRANTED, acquire(&B, 'R', 1));
	expect(LOCK_WAITING, upgrade(&A, 2, 1));
	struct lock_outcome got = expect(LOCK_DONE, upgrade_cancel(&A, 2, 1));
	assert_false(got.released_grant);
	assert_keys("t{mode=read r:A.1=1 r:B.1=1 rcount=2}");
	expect(LOCK_DONE, release(&B, 'R', 1));
	expect(LOCK_GRANTED, upgrade(&A, 3, 1));
	struct lock_op op = layout_op(OP_CANCEL, 'W', 3);
	op.old = 1;
	op.bury_n = 2;
	op.bury[0] = 2;
	op.bury[1] = 3;
	got = expect(LOCK_DONE, layout_run(&A, &op)); /* too late: it is kept */
	assert_true(got.released_grant);
	assert_keys("t{mode=write r:A.3=1 rcount=1 wcount=1 writer=A.3} {t}:sneck_buried:A.2=1");
	layout_do("DEL t");
	expect(LOCK_GONE, upgrade_cancel(&A, 3, 1));
}

static void another_ones_mark_stays(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	expect(LOCK_GRANTED, acquire(&B, 'R', 1));
	expect(LOCK_WAITING, upgrade(&A, 2, 1));
	expect(LOCK_DONE, upgrade_cancel(&B, 2, 1));
	expect(LOCK_DONE, cancel(&B, 'W', 3));
	assert_keys("t{mode=read r:A.1=1 r:B.1=1 rcount=2} {t}:sneck_upgrader=A.2");
}

/* ---- Cancel and burial ------------------------------------------------------------------------*/

static void a_cancel_gives_back_what_was_granted(void **state) {
	(void)state;
	struct lock_outcome got = expect(LOCK_DONE, cancel(&A, 'W', 1));
	assert_false(got.released_grant);
	assert_keys("");
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	expect(LOCK_GRANTED, acquire(&B, 'R', 1));
	got = expect(LOCK_DONE, cancel(&A, 'R', 1));
	assert_true(got.released_grant);
	assert_keys("t{mode=read r:B.1=1 rcount=1}");
}

static void what_was_buried_does_not_come_to_life(void **state) {
	(void)state;
	expect(LOCK_DONE, withdraw(&A, 'W', 1));
	assert_keys("{t}:sneck_buried:A.1=1");
	assert_in_range(layout_pttl("{t}:sneck_buried:A.1"), BURY_MS - 1000, BURY_MS);
	expect(LOCK_BURIED, acquire(&A, 'W', 1));
	expect(LOCK_BURIED, beat(&A, 'W', 1));
	expect(LOCK_BURIED, upgrade(&A, 1, 2));
	expect(LOCK_BURIED, downgrade(&A, 1, 2));
	assert_keys("{t}:sneck_buried:A.1=1");
	expect(LOCK_GRANTED, acquire(&A, 'W', 2));
}

static void a_release_buries_what_was_left_behind(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	expect(LOCK_GRANTED, acquire(&A, 'R', 2)); /* a late copy that nobody owns */
	struct lock_op op = layout_op(OP_RELEASE, 'R', 1);
	op.bury_n = 1;
	op.bury[0] = 2;
	expect(LOCK_DONE, layout_run(&A, &op));
	assert_keys("{t}:sneck_buried:A.2=1");
}

/* ---- Messages ---------------------------------------------------------------------------------*/

static void a_hint_comes_when_somebody_may_have_a_turn(void **state) {
	(void)state;
	layout_listen();
	for (uint64_t i = 1; i <= 4; i++)
		expect(LOCK_GRANTED, acquire(&A, 'R', i));
	assert_string_equal(layout_heard(), "");
	expect(LOCK_DONE, release(&A, 'R', 1));
	expect(LOCK_DONE, release(&A, 'R', 2));
	assert_string_equal(layout_heard(), "");
	expect(LOCK_DONE, release(&A, 'R', 3)); /* the one that is left may wait to write */
	assert_string_equal(layout_heard(), "{t}:sneck_hint free\n");
	expect(LOCK_DONE, release(&A, 'R', 4));
	assert_string_equal(layout_heard(), "{t}:sneck_hint free\n");
	expect(LOCK_GONE, release(&A, 'R', 4));
	assert_string_equal(layout_heard(), "");
	expect(LOCK_GRANTED, acquire(&A, 'W', 5));
	expect(LOCK_GRANTED, downgrade(&A, 6, 5));
	assert_string_equal(layout_heard(), "{t}:sneck_hint free\n");
	expect(LOCK_DONE, cancel(&A, 'R', 6));
	assert_string_equal(layout_heard(), "{t}:sneck_hint free\n");
	assert_true(layout_dialect->says_free("free", 4));
	assert_false(layout_dialect->says_free("1", 1));
}

/* ---- Bad input --------------------------------------------------------------------------------*/

static void assert_refused_everywhere(const char *keys) {
	const enum lock_op_kind kinds[] = { OP_ACQUIRE, OP_BEAT, OP_RELEASE, OP_RENEW, OP_UPGRADE,
		OP_DOWNGRADE, OP_CANCEL };
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
		for (int mode = 0; mode < 2; mode++) {
			struct lock_op op = layout_op(kinds[i], mode ? 'W' : 'R', 1);
			op.old = kinds[i] == OP_UPGRADE || kinds[i] == OP_DOWNGRADE ? 2 : 0;
			op.bury_n = kinds[i] == OP_RELEASE || kinds[i] == OP_CANCEL;
			op.bury[0] = 1;
			struct lock_outcome got = expect(LOCK_FAILED, layout_run(&A, &op));
			assert_int_equal(got.code, SNECK_ETYPE);
			assert_keys(keys);
		}
	assert_int_equal(layout_break("WA.1"), SNECK_ETYPE);
	assert_keys(keys);
}

static void foreign_keys_are_not_touched(void **state) {
	(void)state;
	static const char *const foreign[][2] = {
		{ "RPUSH t x", "t[x]" },
		{ "SET t x", "t=x" },
		{ "HSET t mode read x 1", "t{mode=read x=1}" },
		{ "HSET t A.1 1", "t{A.1=1}" }, /* a mutex */
		{ "HSET t mode write A.1:write 1", "t{A.1:write=1 mode=write}" },
		{ "HSET t mode read rcount 1 r:A.1 1 other 1", "t{mode=read other=1 r:A.1=1 rcount=1}" },
		{ "HSET t mode read rcount 2 r:A.1 1", "t{mode=read r:A.1=1 rcount=2}" },
		{ "HSET t mode read rcount -1 r:A.1 1", "t{mode=read r:A.1=1 rcount=-1}" },
		{ "HSET t mode read rcount one r:A.1 1", "t{mode=read r:A.1=1 rcount=one}" },
		{ "HSET t mode read rcount 1 r:A.1 0 r:B.1 1", "t{mode=read r:A.1=0 r:B.1=1 rcount=1}" },
		{ "HSET t mode read rcount 1 r:A.1 1 writer A.1",
		        "t{mode=read r:A.1=1 rcount=1 writer=A.1}" },
		{ "HSET t mode write writer A.1", "t{mode=write writer=A.1}" },
		{ "HSET t mode write writer A.1 wcount -2", "t{mode=write wcount=-2 writer=A.1}" },
		{ "HSET t mode write wcount 1", "t{mode=write wcount=1}" },
		{ "HSET t mode other writer A.1 wcount 1", "t{mode=other wcount=1 writer=A.1}" },
		{ "HSET t writer A.1 wcount 1", "t{wcount=1 writer=A.1}" },
	};
	for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
		layout_do("FLUSHALL");
		layout_do("%s", foreign[i][0]);
		assert_refused_everywhere(foreign[i][1]);
	}
}

/* Not every field of a large lock is looked at, but more of them than readers are too many. */
static void a_large_lock_with_strange_fields(void **state) {
	(void)state;
	layout_do("HSET t mode read rcount 100");
	for (int i = 1; i <= 100; i++) {
		char command[32];
		snprintf(command, sizeof command, "HSET t r:x%d 1", i);
		layout_do("%s", command);
	}
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	assert_int_equal(layout_do("HLEN t"), 103);
	layout_do("HSET t strange 1");
	struct lock_outcome got = expect(LOCK_FAILED, acquire(&B, 'R', 1));
	assert_int_equal(got.code, SNECK_ETYPE);
	assert_int_equal(layout_do("HLEN t"), 104);
}

/* ---- When memory is full ----------------------------------------------------------------------*/

static void what_works_when_memory_is_full(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	expect(LOCK_GRANTED, acquire(&B, 'R', 1));
	layout_do("CONFIG SET maxmemory 1");
	expect(LOCK_FAILED, acquire(&C, 'R', 1));
	assert_keys("t{mode=read r:A.1=1 r:B.1=1 rcount=2}");
	expect(LOCK_GRANTED, renew(&A, 'R', 1, 2, 0));
	assert_keys("t{mode=read r:A.1=2 r:B.1=1 rcount=3}");
	expect(LOCK_DONE, withdraw(&C, 'W', 1));
	expect(LOCK_DONE, release(&B, 'R', 1));
	expect(LOCK_GRANTED, upgrade(&A, 2, 1));
	expect(LOCK_GRANTED, downgrade(&A, 3, 2));
	expect(LOCK_DONE, release(&A, 'R', 3));
	assert_keys("{t}:sneck_buried:C.1=1");
}

/* ---- Names, people ----------------------------------------------------------------------------*/

static void names_with_braces(void **state) {
	(void)state;
	struct lock_op op = layout_op(OP_CANCEL, 'W', 1);
	op.bury_n = 1;
	op.bury[0] = 1;
	expect(LOCK_DONE, layout_run_name(&A, &op, "a{b}:c"));
	assert_keys("a{b}:c:sneck_buried:A.1=1");
	struct dialect_session with_prefix = A;
	with_prefix.prefix = "app:";
	op = layout_op(OP_ACQUIRE, 'W', 2);
	expect(LOCK_GRANTED, layout_run_name(&with_prefix, &op, "x"));
	assert_keys("app:x{mode=write wcount=1 writer=A.2} a{b}:c:sneck_buried:A.1=1");
}

static void owners_are_uuids(void **state) {
	(void)state;
	struct dialect_session session = A;
	char owner[COUNTED_OWNER_MAX + 1], other[COUNTED_OWNER_MAX + 1];
	session.uuid = "01234567-89ab-4def-bfff-0123456789ab";
	snecki_counted_owner(&session, 1, owner);
	assert_string_equal(owner, "01234567-89ab-4def-bfff-0123456789aa");
	snecki_counted_owner(&session, (UINT64_C(1) << 62) - 1, other);
	assert_string_equal(other, "01234567-89ab-4def-8000-fedcba987654");
}

static void it_can_be_looked_at(void **state) {
	(void)state;
	sneck_lock_info info = layout_inspect("t");
	assert_int_equal(info.holder_n, 0);
	assert_int_equal(info.mode, 0);
	free(info.parties);
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	expect(LOCK_GRANTED, renew(&A, 'R', 1, 3, 0));
	info = layout_inspect("t");
	assert_int_equal(info.mode, SNECK_READ);
	assert_int_equal(info.party_n, 1);
	assert_string_equal(info.parties[0].session, "aaaaaaaa-0000-4000-8000-000000000001");
	assert_string_equal(info.parties[0].note, "3 holds");
	assert_in_range(info.parties[0].lease_left_ms, LEASE_MS - 1000, LEASE_MS);
	free(info.parties);
	expect(LOCK_GRANTED, upgrade(&A, 2, 1));
	info = layout_inspect("t");
	assert_int_equal(info.holder_n, 1);
	assert_int_equal(info.parties[0].mode, SNECK_WRITE);
	assert_string_equal(info.parties[0].id, "Waaaaaaaa-0000-4000-8000-000000000002");
	free(info.parties);
}

static void it_can_be_broken(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	expect(LOCK_GRANTED, acquire(&B, 'R', 1));
	assert_int_equal(layout_break("WA.1"), SNECK_ENOTHELD);
	assert_int_equal(layout_break("RC.1"), SNECK_ENOTHELD);
	layout_listen();
	assert_int_equal(layout_break("RA.1"), 0);
	assert_string_equal(layout_heard(), "{t}:sneck_hint free\n");
	assert_keys("t{mode=read r:B.1=1 rcount=1} {t}:sneck_buried:A.1=1");
	expect(LOCK_GONE, renew(&A, 'R', 1, 1, 0));
	expect(LOCK_BURIED, acquire(&A, 'R', 1));
}

static void what_the_layout_has_no_place_for(void **state) {
	(void)state;
	struct buf out = BUF_INIT;
	struct lock_op op = layout_op(OP_RENAME, 'R', 1);
	assert_int_equal(snecki_counted.encode(&A, &op, "t", 1, false, &out), SNECK_ENOTSUP);
	op.kind = OP_ADVANCE;
	assert_int_equal(snecki_counted.encode(&A, &op, "t", 1, false, &out), SNECK_ENOTSUP);
	assert_int_equal(snecki_counted.encode_break(&A, "t", 1, "RA.1", 1, "", false, &out), SNECK_ENOTSUP);
	assert_int_equal(out.len, 0);
	snecki_buf_done(&out);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		LAYOUT_TEST(the_first_reader_makes_the_lock),
		LAYOUT_TEST(readers_share_and_are_counted),
		LAYOUT_TEST(a_reader_waits_for_a_writer),
		LAYOUT_TEST(what_a_waiter_asks_for_again_it_gets),
		LAYOUT_TEST(a_writer_is_alone),
		LAYOUT_TEST(a_writer_waits_for_readers),
		LAYOUT_TEST(counts_are_told_as_they_are),
		LAYOUT_TEST(readers_counts_add_up),
		LAYOUT_TEST(renewal_is_for_holders_alone),
		LAYOUT_TEST(nothing_makes_the_lock_shorter),
		LAYOUT_TEST(a_sole_reader_becomes_the_writer),
		LAYOUT_TEST(an_upgrade_waits_for_other_readers),
		LAYOUT_TEST(an_upgrade_beside_reads_of_its_own_session),
		LAYOUT_TEST(an_upgrade_that_is_given_up),
		LAYOUT_TEST(another_ones_mark_stays),
		LAYOUT_TEST(a_cancel_gives_back_what_was_granted),
		LAYOUT_TEST(what_was_buried_does_not_come_to_life),
		LAYOUT_TEST(a_release_buries_what_was_left_behind),
		LAYOUT_TEST(a_hint_comes_when_somebody_may_have_a_turn),
		LAYOUT_TEST(foreign_keys_are_not_touched),
		LAYOUT_TEST(a_large_lock_with_strange_fields),
		LAYOUT_TEST(what_works_when_memory_is_full),
		LAYOUT_TEST(names_with_braces),
		LAYOUT_TEST(owners_are_uuids),
		LAYOUT_TEST(it_can_be_looked_at),
		LAYOUT_TEST(it_can_be_broken),
		LAYOUT_TEST(what_the_layout_has_no_place_for),
	};
	layout_dialect = &snecki_counted;
	return cmocka_run_group_tests(tests, layout_up, layout_down);
}
