/* SPDX-License-Identifier: MIT */
/* Redisson's RLock and RFencedLock, operation by operation: exactly their keys, fields, values, times to
 * live, channels and payloads, and what a repeated or late request may not do. */
#include "layout_fixture.h"

#include <stdio.h>
#include <string.h>

#define CHANNEL "redisson_lock__channel:{t}"

static int lock_up(void **state) {
	(void)state;
	layout_dialect = &snecki_redisson_lock;
	return layout_up(state);
}

static int fenced_up(void **state) {
	(void)state;
	layout_dialect = &snecki_redisson_fenced;
	return layout_up(state);
}

/* ---- RLock --------------------------------------------------------------------------------------*/

static void a_free_lock_is_taken(void **state) {
	(void)state;
	struct lock_outcome outcome = expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	assert_string_equal(layout_verdict, "nil");
	assert_int_equal(outcome.token, 0);
	assert_int_equal(outcome.deadline_ms - outcome.server_us / 1000, LEASE_MS);
	assert_keys("t{A.1=1}");
	assert_ttl("t", LEASE_MS);
	assert_heard("");
}

static void the_other_is_told_how_long(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	struct lock_outcome outcome = expect(LOCK_WAITING, acquire(&B, 'W', 1));
	int64_t left_ms = outcome.holder_deadline_ms - outcome.server_us / 1000;
	assert_in_range(left_ms, LEASE_MS - 5000, LEASE_MS);
	assert_in_range(strtoll(layout_verdict, NULL, 10), LEASE_MS - 5000, LEASE_MS);
	layout_assert_holder(&outcome, 'W', &A, 1);
	expect(LOCK_BUSY, try_acquire(&B, 'W', 2));
	expect(LOCK_WAITING, beat(&B, 'W', 1));
	assert_keys("t{A.1=1}");
	assert_heard("");
}

/* A lock without an end tells no time: whoever waits looks again every second. */
static void a_lock_without_an_end(void **state) {
	(void)state;
	layout_do("HSET t J:7 1");
	struct lock_outcome outcome = expect(LOCK_WAITING, acquire(&A, 'W', 1));
	assert_int_equal(outcome.holder_deadline_ms, 0);
	assert_string_equal(layout_verdict, "-1");
	assert_int_equal(layout_dialect->traits.poll_most_ms, 1000);
	assert_keys("t{J:7=1}");
}

static void a_release_frees_and_tells(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_GONE, release(&B, 'W', 1));
	assert_string_equal(layout_verdict, "nil");
	assert_keys("t{A.1=1}");
	assert_heard("");
	expect(LOCK_DONE, release(&A, 'W', 1));
	assert_string_equal(layout_verdict, "1");
	assert_keys("");
	assert_heard(CHANNEL " 0\n");
	expect(LOCK_GONE, release(&A, 'W', 1));
	assert_heard("");
	expect(LOCK_GRANTED, beat(&B, 'W', 1));
	assert_keys("t{B.1=1}");
}

static void counts_are_told(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_GRANTED, renew(&A, 'W', 1, 0, 3));
	assert_keys("t{A.1=3}");
	expect(LOCK_GRANTED, renew(&A, 'W', 1, 0, 3)); /* the same message again */
	assert_keys("t{A.1=3}");
	expect(LOCK_GRANTED, renew(&A, 'W', 1, 0, 2));
	assert_keys("t{A.1=2}");
	expect(LOCK_DONE, release(&A, 'W', 1));
	assert_keys("");
}

static void a_renewal_lengthens_and_never_shortens(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	layout_do("PEXPIRE t 600000");
	struct lock_outcome outcome = expect(LOCK_GRANTED, renew(&A, 'W', 1, 0, 1));
	assert_ttl("t", 600000);
	assert_true(outcome.deadline_ms - outcome.server_us / 1000 > LEASE_MS);
	layout_do("PEXPIRE t 1000");
	expect(LOCK_GRANTED, renew(&A, 'W', 1, 0, 1));
	assert_ttl("t", LEASE_MS);
	layout_do("DEL t");
	expect(LOCK_GONE, renew(&A, 'W', 1, 0, 1));
	assert_keys("");
	layout_do("HSET t J:7 1");
	expect(LOCK_GONE, renew(&A, 'W', 1, 0, 1));
	assert_keys("t{J:7=1}");
}

