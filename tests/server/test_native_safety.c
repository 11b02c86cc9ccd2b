/* SPDX-License-Identifier: MIT */
/* The native scripts when something is wrong: requests that come late or in the wrong order, keys of
 * another kind, a full server, clocks and numbers at their ends, more entries than one call may
 * touch, names of any bytes. */
#include "native_fixture.h"

#include <stdio.h>
#include <string.h>

#include "dialect/native/scripts.h"

/* ---- Buried attempts ------------------------------------------------------------------------*/

static void test_cancel_overtakes_acquire(void **state) {
	(void)state;
	expect(LOCK_DONE, withdraw(&A, 'W', 1));
	assert_state("xA.1");
	expect(LOCK_BURIED, acquire(&A, 'W', 1));
	assert_state("xA.1");
	expect(LOCK_GRANTED, acquire(&B, 'W', 1)); /* the same counter of another session */
	expect(LOCK_WAITING, acquire(&A, 'W', 2));
	expect(LOCK_BURIED, acquire(&A, 'W', 1));
	assert_state("wA.2 WB.1 lA.2 xA.1");
}

static void test_acquire_before_its_cancel(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	assert_true(expect(LOCK_DONE, withdraw(&A, 'W', 1)).released_grant);
	assert_state("xA.1");
	expect(LOCK_BURIED, acquire(&A, 'W', 1));
	expect(LOCK_DONE, withdraw(&A, 'W', 1));
	assert_state("xA.1");
}

static void test_cancel_buries_a_waiter(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_WAITING, acquire(&B, 'R', 1));
	expect(LOCK_DONE, withdraw(&B, 'R', 1));
	expect(LOCK_BURIED, acquire(&B, 'R', 1));
	expect(LOCK_GONE, beat(&B, 'R', 1));
	assert_state("WA.1 xB.1");
}

static void test_release_buries_its_list(void **state) {
	(void)state;
	struct lock_op op = native_op(OP_RELEASE, 'W', 1);
	op.bury_n = 3;
	op.bury[0] = 1;
	op.bury[1] = 40;
	op.bury[2] = UINT64_MAX;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_WAITING, acquire(&A, 'R', 40));
	expect(LOCK_WAITING, acquire(&B, 'R', 1));
	expect(LOCK_DONE, native_run(&A, &op));
	assert_state("RB.1 xA.1 xA.14 xA.1y2p0ij32e8e7~");
	expect(LOCK_BURIED, acquire(&A, 'W', 1));
	expect(LOCK_BURIED, acquire(&A, 'R', 40));
	expect(LOCK_BURIED, acquire(&A, 'R', UINT64_MAX));
	expect(LOCK_GONE, native_run(&A, &op)); /* the same again */
	assert_state("RB.1 xA.1 xA.14 xA.1y2p0ij32e8e7~");
}

static void test_burying_a_grant_hands_it_on(void **state) {
	(void)state;
	struct lock_op op = native_op(OP_CANCEL, 'W', 3);
	op.bury_n = 1;
	op.bury[0] = 2;
	expect(LOCK_GRANTED, acquire(&A, 'W', 2));
	expect(LOCK_WAITING, acquire(&B, 'W', 1));
	expect(LOCK_DONE, native_run(&A, &op));
	assert_state("WB.1 xA.2");
}

static void test_burying_a_reader_changes_no_token(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	struct lock_outcome held = expect(LOCK_GRANTED, acquire(&B, 'R', 1));
	expect(LOCK_DONE, withdraw(&A, 'R', 1));
	assert_int_equal(expect(LOCK_GRANTED, renew(&B, 'R', 1)).token, held.token);
}

static void test_burying_names_one_upgrader_only(void **state) {
	(void)state;
	struct lock_op op = native_op(OP_CANCEL, 'W', 9);
	op.bury_n = 1;
	op.bury[0] = 1;
	expect(LOCK_GRANTED, acquire(&A, 'R', 5));
	expect(LOCK_GRANTED, acquire(&B, 'R', 1));
	expect(LOCK_WAITING, upgrade(&A, 37, 5)); /* "11" in base 36 */
	expect(LOCK_DONE, native_run(&A, &op));
	assert_state("uA.11.5 RA.5 RB.1 lA.11.5 xA.1");
	op.bury[0] = 37;
	expect(LOCK_DONE, native_run(&A, &op));
	assert_state("RA.5 RB.1 xA.1 xA.11");
}

