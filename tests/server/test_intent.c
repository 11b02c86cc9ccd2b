/* SPDX-License-Identifier: MIT */
/* The intent layout on a real server, one operation at a time: every operation in every state that it can
 * meet, and again, because a request may arrive twice. What is on the server, what was published and what
 * the document returns are compared exactly. */
#include "layout_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dialect/intent/intent.h"

#define TIMEOUT(owner, n) "{t}:" owner ":rwlock_timeout:" n
#define READS(owner, n) "t{" owner "=" n " mode=read}"

static void assert_left(const char *key, int64_t least, int64_t most) {
	int64_t left = layout_pttl(key);
	if (left < least || left > most)
		fail_msg("%s has %lld ms left, not %lld to %lld", key, (long long)left, (long long)least,
		        (long long)most);
}

static void assert_verdict(const char *verdict) {
	assert_string_equal(layout_verdict, verdict);
}

/* Ends the read hold of an owner, as time would. */
static void end_hold(const char *owner) {
	char command[128];
	snprintf(command, sizeof command, "DEL {t}:%s:rwlock_timeout:1", owner);
	assert_int_equal(layout_do("%s", command), 1);
}

/* ---- Taking and giving back a read hold -------------------------------------------------------*/

static void the_first_reader_makes_the_lock(void **state) {
	(void)state;
	struct lock_outcome got = expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	assert_verdict("OK");
	assert_keys("t{A.1=1 mode=read} " TIMEOUT("A.1", "1") "=1");
	assert_left("t", LEASE_MS - 1000, LEASE_MS);
	assert_left(TIMEOUT("A.1", "1"), LEASE_MS - 1000, LEASE_MS);
	assert_int_equal(got.deadline_ms - got.server_us / 1000, LEASE_MS);
	assert_int_equal(got.token, 0);
}

static void readers_share_and_each_has_its_timeout(void **state) {
	(void)state;
	struct lock_op op = layout_op(OP_ACQUIRE, 'R', 1);
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	op.lease_ms = 5000;
	expect(LOCK_GRANTED, layout_run(&B, &op)); /* never makes the lock shorter */
	assert_keys("t{A.1=1 B.1=1 mode=read} " TIMEOUT("A.1", "1") "=1 " TIMEOUT("B.1", "1") "=1");
	assert_left("t", LEASE_MS - 1000, LEASE_MS);
	assert_left(TIMEOUT("B.1", "1"), 4000, 5000);
	layout_listen();
	expect(LOCK_DONE, release(&A, 'R', 1));
	assert_verdict("0");
	assert_keys("t{B.1=1 mode=read} " TIMEOUT("B.1", "1") "=1");
	assert_left("t", 3000, 5000); /* what the longest that is left has */
	assert_string_equal(layout_heard(), "");
	expect(LOCK_GONE, release(&A, 'R', 1));
	assert_verdict("2");
	expect(LOCK_DONE, release(&B, 'R', 1));
	assert_verdict("1");
	assert_keys("");
	assert_string_equal(layout_heard(), "{t}:channel B.1_del_read\n");
	expect(LOCK_GONE, release(&B, 'R', 1));
	assert_verdict("3");
	assert_keys("");
	assert_string_equal(layout_heard(), "");
}

static void a_read_request_that_comes_twice_counts_once(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	layout_do("PEXPIRE " TIMEOUT("A.1", "1") " 5000");
	layout_do("PEXPIRE t 6000");
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	expect(LOCK_GRANTED, beat(&A, 'R', 1));
	assert_keys("t{A.1=1 mode=read} " TIMEOUT("A.1", "1") "=1");
	assert_left(TIMEOUT("A.1", "1"), LEASE_MS - 1000, LEASE_MS); /* it is believed from then on */
	assert_left("t", LEASE_MS - 1000, LEASE_MS);
}