static void a_request_sent_twice_changes_nothing_twice(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_GRANTED, beat(&A, 'W', 1));
	assert_keys("t{A.1=1}");
	layout_do("PEXPIRE t 1000"); /* who asks again believes that it has the whole lease from then on */
	struct lock_outcome outcome = expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	assert_ttl("t", LEASE_MS);
	assert_int_equal(outcome.deadline_ms - outcome.server_us / 1000, LEASE_MS);
	expect(LOCK_WAITING, acquire(&A, 'W', 2)); /* another attempt is another owner */
	assert_keys("t{A.1=1}");
}

static void what_is_cancelled_is_given_back(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	assert_false(expect(LOCK_DONE, cancel(&B, 'W', 1)).released_grant);
	assert_keys("t{A.1=1}");
	assert_true(expect(LOCK_DONE, cancel(&A, 'W', 1)).released_grant);
	assert_keys("");
	assert_heard(CHANNEL " 0\n");
}

static void the_buried_stay_dead(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	expect(LOCK_DONE, withdraw(&A, 'W', 1));
	assert_keys("{t}:sneck_buried:A.1=1");
	assert_ttl("{t}:sneck_buried:A.1", BURY_MS);
	assert_heard(CHANNEL " 0\n");
	expect(LOCK_BURIED, acquire(&A, 'W', 1));
	expect(LOCK_BURIED, beat(&A, 'W', 1));
	assert_keys("{t}:sneck_buried:A.1=1");
	expect(LOCK_GRANTED, acquire(&A, 'W', 2));
}

/* A release may bury another attempt, and that one may be what holds by now. */
static void what_is_buried_loses_its_hold(void **state) {
	(void)state;
	struct lock_op op = layout_op(OP_RELEASE, 'W', 1);
	op.bury_n = 1;
	op.bury[0] = 2;
	expect(LOCK_GRANTED, acquire(&A, 'W', 2));
	expect(LOCK_GONE, layout_run(&A, &op));
	assert_keys("{t}:sneck_buried:A.2=1");
	assert_heard(CHANNEL " 0\n");
}

static void assert_refused(const char *keys) {
	struct lock_outcome outcome = expect(LOCK_FAILED, acquire(&A, 'W', 1));
	assert_int_equal(outcome.code, SNECK_ETYPE);
	assert_int_equal(expect(LOCK_FAILED, try_acquire(&A, 'W', 1)).code, SNECK_ETYPE);
	assert_keys(keys);
	assert_heard("");
}

static void other_layouts_are_refused(void **state) {
	(void)state;
	layout_do("SET t x");
	assert_refused("t=x");
	assert_int_equal(expect(LOCK_FAILED, release(&A, 'W', 1)).code, SNECK_ETYPE);
	assert_int_equal(expect(LOCK_FAILED, renew(&A, 'W', 1, 0, 1)).code, SNECK_ETYPE);
	assert_keys("t=x");
	layout_do("DEL t");
	layout_do("HSET t mode read J:7 1");
	assert_refused("t{J:7=1 mode=read}");
	layout_do("HDEL t J:7");
	assert_refused("t{mode=read}");
	layout_do("DEL t");
	layout_do("HSET t a 1 b 1");
	assert_refused("t{a=1 b=1}");
	layout_do("HDEL t b");
	for (const char *const *bad = (const char *const[]){ "x", "-1", "0", "1.5", "1e3", NULL }; *bad;
	        bad++) {
		char keys[64];
		layout_do("HSET t a %s", *bad);
		snprintf(keys, sizeof keys, "t{a=%s}", *bad);
		assert_refused(keys);
	}
	layout_do("DEL t");
	layout_do("HSET t A.1 x");
	assert_int_equal(expect(LOCK_FAILED, renew(&A, 'W', 1, 0, 1)).code, SNECK_ETYPE);
	assert_keys("t{A.1=x}");
}