static void test_a_downgrade_that_was_buried(void **state) {
	(void)state;
	struct lock_op op = native_op(OP_RELEASE, 'W', 1);
	op.bury_n = 1;
	op.bury[0] = 2;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_GRANTED, downgrade(&A, 2, 1));
	expect(LOCK_GONE, native_run(&A, &op)); /* it did not know; the list knew */
	assert_state("xA.2");
	expect(LOCK_BURIED, downgrade(&A, 2, 1));
}

static void test_old_tombstones_go(void **state) {
	(void)state;
	expect(LOCK_DONE, withdraw(&A, 'W', 1));
	native_do("ZADD " KEY " XX 200000000000001 xA.1");
	expect(LOCK_GRANTED, acquire(&B, 'W', 1));
	assert_state("WB.1");
	expect(LOCK_DONE, withdraw(&A, 'W', 2));
	native_do("ZADD " KEY " XX 200000000000001 xA.2");
	expect(LOCK_DONE, withdraw(&A, 'W', 3)); /* a lock that is never idle is tidied as well */
	assert_state("WB.1 xA.3");
}

/* ---- Broken by an operator ------------------------------------------------------------------*/

static void break_hold(const char *member) {
	(void)native_score(member);
	native_do("ZREM " KEY " %s", member);
	native_do("ZADD " KEY " %lld b%s", 300000000000000LL + native_now_ms() + KEEP_MS, member + 1);
}

static void test_the_victim_learns_that_it_was_broken(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	break_hold("WA.1");
	expect(LOCK_BROKEN, renew(&A, 'W', 1));
	expect(LOCK_BROKEN, beat(&A, 'W', 1));
	expect(LOCK_BROKEN, acquire(&A, 'W', 1));
	expect(LOCK_BROKEN, downgrade(&A, 2, 1));
	expect(LOCK_BROKEN, rename_hold(&A, "WA.1", 2));
	expect(LOCK_GRANTED, acquire(&B, 'W', 1));
	expect(LOCK_BROKEN, release(&A, 'W', 1)); /* seen for good */
	expect(LOCK_GONE, release(&A, 'W', 1));
	assert_state("WB.1");
}

static void test_the_upgrader_learns_that_it_was_broken(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	expect(LOCK_GRANTED, acquire(&B, 'R', 1));
	expect(LOCK_WAITING, upgrade(&A, 2, 1));
	break_hold("RA.1");
	expect(LOCK_DONE, advance(&B));
	expect(LOCK_BROKEN, upgrade_beat(&A, 2, 1));
	expect(LOCK_BROKEN, upgrade(&A, 2, 1));
	assert_state("RB.1 bA.1");
}

/* ---- Keys of another kind -------------------------------------------------------------------*/

static struct lock_op any_op(enum lock_op_kind kind) {
	struct lock_op op = native_op(kind, 'W', 2);
	op.old = kind == OP_UPGRADE || kind == OP_DOWNGRADE ? 1 : 0;
	op.bury_n = kind == OP_RELEASE || kind == OP_CANCEL ? 1 : 0;
	op.bury[0] = 2;
	op.last_token = 5;
	snprintf(op.foreign_id, sizeof(op.foreign_id), "WB.1");
	return op;
}

static void test_foreign_keys_are_not_touched(void **state) {
	(void)state;
	static const char *const makers[] = { "SET %s v", "RPUSH %s v", "HSET %s f v", "SADD %s v",
		"XADD %s * f v", "ZADD %s 1 v", "ZADD %s -5 v 5 w" };
	for (size_t i = 0; i < sizeof(makers) / sizeof(makers[0]); i++) {
		native_do("DEL " KEY);
		native_do(makers[i], KEY);
		native_do("PEXPIREAT " KEY " 9000000000000");
		redisReply *before = redisCommand(native_redis, "DUMP " KEY);
		for (int kind = 0; kind < OP_KINDS; kind++) {
			struct lock_op op = any_op((enum lock_op_kind)kind);
			struct lock_outcome outcome = expect(LOCK_FAILED, native_run(&A, &op));
			assert_int_equal(outcome.code, SNECK_ETYPE);
			assert_false(outcome.retry);
			redisReply *after = redisCommand(native_redis, "DUMP " KEY);
			assert_int_equal(after->len, before->len);
			assert_memory_equal(after->str, before->str, before->len);
			assert_int_equal(native_pexpiretime(), 9000000000000);
			freeReplyObject(after);
		}
		freeReplyObject(before);
	}
}