static void a_read_hold_that_died_is_not_granted_again(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	end_hold("A.1");
	expect(LOCK_GONE, acquire(&A, 'R', 1));
	expect(LOCK_GONE, renew(&A, 'R', 1, 1, 0));
	expect(LOCK_GONE, release(&A, 'R', 1));
	assert_verdict("1");
	assert_keys("");
}

static void a_read_release_while_somebody_writes(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_GONE, release(&A, 'R', 1));
	assert_verdict("-1");
	expect(LOCK_GONE, release(&B, 'R', 1));
	assert_verdict("-1");
	assert_keys("t{A.1=1 mode=write}");
}

static void a_reader_waits_for_a_writer(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	struct lock_outcome got = expect(LOCK_WAITING, acquire(&B, 'R', 1));
	assert_int_equal(got.holder_mode, 'W');
	assert_in_range(got.holder_deadline_ms - got.server_us / 1000, LEASE_MS - 1000, LEASE_MS);
	assert_in_range(strtol(layout_verdict, NULL, 10), LEASE_MS - 1000, LEASE_MS);
	expect(LOCK_BUSY, try_acquire(&B, 'R', 1));
	expect(LOCK_WAITING, beat(&B, 'R', 1));
	assert_keys("t{A.1=1 mode=write}");
	expect(LOCK_DONE, release(&A, 'W', 1));
	expect(LOCK_GRANTED, beat(&B, 'R', 1));
}

/* ---- Writers, and their mark ------------------------------------------------------------------*/

static void a_writer_is_alone(void **state) {
	(void)state;
	layout_listen();
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	assert_verdict("OK");
	assert_keys("t{A.1=1 mode=write}");
	assert_left("t", LEASE_MS - 1000, LEASE_MS);
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	assert_keys("t{A.1=1 mode=write}");
	expect(LOCK_WAITING, acquire(&B, 'W', 1));
	assert_verdict("2");
	expect(LOCK_WAITING, acquire(&A, 'W', 2)); /* another attempt is another owner */
	assert_verdict("2");
	expect(LOCK_GONE, release(&B, 'W', 1));
	assert_verdict("-1");
	assert_keys("t{A.1=1 mode=write}"); /* no mark while somebody writes */
	expect(LOCK_DONE, release(&A, 'W', 1));
	assert_verdict("1");
	assert_keys("");
	assert_string_equal(layout_heard(), "{t}:channel A.1_del_write\n");
	expect(LOCK_GONE, release(&A, 'W', 1));
	assert_verdict("-1");
	assert_string_equal(layout_heard(), "");
}

static void a_waiting_writer_leaves_a_mark(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	struct lock_outcome got = expect(LOCK_WAITING, acquire(&B, 'W', 1));
	assert_verdict("1");
	assert_int_equal(got.holder_mode, 'R');
	assert_memory_equal(got.holder, "aaaaaaaa-", 9);
	assert_keys(READS("A.1", "1") " " TIMEOUT("A.1", "1") "=1 {t}:wait_write=B.1");
	assert_left("{t}:wait_write", 1, WAIT_LEASE_MS);
	layout_do("PEXPIRE {t}:wait_write 500");
	expect(LOCK_WAITING, acquire(&C, 'W', 1)); /* another's mark stays as it is */
	assert_verdict("2");
	assert_left("{t}:wait_write", 1, 500);
	expect(LOCK_WAITING, beat(&B, 'W', 1)); /* its own is refreshed */
	assert_verdict("2");
	assert_left("{t}:wait_write", WAIT_LEASE_MS - 1000, WAIT_LEASE_MS);
	assert_keys(READS("A.1", "1") " " TIMEOUT("A.1", "1") "=1 {t}:wait_write=B.1");
}