static void names_with_braces_and_colons(void **state) {
	(void)state;
	layout_name = "{test}:abc:key";
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	assert_keys("{test}:abc:key{A.1=1}");
	expect(LOCK_DONE, withdraw(&A, 'W', 1));
	assert_keys("{test}:abc:key:sneck_buried:A.1=1");
	assert_heard("redisson_lock__channel:{test}:abc:key 0\n");
	layout_name = "a}b:c";
	expect(LOCK_GRANTED, acquire(&A, 'W', 2));
	expect(LOCK_DONE, release(&A, 'W', 2));
	assert_heard("redisson_lock__channel:{a}b:c} 0\n");
}

static void in_a_cluster_channels_lie_in_slots(void **state) {
	(void)state;
	struct dialect_session session = A;
	session.sharded = true;
	long before = layout_calls("spublish");
	expect(LOCK_GRANTED, acquire(&session, 'W', 1));
	expect(LOCK_DONE, release(&session, 'W', 1));
	assert_heard(""); /* by plain channels */
	assert_int_equal(layout_calls("spublish") - before, 1);
}

/* By the rules of the server (the tag is what stands in the first pair of braces, unless that is nothing) and
 * of Redisson (braces are put round a name that has no opening one). */
static void in_a_cluster_all_keys_have_one_slot(void **state) {
	static const struct {
		const char *name;
		int result;
	} names[] = {
		{ "plain", 0 },
		{ "a:b:c", 0 },
		{ "{tag}", 0 },
		{ "{tag}:rest", 0 },
		{ "before{tag}rest", 0 },
		{ "{tag}}", 0 },
		{ "{a}{", 0 },
		{ "a{b", SNECK_EINVAL },
		{ "{}x", SNECK_EINVAL },
		{ "{", SNECK_EINVAL },
		{ "}{", SNECK_EINVAL },
		{ "a}b", SNECK_EINVAL },
		{ "{}{tag}", SNECK_EINVAL },
	};
	struct dialect_session session = A;
	sneck_error error;
	(void)state;

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		const char *name = names[i].name;
		session.sharded = true;
		int r = layout_dialect->check_name(&session, name, strlen(name), &error);
		if (r != names[i].result)
			fail_msg("%s: %d", name, r);
		if (r < 0)
			assert_non_null(strstr(error.text, "{orders}:7"));
		session.sharded = false;
		assert_int_equal(layout_dialect->check_name(&session, name, strlen(name), &error), 0);
	}
	session.sharded = true;
	session.prefix = "{app}:"; /* is part of the name, and has its tag */
	assert_int_equal(layout_dialect->check_name(&session, "a}b", 3, &error), 0);
	assert_int_equal(layout_dialect->check_name(&session, "{}x", 3, &error), 0);
}

static void a_prefix_is_part_of_the_name(void **state) {
	(void)state;
	struct dialect_session session = A;
	session.prefix = "app:";
	expect(LOCK_GRANTED, acquire(&session, 'W', 1));
	assert_keys("app:t{A.1=1}");
	expect(LOCK_DONE, release(&session, 'W', 1));
	assert_heard("redisson_lock__channel:{app:t} 0\n");
}

static void what_the_layout_cannot_do(void **state) {
	(void)state;
	const enum lock_op_kind kinds[] = { OP_UPGRADE, OP_DOWNGRADE, OP_RENAME, OP_ADVANCE };
	struct buf out = BUF_INIT;

	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		struct lock_op op = layout_op(kinds[i], 'W', 2);
		op.old = 1;
		assert_int_equal(layout_dialect->encode(&A, &op, "t", 1, false, &out), SNECK_ENOTSUP);
		assert_int_equal(out.len, 0);
	}
	snecki_buf_done(&out);
}

static void only_zero_and_one_say_free(void **state) {
	(void)state;
	assert_true(layout_dialect->says_free("0", 1));
	assert_true(layout_dialect->says_free("1", 1));
	assert_false(layout_dialect->says_free("2", 1));
	assert_false(layout_dialect->says_free("10", 2));
	assert_false(layout_dialect->says_free("", 0));
}

