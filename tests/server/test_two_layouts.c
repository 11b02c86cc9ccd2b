/* SPDX-License-Identifier: MIT */
/* One client, locks of several layouts: each acquire may name its own, and names of two layouts are two
 * locks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "locks.h"
#include "wait.h"

static struct test_server *const server = &test_the_server;

static sneck_acquire_options of(const char *dialect, int64_t wait_ms) {
	sneck_acquire_options options = test_waiting(wait_ms);

	options.dialect = dialect;
	return options;
}

static void one_name_two_locks(void **state) {
	sneck_client *client = test_open(server->url);
	const sneck_acquire_options java = of("redisson:lock", 0), hash = of("counted", 0);
	char id[SNECK_ID_MAX];
	(void)state;

	sneck_hold *ours = test_take(client, "door", SNECK_WRITE, 0);
	sneck_hold *theirs = test_take_opts(client, "door", SNECK_WRITE, &java);
	assert_true(sneck_hold_token(ours) > 0);
	assert_int_equal(sneck_hold_token(theirs), 0);
	assert_int_equal(test_redis_int(server, "ZCARD sneck:{door}"), 2);
	assert_int_equal(test_redis_int(server, "HLEN door"), 1);
	/* Re-entry is of a layout as well. */
	sneck_hold *again = test_take_opts(client, "door", SNECK_WRITE, &java);
	assert_result(0, sneck_hold_id(theirs, id), NULL);
	assert_true(WAIT_UNTIL(test_redis_int(server, "HGET door %s", id + 1) == 2, 2000));
	test_release(ours);
	assert_true(sneck_check(again, 1000));
	/* And a third one, which finds a hash of another layout. */
	sneck_hold *hold = NULL;
	assert_result(SNECK_ETYPE, sneck_acquire(client, "door", SNECK_WRITE, &hash, &hold, NULL), NULL);
	test_release(again);
	test_release(theirs);
	assert_int_equal(test_redis_int(server, "EXISTS door"), 0);
	test_release(test_take_opts(client, "door", SNECK_WRITE, &hash));
	sneck_close(client);
}

/* The client's own layout needs no queue; that of the lock does, and the reverse. */
static void who_waits_is_woken_by_the_lock_s_own_means(void **state) {
	char url[TEST_URL_MAX];
	const char *const pairs[][2] = { { "native", "redisson:lock" }, { "redisson:lock", "native" },
		{ "counted", "intent" } };
	(void)state;

	for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
		test_url_with(server, url, "dialect=%s", pairs[i][0]);
		sneck_client *holder = test_open(url), *waiter = test_open(url);
		const sneck_acquire_options now = of(pairs[i][1], 0), later = of(pairs[i][1], 20000);
		struct test_call call;
		sneck_hold *hold = test_take_opts(holder, "gate", SNECK_WRITE, &now);
		test_call_start(&call, waiter, "gate", SNECK_WRITE, &later);
		assert_true(WAIT_UNTIL(test_stats(waiter).waiters == 1, 5000));
		test_release(hold);
		assert_result(0, test_call_join(&call), &call.error);
		test_release(call.hold);
		sneck_close(waiter);
		sneck_close(holder);
	}
}

static void what_is_not_known_is_refused(void **state) {
	sneck_client *client = test_open(server->url);
	sneck_acquire_options options = of("redisson", 0);
	sneck_error error = { 0 };
	sneck_hold *hold = NULL;
	(void)state;

	assert_result(
	        SNECK_EINVAL, sneck_acquire(client, "door", SNECK_WRITE, &options, &hold, &error), NULL);
	assert_non_null(strstr(error.text, "redisson:rwlock"));
	options.dialect = "redisson:lock";
	assert_result(SNECK_EINVAL, sneck_acquire(client, "door", SNECK_READ, &options, &hold, &error), NULL);
	options.need_token = 1;
	assert_result(
	        SNECK_ENOTSUP, sneck_acquire(client, "door", SNECK_WRITE, &options, &hold, &error), NULL);
	options.dialect = "redisson:fenced";
	hold = test_take_opts(client, "door", SNECK_WRITE, &options);
	assert_true(sneck_hold_token(hold) > 0);
	test_release(hold);
	sneck_close(client);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(one_name_two_locks),
		TEST(who_waits_is_woken_by_the_lock_s_own_means),
		TEST(what_is_not_known_is_refused),
	};
	return cmocka_run_group_tests(tests, test_server_up, test_server_down);
}