static void new_readers_are_refused_while_the_mark_stands(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	expect(LOCK_WAITING, acquire(&B, 'W', 1));
	struct lock_outcome got = expect(LOCK_WAITING, acquire(&C, 'R', 1));
	assert_in_range(strtol(layout_verdict, NULL, 10), LEASE_MS - 1000, LEASE_MS);
	assert_int_equal(got.holder_mode, 'W');
	assert_memory_equal(got.holder, "bbbbbbbb-", 9);
	expect(LOCK_BUSY, try_acquire(&A, 'R', 2)); /* one who reads already is no exception */
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));  /* the same hold asked for again is */
	expect(LOCK_DONE, release(&A, 'R', 1));
	assert_verdict("1");
	expect(LOCK_WAITING, acquire(&C, 'R', 1));
	assert_verdict("-2"); /* there is no lock, but a mark */
	expect(LOCK_WAITING, acquire(&C, 'W', 2));
	assert_verdict("-1"); /* the first writer to wait comes first */
	assert_keys("{t}:wait_write=B.1");
	expect(LOCK_GRANTED, beat(&B, 'W', 1));
	assert_keys("t{B.1=1 mode=write}"); /* with the lock goes the mark */
}

static void who_does_not_wait_leaves_no_mark(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	expect(LOCK_BUSY, try_acquire(&B, 'W', 1));
	assert_verdict("2");
	assert_keys(READS("A.1", "1") " " TIMEOUT("A.1", "1") "=1");
}

static void giving_up_removes_the_own_mark(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	expect(LOCK_WAITING, acquire(&B, 'W', 1));
	expect(LOCK_DONE, cancel(&C, 'W', 1)); /* another's stays */
	assert_keys(READS("A.1", "1") " " TIMEOUT("A.1", "1") "=1 {t}:wait_write=B.1");
	struct lock_outcome got = expect(LOCK_DONE, cancel(&B, 'W', 1));
	assert_false(got.released_grant);
	assert_keys(READS("A.1", "1") " " TIMEOUT("A.1", "1") "=1");
	expect(LOCK_GRANTED, acquire(&C, 'R', 1));
}

static void a_cancel_gives_back_what_was_granted(void **state) {
	(void)state;
	layout_listen();
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	struct lock_outcome got = expect(LOCK_DONE, cancel(&A, 'W', 1));
	assert_true(got.released_grant);
	assert_string_equal(layout_heard(), "{t}:channel A.1_del_write\n");
	expect(LOCK_GRANTED, acquire(&A, 'R', 2));
	got = expect(LOCK_DONE, cancel(&A, 'R', 2));
	assert_true(got.released_grant);
	assert_string_equal(layout_heard(), "{t}:channel A.2_del_read\n");
	assert_keys("");
}

/* ---- Renewal and counts -----------------------------------------------------------------------*/

static void a_renewal_is_for_the_own_hold_alone(void **state) {
	(void)state;
	expect(LOCK_GONE, renew(&A, 'R', 1, 1, 0));
	expect(LOCK_GONE, renew(&A, 'W', 1, 0, 1));
	assert_keys("");
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	expect(LOCK_GRANTED, acquire(&B, 'R', 1));
	layout_do("PEXPIRE t 5000");
	layout_do("PEXPIRE " TIMEOUT("A.1", "1") " 5000");
	layout_do("PEXPIRE " TIMEOUT("B.1", "1") " 5000");
	expect(LOCK_GONE, renew(&C, 'R', 1, 1, 0));
	expect(LOCK_GONE, renew(&A, 'W', 1, 0, 1));
	assert_left("t", 1, 5000);
	expect(LOCK_GRANTED, renew(&A, 'R', 1, 1, 0));
	assert_left("t", LEASE_MS - 1000, LEASE_MS);
	assert_left(TIMEOUT("A.1", "1"), LEASE_MS - 1000, LEASE_MS);
	assert_left(TIMEOUT("B.1", "1"), 1, 5000);
}