/* When memory is full nothing can be taken, and everything be given back. */
static void memory_is_full(void **state) {
	(void)state;
	expect(LOCK_GRANTED, acquire(&A, 'W', 1));
	layout_do("CONFIG SET maxmemory 1");
	layout_name = "u";
	assert_int_equal(expect(LOCK_FAILED, acquire(&B, 'W', 1)).code, SNECK_ESERVER);
	layout_name = "t";
	expect(LOCK_GRANTED, renew(&A, 'W', 1, 0, 1));
	expect(LOCK_DONE, withdraw(&A, 'W', 1));
	layout_do("CONFIG SET maxmemory 0");
	assert_keys("{t}:sneck_buried:A.1=1");
	assert_heard(CHANNEL " 0\n");
}

/* ---- RFencedLock --------------------------------------------------------------------------------*/

static void tokens_grow(void **state) {
	(void)state;
	assert_int_equal(expect(LOCK_GRANTED, acquire(&A, 'W', 1)).token, 1);
	assert_keys("redisson_lock_token:{t}=1 t{A.1=1}");
	assert_int_equal(layout_do("PTTL redisson_lock_token:{t}"), -1);
	/* The same request, a renewal and a re-entry keep it. */
	assert_int_equal(expect(LOCK_GRANTED, acquire(&A, 'W', 1)).token, 1);
	assert_int_equal(expect(LOCK_GRANTED, renew(&A, 'W', 1, 0, 2)).token, 1);
	assert_keys("redisson_lock_token:{t}=1 t{A.1=2}");
	assert_int_equal(expect(LOCK_WAITING, acquire(&B, 'W', 1)).token, 1);
	assert_int_equal(expect(LOCK_DONE, release(&A, 'W', 1)).token, 1);
	assert_keys("redisson_lock_token:{t}=1");
	assert_heard(CHANNEL " 0\n");
	assert_int_equal(expect(LOCK_GRANTED, beat(&B, 'W', 1)).token, 2);
}

static void a_counter_that_is_none(void **state) {
	(void)state;
	layout_do("SET redisson_lock_token:{t} x");
	assert_int_equal(expect(LOCK_FAILED, acquire(&A, 'W', 1)).code, SNECK_ETYPE);
	assert_keys("redisson_lock_token:{t}=x");
	layout_do("DEL redisson_lock_token:{t}");
	layout_do("RPUSH redisson_lock_token:{t} x");
	assert_int_equal(expect(LOCK_FAILED, acquire(&A, 'W', 1)).code, SNECK_ETYPE);
	assert_keys("redisson_lock_token:{t}[x]");
}

int main(void) {
	const struct CMUnitTest lock[] = {
		LAYOUT_HEARING_TEST(a_free_lock_is_taken),
		LAYOUT_HEARING_TEST(the_other_is_told_how_long),
		LAYOUT_HEARING_TEST(a_lock_without_an_end),
		LAYOUT_HEARING_TEST(a_release_frees_and_tells),
		LAYOUT_HEARING_TEST(counts_are_told),
		LAYOUT_HEARING_TEST(a_renewal_lengthens_and_never_shortens),
		LAYOUT_HEARING_TEST(a_request_sent_twice_changes_nothing_twice),
		LAYOUT_HEARING_TEST(what_is_cancelled_is_given_back),
		LAYOUT_HEARING_TEST(the_buried_stay_dead),
		LAYOUT_HEARING_TEST(what_is_buried_loses_its_hold),
		LAYOUT_HEARING_TEST(other_layouts_are_refused),
		LAYOUT_HEARING_TEST(names_with_braces_and_colons),
		LAYOUT_HEARING_TEST(in_a_cluster_channels_lie_in_slots),
		LAYOUT_TEST(in_a_cluster_all_keys_have_one_slot),
		LAYOUT_HEARING_TEST(a_prefix_is_part_of_the_name),
		LAYOUT_HEARING_TEST(what_the_layout_cannot_do),
		LAYOUT_HEARING_TEST(only_zero_and_one_say_free),
		LAYOUT_HEARING_TEST(memory_is_full),
	};
	const struct CMUnitTest fenced[] = {
		LAYOUT_HEARING_TEST(tokens_grow),
		LAYOUT_HEARING_TEST(a_counter_that_is_none),
	};
	int failed = cmocka_run_group_tests(lock, lock_up, layout_down);
	return failed + cmocka_run_group_tests(fenced, fenced_up, layout_down);
}