/* ---- A full server --------------------------------------------------------------------------*/

static void test_what_works_when_memory_is_full(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_WAITING, acquire(&B, 'R', 1));
	expect(LOCK_WAITING, acquire(&C, 'W', 1));
	native_do("CONFIG SET maxmemory 1");

	struct lock_outcome refused = expect(LOCK_FAILED, acquire(&D, 'W', 1));
	assert_int_equal(refused.code, SNECK_ESERVER);
	assert_string_equal(native_error.server, "OOM");
	assert_state("rB.1 wC.1 WA.1 lB.1 lC.1");
	expect(LOCK_GRANTED, renew(&A, 'W', 1));
	expect(LOCK_WAITING, beat(&B, 'R', 1));
	expect(LOCK_DONE, release(&A, 'W', 1));
	assert_state("wC.1 RB.1 lC.1");
	expect(LOCK_GRANTED, beat(&B, 'R', 1));
	expect(LOCK_DONE, withdraw(&C, 'W', 1));
	assert_state("RB.1 xC.1");
	expect(LOCK_GRANTED, upgrade(&B, 2, 1));
	expect(LOCK_GRANTED, downgrade(&B, 3, 2));
	expect(LOCK_GRANTED, rename_hold(&C, "RB.3", 2));
	expect(LOCK_FAILED, try_acquire(&D, 'R', 1));
	assert_state("RC.2 xC.1");
	struct lock_op split = native_op(OP_RENAME, 'R', 3);
	split.keep_old = true;
	snprintf(split.foreign_id, sizeof(split.foreign_id), "RC.2");
	expect(LOCK_GRANTED, native_run(&C, &split));
	expect(LOCK_DONE, release(&C, 'R', 2));
	native_do("DEL " KEY);
	expect(LOCK_FAILED, acquire(&A, 'W', 2));
	assert_state("-");
	expect(LOCK_DONE, withdraw(&A, 'W', 2)); /* a withdrawal must not fail for lack of memory */
	assert_state("xA.2");
}

/* ---- Tokens ---------------------------------------------------------------------------------*/

/* As it is after the clock has stepped back. */
static void set_last_token(uint64_t token) {
	native_do("ZADD " KEY " %llu #1", (unsigned long long)token);
	native_do("PEXPIREAT " KEY " %llu", (unsigned long long)token / 1000 + 1 + KEEP_MS);
}

/* A writer may use numbers up to its deadline without telling. Once it is dead they are used up, although the
 * clock may step back behind that deadline before the next number is taken. */
static void test_the_numbers_of_a_dead_writer_are_used_up(void **state) {
	(void)state;
	for (int i = 0; i < 3; i++) {
		native_do("DEL " KEY);
		expect(LOCK_GRANTED, acquire(&A, 'W', 1));
		native_end_lease("WA.1");
		int64_t before_us = native_now_ms() * 1000;
		if (i == 0)
			expect(LOCK_DONE, advance(&B));
		else
			expect(LOCK_GONE, i == 1 ? renew(&A, 'W', 1) : beat(&A, 'W', 1));
		assert_true(native_score("#1") >= before_us);
	}
}