static void a_renewal_never_shortens(void **state) {
	(void)state;
	struct lock_op op = layout_op(OP_ACQUIRE, 'R', 1);
	op.lease_ms = 90000;
	expect(LOCK_GRANTED, layout_run(&A, &op));
	struct lock_outcome got = expect(LOCK_GRANTED, renew(&A, 'R', 1, 1, 0));
	assert_in_range(got.deadline_ms - got.server_us / 1000, 89000, 90000);
	assert_left("t", 89000, 90000);
	assert_left(TIMEOUT("A.1", "1"), 89000, 90000);
	expect(LOCK_GRANTED, acquire(&B, 'R', 1));
	expect(LOCK_GRANTED, renew(&B, 'R', 1, 1, 0));
	assert_left("t", 89000, 90000); /* nor what another has */
	layout_do("FLUSHALL");
	op.mode = 'W';
	expect(LOCK_GRANTED, layout_run(&A, &op));
	expect(LOCK_GRANTED, renew(&A, 'W', 1, 0, 1));
	assert_left("t", 89000, 90000);
	layout_do("PEXPIRE t 5000");
	expect(LOCK_GRANTED, renew(&A, 'W', 1, 0, 1));
	assert_left("t", LEASE_MS - 1000, LEASE_MS);
}

static void read_counts_are_told_as_they_are(void **state) {
	(void)state;
	struct lock_op op = layout_op(OP_RENEW, 'R', 1);
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	op.reads = 3;
	op.lease_ms = 1; /* the count alone */
	expect(LOCK_GRANTED, layout_run(&A, &op));
	assert_keys(READS("A.1", "3") " " TIMEOUT("A.1", "1") "=1 " TIMEOUT("A.1", "2") "=1 " TIMEOUT(
	        "A.1", "3") "=1");
	assert_left(TIMEOUT("A.1", "3"), LEASE_MS - 1000, LEASE_MS);
	expect(LOCK_GRANTED, layout_run(&A, &op));
	expect(LOCK_GRANTED, renew(&A, 'R', 1, 2, 0));
	assert_keys(READS("A.1", "2") " " TIMEOUT("A.1", "1") "=1 " TIMEOUT("A.1", "2") "=1");
	expect(LOCK_DONE, release(&A, 'R', 1));
	assert_keys("");
}

/* A writer's count is 1 whatever the program holds: the document knows no other. */
static void a_writer_is_counted_once(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_GRANTED, renew(&A, 'W', 1, 2, 3));
	assert_keys("t{A.1=1 mode=write}");
}

/* ---- Readers that died ------------------------------------------------------------------------*/

static void a_release_frees_a_lock_of_dead_readers(void **state) {
	(void)state;
	layout_listen();
	for (uint64_t i = 1; i <= 3; i++)
		expect(LOCK_GRANTED, acquire(&A, 'R', i));
	end_hold("A.1");
	end_hold("A.2");
	expect(LOCK_DONE, release(&A, 'R', 3));
	assert_verdict("1");
	assert_keys("");
	assert_string_equal(layout_heard(), "{t}:channel A.3_del_read\n");
}

static void dead_fields_go_when_somebody_looks(void **state) {
	(void)state;
	for (uint64_t i = 1; i <= 4; i++)
		expect(LOCK_GRANTED, acquire(&A, 'R', i));
	end_hold("A.1");
	expect(LOCK_DONE, release(&A, 'R', 2));
	assert_verdict("0");
	assert_keys("t{A.3=1 A.4=1 mode=read} " TIMEOUT("A.3", "1") "=1 " TIMEOUT("A.4", "1") "=1");
	end_hold("A.3");
	expect(LOCK_WAITING, acquire(&B, 'W', 1));
	assert_keys("t{A.4=1 mode=read} " TIMEOUT("A.4", "1") "=1 {t}:wait_write=B.1");
	end_hold("A.4");
	expect(LOCK_GRANTED, beat(&B, 'W', 1)); /* nobody is left */
	assert_keys("t{B.1=1 mode=write}");
}

