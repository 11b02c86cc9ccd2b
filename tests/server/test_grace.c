/* SPDX-License-Identifier: MIT */
/* The grace of a hold that was broken: it excludes others until the victim has let go or it is over, and the
 * victim knows how long that is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "break_rig.h"
#include "wait.h"

static struct test_server *const server = &test_the_server;

/* The lock waits for the program to let go, not just for the library to hear of it. */
static void grace_ends_with_the_release(void **state) {
	(void)state;
	sneck_client *victim = rig_open_as("ann"), *next = test_open(server->url), *bob = rig_open_as("bob");
	sneck_hold *hold = test_take(victim, "door", SNECK_WRITE, 0);
	rig_await_listener(victim);
	struct test_call call;
	test_call_start(&call, next, "door", SNECK_WRITE, NULL);
	assert_true(test_await_members(server, "door", "w", 1, 2000));
	rig_break_first(bob, "door", SNECK_PARTY_HOLDER, 9000);
	assert_true(WAIT_UNTIL(rig_is_broken(hold), 1000));
	uint64_t beats = test_stats(next).beats;
	assert_true(WAIT_UNTIL(test_stats(next).beats >= beats + 2, 5000)); /* time passes */
	assert_false(atomic_load(&call.done));
	sneck_lock_info *info = NULL;
	assert_result(0, sneck_inspect(bob, "door", 4, 0, &info, NULL), NULL);
	assert_int_equal(info->holder_n, 1); /* still in the way, and seen */
	assert_string_equal(info->parties[0].session, sneck_client_session(victim));
	assert_in_range((uint64_t)info->parties[0].lease_left_ms, 1, 9000);
	sneck_lock_info_free(info);
	int64_t released_ms = test_now_ms();
	assert_result(SNECK_EBROKEN, sneck_release(hold), NULL);
	assert_result(0, test_call_join(&call), &call.error);
	assert_true(call.end_ms - released_ms < 500 + TEST_SLACK_MS);
	test_release(call.hold);
	assert_true(test_is_idle(server, "door"));
	sneck_close(victim);
	sneck_close(next);
	sneck_close(bob);
}

/* The victim knows how long it has, also when that is cut short. */
static void the_grace_is_told(void **state) {
	(void)state;
	sneck_client *victim = rig_open_as("ann"), *bob = rig_open_as("bob");
	sneck_hold *hold = test_take(victim, "door", SNECK_WRITE, 0);
	sneck_event event = { .size = sizeof event };
	rig_await_listener(victim);
	assert_true(sneck_hold_left_ms(hold) > 20000);
	rig_break_first(bob, "door", SNECK_PARTY_HOLDER, 9000);
	assert_true(WAIT_UNTIL(rig_is_broken(hold), 1000));
	assert_in_range(sneck_hold_left_ms(hold), 5000, 9000 - 90); /* the margin is off */
	assert_false(sneck_check(hold, 0));                         /* nothing new is to be begun */
	assert_true(test_next_event(victim, &event, 1000));
	assert_int_equal(event.state, SNECK_BROKEN);
	rig_break_first(bob, "door", SNECK_PARTY_HOLDER, 2000);
	assert_true(test_next_event(victim, &event, 1000));
	assert_ptr_equal(event.hold, hold);
	assert_in_range(sneck_hold_left_ms(hold), 500, 2000);
	/* Longer it does not get, by whatever message. */
	assert_true(test_say(server, sneck_client_session(victim), "b 1 60000", 9) > 0);
	rig_break_first(bob, "door", SNECK_PARTY_HOLDER, 0);
	assert_true(test_next_event(victim, &event, 1000));
	assert_int_equal(sneck_hold_left_ms(hold), 0);
	assert_int_equal(sneck_hold_state(hold), SNECK_BROKEN);
	test_release(test_take(bob, "door", SNECK_WRITE, 0));
	assert_result(SNECK_EBROKEN, sneck_release(hold), NULL);
	sneck_close(victim);
	sneck_close(bob);
}

/* A victim that does not react costs the grace and no more. */
static void grace_ends_by_itself(void **state) {
	(void)state;
	enum { GRACE = 700 };
	sneck_client *victim = rig_open_as("ann"), *next = test_open(server->url), *bob = rig_open_as("bob");
	sneck_hold *hold = test_take(victim, "door", SNECK_WRITE, 0);
	struct test_call call;
	test_call_start(&call, next, "door", SNECK_WRITE, NULL);
	assert_true(test_await_members(server, "door", "w", 1, 2000));
	int64_t start_ms = test_now_ms();
	rig_break_first(bob, "door", SNECK_PARTY_HOLDER, GRACE);
	assert_result(0, test_call_join(&call), &call.error);
	assert_true(call.end_ms - start_ms >= GRACE - 5);
	/* The head of the queue beats each second. */
	assert_true(call.end_ms - start_ms <= GRACE + SNECK_WAITER_BEAT_MS + TEST_SLACK_MS);
	assert_result(SNECK_EBROKEN, sneck_release(hold), NULL);
	test_release(call.hold);
	sneck_close(victim);
	sneck_close(next);
	sneck_close(bob);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(grace_ends_with_the_release),
		TEST(the_grace_is_told),
		TEST(grace_ends_by_itself),
	};
	return TEST_RUN(tests);
}