static void test_token_grows_when_the_clock_is_behind(void **state) {
	(void)state;
	int64_t ahead_ms = native_now_ms() + 3600000;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	set_last_token((uint64_t)ahead_ms * 1000);
	expect(LOCK_DONE, release(&A, 'W', 1));
	uint64_t token = (uint64_t)ahead_ms * 1000;
	struct lock_outcome got = expect(LOCK_GRANTED, acquire(&A, 'W', 2)); /* the short path */
	assert_int_equal(got.token, ++token);
	assert_true(native_pexpiretime() >= ahead_ms + KEEP_MS);
	assert_int_equal(expect(LOCK_GRANTED, downgrade(&A, 3, 2)).token, ++token);
	assert_int_equal(expect(LOCK_GRANTED, upgrade(&A, 4, 3)).token, ++token);
	expect(LOCK_WAITING, acquire(&B, 'W', 1));
	assert_int_equal(expect(LOCK_DONE, release(&A, 'W', 4)).token, ++token); /* handed over */
	assert_int_equal(expect(LOCK_GRANTED, beat(&B, 'W', 1)).token, token);
	expect(LOCK_DONE, withdraw(&B, 'W', 1));
	assert_int_equal(expect(LOCK_GRANTED, acquire(&C, 'R', 1)).token, ++token); /* the long path */
	assert_int_equal(expect(LOCK_GRANTED, acquire(&D, 'R', 1)).token, token);
}

static void test_tokens_are_exact(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	set_last_token(UINT64_C(9007199254740900));
	expect(LOCK_DONE, release(&A, 'W', 1));
	for (uint64_t i = 1; i <= 50; i++) {
		assert_int_equal(
		        expect(LOCK_GRANTED, acquire(&A, 'W', i + 1)).token, UINT64_C(9007199254740900) + i);
		expect(LOCK_DONE, release(&A, 'W', i + 1));
	}
}

static void test_numbers_used_locally_are_used_up(void **state) {
	(void)state;
	struct lock_outcome got = expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	struct lock_op op = native_op(OP_RENEW, 'W', 1);
	op.last_token = got.token + 20000000;
	assert_int_equal(expect(LOCK_GRANTED, native_run(&A, &op)).token, op.last_token);
	op.last_token = got.token + 1; /* an older report */
	assert_int_equal(expect(LOCK_GRANTED, native_run(&A, &op)).token, got.token + 20000000);
	op = native_op(OP_DOWNGRADE, 'R', 2);
	op.old = 1;
	op.last_token = got.token + 40000000;
	assert_int_equal(expect(LOCK_GRANTED, native_run(&A, &op)).token, got.token + 40000001);
	expect(LOCK_GRANTED, upgrade(&A, 3, 2));
	op = native_op(OP_RELEASE, 'W', 3);
	op.last_token = got.token + 60000000;
	assert_int_equal(expect(LOCK_DONE, native_run(&A, &op)).token, op.last_token);
	assert_int_equal(expect(LOCK_GRANTED, acquire(&B, 'W', 1)).token, got.token + 60000001);
	op = native_op(OP_RENAME, 'W', 4);
	snprintf(op.foreign_id, sizeof(op.foreign_id), "WB.1");
	op.last_token = got.token + 80000000;
	assert_int_equal(expect(LOCK_GRANTED, native_run(&A, &op)).token, op.last_token);
	op = native_op(OP_RELEASE, 'W', 77); /* lost meanwhile: nothing of ours, but the number counts */
	op.last_token = got.token + 90000000;
	assert_int_equal(expect(LOCK_GONE, native_run(&A, &op)).token, op.last_token);
}

static void test_readers_share_a_token_while_one_of_them_stays(void **state) {
	(void)state;
	struct lock_outcome first = expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	for (uint64_t i = 1; i < 20; i++) {
		assert_int_equal(
		        expect(LOCK_GRANTED, acquire(i % 2 ? &B : &A, 'R', i + 1)).token, first.token);
		expect(LOCK_DONE, release(i % 2 ? &A : &B, 'R', i));
	}
}

/* ---- The key's expiry -----------------------------------------------------------------------*/