/* The hash does not grow for ever: each that looks removes some, however many there are. */
static void a_thousand_dead_readers_go_in_time(void **state) {
	(void)state;
	layout_do("HSET t mode read");
	for (int i = 0; i < 1000; i++) {
		char command[64];
		snprintf(command, sizeof command, "HSET t dead-%d 1", i);
		layout_do("%s", command);
	}
	layout_do("PEXPIRE t 60000");
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	int beats = 0;
	while (layout_do("HLEN t") > 2 && beats < 1000) {
		expect(LOCK_WAITING, acquire(&B, 'W', 1));
		beats++;
	}
	assert_in_range(beats, 1000 / 16, 120);
	expect(LOCK_DONE, release(&A, 'R', 1));
	assert_keys("{t}:wait_write=B.1");
}

static void among_many_readers_the_lock_keeps_its_time(void **state) {
	(void)state;
	for (int i = 0; i < 40; i++) {
		struct lock_op op = layout_op(OP_ACQUIRE, 'R', 10 + (uint64_t)i);
		op.lease_ms = 10000;
		expect(LOCK_GRANTED, layout_run(&C, &op));
	}
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	expect(LOCK_DONE, release(&A, 'R', 1));
	assert_verdict("0");
	assert_int_equal(layout_do("HLEN t"), 41);
	assert_left("t", LEASE_MS - 1000, LEASE_MS); /* too many to look at: it is not made shorter */
}

/* ---- Burial -----------------------------------------------------------------------------------*/

static void what_was_buried_does_not_come_to_life(void **state) {
	(void)state;
	expect(LOCK_DONE, withdraw(&A, 'W', 1));
	assert_keys("{t}:sneck_buried:A.1=1");
	assert_left("{t}:sneck_buried:A.1", BURY_MS - 1000, BURY_MS);
	expect(LOCK_BURIED, acquire(&A, 'W', 1));
	expect(LOCK_BURIED, beat(&A, 'R', 1));
	assert_keys("{t}:sneck_buried:A.1=1");
	expect(LOCK_GRANTED, acquire(&A, 'W', 2));
}

static void a_release_buries_what_was_left_behind(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	expect(LOCK_GRANTED, acquire(&A, 'R', 2)); /* late copies that nobody owns */
	expect(LOCK_WAITING, acquire(&A, 'W', 3));
	struct lock_op op = layout_op(OP_RELEASE, 'R', 1);
	op.bury_n = 2;
	op.bury[0] = 2;
	op.bury[1] = 3;
	layout_listen();
	expect(LOCK_DONE, layout_run(&A, &op));
	assert_verdict("0");
	assert_keys("{t}:sneck_buried:A.2=1 {t}:sneck_buried:A.3=1");
	assert_string_equal(layout_heard(), "{t}:channel A.2_del_read\n");
}

/* ---- Bad input --------------------------------------------------------------------------------*/

static void assert_refused_everywhere(const char *keys) {
	const enum lock_op_kind kinds[] = { OP_ACQUIRE, OP_BEAT, OP_RELEASE, OP_RENEW, OP_CANCEL };
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
		for (int mode = 0; mode < 2; mode++) {
			struct lock_op op = layout_op(kinds[i], mode ? 'W' : 'R', 1);
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
		{ "RPUSH {t}:wait_write x", "{t}:wait_write[x]" },
		{ "HSET t A.1 1", "t{A.1=1}" }, /* a mutex */
		{ "HSET t mode read", "t{mode=read}" },
		{ "HSET t mode other A.1 1", "t{A.1=1 mode=other}" },
		{ "HSET t mode read A.1 x", "t{A.1=x mode=read}" },
		{ "HSET t mode read A.1 0", "t{A.1=0 mode=read}" },
		{ "HSET t mode read A.1 -1", "t{A.1=-1 mode=read}" },
		{ "HSET t mode write A.1 2", "t{A.1=2 mode=write}" },
		{ "HSET t mode write A.1 1 B.1 1", "t{A.1=1 B.1=1 mode=write}" },
		{ "HSET t mode write A.1:write 1", "t{A.1:write=1 mode=write}" },
		{ "HSET t mode read rcount 1 r:A.1 1", "t{mode=read r:A.1=1 rcount=1}" },
		{ "HSET t mode write writer A.1 wcount 1", "t{mode=write wcount=1 writer=A.1}" },
	};
	for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++) {
		layout_do("FLUSHALL");
		layout_do("%s", foreign[i][0]);
		assert_refused_everywhere(foreign[i][1]);
	}
}

static void what_works_when_memory_is_full(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	expect(LOCK_GRANTED, acquire(&B, 'R', 1));
	layout_do("CONFIG SET maxmemory 1");
	expect(LOCK_FAILED, acquire(&C, 'R', 1));
	assert_keys("t{A.1=1 B.1=1 mode=read} " TIMEOUT("A.1", "1") "=1 " TIMEOUT("B.1", "1") "=1");
	expect(LOCK_GRANTED, renew(&A, 'R', 1, 2, 0));
	expect(LOCK_DONE, withdraw(&C, 'W', 1));
	expect(LOCK_DONE, release(&B, 'R', 1));
	struct lock_op op = layout_op(OP_RELEASE, 'R', 5);
	op.bury_n = 1;
	op.bury[0] = 5;
	expect(LOCK_GONE, layout_run(&C, &op));
	expect(LOCK_DONE, release(&A, 'R', 1));
	assert_keys("{t}:sneck_buried:C.1=1 {t}:sneck_buried:C.5=1");
}

/* ---- Names, messages, people ------------------------------------------------------------------*/

static void names_with_braces(void **state) {
	(void)state;
	struct lock_op op = layout_op(OP_ACQUIRE, 'R', 1);
	expect(LOCK_GRANTED, layout_run_name(&A, &op, "a{b}:c"));
	assert_keys("a{b}:c:A.1:rwlock_timeout:1=1 a{b}:c{A.1=1 mode=read}");
	struct buf out = BUF_INIT;
	assert_int_equal(snecki_intent.lock_channel(&A, "a{b}:c", 6, 1, &out), 0);
	assert_memory_equal(out.data, "a{b}:c:channel", out.len);
	snecki_buf_done(&out);
	assert_int_equal(snecki_intent.lock_channel(&A, "a:c", 3, 1, &out), 0);
	assert_memory_equal(out.data, "{a:c}:channel", out.len);
	snecki_buf_done(&out);
}

static void messages_of_both_kinds_are_understood(void **state) {
	(void)state;
	assert_true(snecki_intent.says_free("x_del_read", 10));
	assert_true(snecki_intent.says_free("x_del_write", 11));
	assert_false(snecki_intent.says_free("x_del_writer", 12));
	assert_false(snecki_intent.says_free("0", 1));
}

static void it_can_be_looked_at(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	expect(LOCK_GRANTED, acquire(&B, 'R', 1));
	expect(LOCK_GRANTED, renew(&A, 'R', 1, 2, 0));
	end_hold("B.1");
	expect(LOCK_GRANTED, acquire(&C, 'R', 1));
	layout_do("SET {t}:wait_write B.2 PX 1000");
	sneck_lock_info info = layout_inspect("t");
	assert_int_equal(info.mode, SNECK_READ);
	assert_int_equal(info.holder_n, 2); /* the dead one is passed over */
	assert_int_equal(info.waiter_n, 1);
	assert_int_equal(info.party_n, 3);
	assert_int_equal(info.parties[2].kind, SNECK_PARTY_WAITER);
	assert_string_equal(info.parties[2].id, "Wbbbbbbbb-0000-4000-8000-000000000000:2");
	assert_in_range(info.parties[2].lease_left_ms, 1, 1000);
	bool first = info.parties[0].session[0] == 'a';
	assert_string_equal(info.parties[first ? 0 : 1].note, "2 holds");
	assert_in_range(info.parties[0].lease_left_ms, LEASE_MS - 1000, LEASE_MS);
	free(info.parties);
}