static void test_an_idle_key_need_not_outlast_a_long_lease(void **state) {
	(void)state;
	struct lock_op take = native_op(OP_ACQUIRE, 'W', 1);
	struct lock_op give = native_op(OP_RELEASE, 'W', 1);
	take.lease_ms = INT64_C(604800000);
	give.shrink_expiry = true;
	struct lock_outcome got = expect(LOCK_GRANTED, native_run(&A, &take));
	assert_int_equal(native_pexpiretime(), got.deadline_ms + KEEP_MS);
	struct lock_outcome done = expect(LOCK_DONE, native_run(&A, &give));
	assert_in_range(native_pexpiretime() - KEEP_MS, done.server_us / 1000, done.server_us / 1000 + 1);

	expect(LOCK_GRANTED, native_run(&A, &take));
	give.bury_n = 1;
	give.bury[0] = 1;
	done = expect(LOCK_DONE, native_run(&A, &give));
	assert_int_equal(native_pexpiretime(), done.server_us / 1000 + BURY_MS + KEEP_MS);

	take.attempt = give.attempt = 2;
	give.bury_n = 0;
	got = expect(LOCK_GRANTED, native_run(&A, &take));
	expect(LOCK_WAITING, acquire(&B, 'W', 1));
	expect(LOCK_DONE, native_run(&A, &give)); /* not idle */
	assert_int_equal(native_pexpiretime(), got.deadline_ms + KEEP_MS);
}

static void test_an_idle_key_outlasts_a_token_ahead_of_the_clock(void **state) {
	(void)state;
	struct lock_op give = native_op(OP_RELEASE, 'W', 1);
	give.shrink_expiry = true;
	give.last_token = (uint64_t)(native_now_ms() + LEASE_MS / 2) * 1000;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_DONE, native_run(&A, &give));
	assert_int_equal(native_pexpiretime(), (int64_t)give.last_token / 1000 + KEEP_MS);
}

static void test_a_short_lease_does_not_shorten_the_key(void **state) {
	(void)state;
	struct lock_op op = native_op(OP_ACQUIRE, 'R', 1);
	struct lock_outcome got = expect(LOCK_GRANTED, acquire(&A, 'R', 1));
	op.lease_ms = 50;
	expect(LOCK_GRANTED, native_run(&B, &op));
	assert_int_equal(native_pexpiretime(), got.deadline_ms + KEEP_MS);
	expect(LOCK_DONE, release(&B, 'R', 1));
	expect(LOCK_DONE, release(&A, 'R', 1));
	got = expect(LOCK_GRANTED, native_run(&B, &op)); /* found idle: its own lease counts */
	assert_int_equal(native_pexpiretime(), got.deadline_ms + KEEP_MS);
	expect(LOCK_WAITING, acquire(&C, 'W', 1)); /* the waiter's lease is the longer one */
	assert_true(native_pexpiretime() > got.deadline_ms + KEEP_MS);
}

/* ---- Scripts --------------------------------------------------------------------------------*/

static void test_the_server_knows_the_scripts_by_the_same_digests(void **state) {
	(void)state;
	for (int i = 0; i < NATIVE_SCRIPTS; i++) {
		const struct script *script = &snecki_native_scripts[i];
		redisReply *reply = redisCommand(native_redis, "SCRIPT LOAD %b", script->text, script->len);
		assert_non_null(reply);
		assert_string_equal(reply->str, script->sha1);
		freeReplyObject(reply);
	}
}

/* The line of docs/protocol.md, section 9: not a command more. */
static void test_a_user_with_few_rights_suffices(void **state) {
	(void)state;
	native_do(
	        "ACL SETUSER locker on >secret -@all +evalsha +eval +exists +pexpireat +publish +time +zadd "
	        "+zmscore +zrange +zrank +zrem +zscore +subscribe +unsubscribe +ping +hello +auth +select "
	        "+role "
	        "+info ~sneck:* &sneck:!*");
	native_do("AUTH locker secret");
	struct lock_op op = native_op(OP_ACQUIRE, 'W', 1);
	struct lock_outcome got = native_run_name(&A, &op, "t", 1);
	struct lock_outcome queued = native_run_name(&B, &op, "t", 1);
	op.kind = OP_BEAT;
	struct lock_outcome waits = native_run_name(&B, &op, "t", 1);
	op.kind = OP_RELEASE;
	op.bury_n = 1;
	op.bury[0] = 7;
	op.shrink_expiry = true;
	struct lock_outcome released = native_run_name(&A, &op, "t", 1);
	struct lock_outcome given_back = native_run_name(&B, &op, "t", 1);
	op = native_op(OP_ACQUIRE, 'W', 2);
	struct lock_outcome again = native_run_name(&A, &op, "t", 1);
	struct lock_outcome behind = native_run_name(&B, &op, "t", 1);
	op.kind = OP_RELEASE; /* and nothing else: from one writer straight to the next */
	struct lock_outcome handed_on = native_run_name(&A, &op, "t", 1);
	struct lock_outcome end = native_run_name(&B, &op, "t", 1);
	op.kind = OP_ADVANCE;
	struct lock_outcome nothing = native_run_name(&B, &op, "none", 4);
	native_do("AUTH default any");
	expect(LOCK_GRANTED, got);
	expect(LOCK_WAITING, queued);
	expect(LOCK_WAITING, waits);
	expect(LOCK_DONE, released);
	expect(LOCK_DONE, given_back);
	expect(LOCK_GRANTED, again);
	expect(LOCK_WAITING, behind);
	expect(LOCK_DONE, handed_on);
	expect(LOCK_DONE, end);
	expect(LOCK_DONE, nothing);
}