static void it_can_be_broken(void **state) {
	(void)state;
	layout_listen();
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	assert_int_equal(layout_break("WA.1"), SNECK_ENOTHELD);
	assert_int_equal(layout_break("RB.1"), SNECK_ENOTHELD);
	assert_int_equal(layout_break("RA.1"), 0);
	assert_keys("{t}:sneck_buried:A.1=1");
	assert_string_equal(layout_heard(), "{t}:channel A.1_del_read\n");
	expect(LOCK_GONE, renew(&A, 'R', 1, 1, 0));
	expect(LOCK_GRANTED, acquire(&B, 'W', 1));
	assert_int_equal(layout_break("WB.1"), 0);
	assert_string_equal(layout_heard(), "{t}:channel B.1_del_write\n");
	expect(LOCK_GONE, renew(&B, 'W', 1, 0, 1));
}

static void what_the_layout_has_no_place_for(void **state) {
	(void)state;
	const enum lock_op_kind kinds[] = { OP_RENAME, OP_ADVANCE, OP_UPGRADE, OP_DOWNGRADE };
	struct buf out = BUF_INIT;
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		struct lock_op op = layout_op(kinds[i], 'W', 1);
		assert_int_equal(snecki_intent.encode(&A, &op, "t", 1, false, &out), SNECK_ENOTSUP);
	}
	assert_int_equal(snecki_intent.encode_break(&A, "t", 1, "RA.1", 1, "", false, &out), SNECK_ENOTSUP);
	assert_int_equal(out.len, 0);
	snecki_buf_done(&out);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		LAYOUT_TEST(the_first_reader_makes_the_lock),
		LAYOUT_TEST(readers_share_and_each_has_its_timeout),
		LAYOUT_TEST(a_read_request_that_comes_twice_counts_once),
		LAYOUT_TEST(a_read_hold_that_died_is_not_granted_again),
		LAYOUT_TEST(a_read_release_while_somebody_writes),
		LAYOUT_TEST(a_reader_waits_for_a_writer),
		LAYOUT_TEST(a_writer_is_alone),
		LAYOUT_TEST(a_waiting_writer_leaves_a_mark),
		LAYOUT_TEST(new_readers_are_refused_while_the_mark_stands),
		LAYOUT_TEST(who_does_not_wait_leaves_no_mark),
		LAYOUT_TEST(giving_up_removes_the_own_mark),
		LAYOUT_TEST(a_cancel_gives_back_what_was_granted),
		LAYOUT_TEST(a_renewal_is_for_the_own_hold_alone),
		LAYOUT_TEST(a_renewal_never_shortens),
		LAYOUT_TEST(read_counts_are_told_as_they_are),
		LAYOUT_TEST(a_writer_is_counted_once),
		LAYOUT_TEST(a_release_frees_a_lock_of_dead_readers),
		LAYOUT_TEST(dead_fields_go_when_somebody_looks),
		LAYOUT_TEST(a_thousand_dead_readers_go_in_time),
		LAYOUT_TEST(among_many_readers_the_lock_keeps_its_time),
		LAYOUT_TEST(what_was_buried_does_not_come_to_life),
		LAYOUT_TEST(a_release_buries_what_was_left_behind),
		LAYOUT_TEST(foreign_keys_are_not_touched),
		LAYOUT_TEST(what_works_when_memory_is_full),
		LAYOUT_TEST(names_with_braces),
		LAYOUT_TEST(messages_of_both_kinds_are_understood),
		LAYOUT_TEST(it_can_be_looked_at),
		LAYOUT_TEST(it_can_be_broken),
		LAYOUT_TEST(what_the_layout_has_no_place_for),
	};
	layout_dialect = &snecki_intent;
	return cmocka_run_group_tests(tests, layout_up, layout_down);
}