/* ---- Names ----------------------------------------------------------------------------------*/

static void test_names_never_share_a_key(void **state) {
	(void)state;
	static const char alphabet[] = { '{', '}', '%', '\0', 'a', '\n', '7', 'B' };
	const unsigned letters = sizeof(alphabet), all = letters * letters * letters;
	struct lock_op op = native_op(OP_ACQUIRE, 'W', 1);
	long long keys = 0;
	op.queue = false;
	for (unsigned len = 1; len <= 3; len++) {
		for (unsigned i = 0; i < all; i++) {
			char name[3] = { alphabet[i % letters], alphabet[i / letters % letters],
				alphabet[i / letters / letters] };
			if ((len < 3 && name[2] != alphabet[0]) || (len < 2 && name[1] != alphabet[0]))
				continue;
			expect(LOCK_GRANTED, native_run_name(&A, &op, name, len));
			keys++;
		}
	}
	char longest[1024];
	memset(longest, '}', sizeof(longest));
	expect(LOCK_GRANTED, native_run_name(&A, &op, longest, sizeof(longest)));
	expect(LOCK_GRANTED, native_run_name(&A, &op, longest, sizeof(longest) - 1));
	assert_int_equal(native_do("DBSIZE"), keys + 2);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		NATIVE_TEST(test_cancel_overtakes_acquire),
		NATIVE_TEST(test_acquire_before_its_cancel),
		NATIVE_TEST(test_cancel_buries_a_waiter),
		NATIVE_TEST(test_release_buries_its_list),
		NATIVE_TEST(test_burying_a_grant_hands_it_on),
		NATIVE_TEST(test_burying_a_reader_changes_no_token),
		NATIVE_TEST(test_burying_names_one_upgrader_only),
		NATIVE_TEST(test_a_downgrade_that_was_buried),
		NATIVE_TEST(test_old_tombstones_go),
		NATIVE_TEST(test_the_victim_learns_that_it_was_broken),
		NATIVE_TEST(test_the_upgrader_learns_that_it_was_broken),
		NATIVE_TEST(test_foreign_keys_are_not_touched),
		NATIVE_TEST(test_what_works_when_memory_is_full),
		NATIVE_TEST(test_the_numbers_of_a_dead_writer_are_used_up),
		NATIVE_TEST(test_token_grows_when_the_clock_is_behind),
		NATIVE_TEST(test_tokens_are_exact),
		NATIVE_TEST(test_numbers_used_locally_are_used_up),
		NATIVE_TEST(test_readers_share_a_token_while_one_of_them_stays),
		NATIVE_TEST(test_an_idle_key_need_not_outlast_a_long_lease),
		NATIVE_TEST(test_an_idle_key_outlasts_a_token_ahead_of_the_clock),
		NATIVE_TEST(test_a_short_lease_does_not_shorten_the_key),
		NATIVE_TEST(test_the_server_knows_the_scripts_by_the_same_digests),
		NATIVE_TEST(test_a_user_with_few_rights_suffices),
		NATIVE_TEST(test_names_never_share_a_key),
	};
	return cmocka_run_group_tests(tests, native_up, native_down);
}
