/* SPDX-License-Identifier: MIT */
/* Locks on a primary that sentinels watch: finding it, following it, and what a failover means for those who
 * hold and those who wait. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "locks.h"
#include "sentinels.h"
#include "wait.h"

static struct test_sentinels all;

static int up(void **state) {
	(void)state;
	return test_sentinels_start(&all, NULL, NULL);
}

static int down(void **state) {
	(void)state;
	test_sentinels_stop(&all);
	return 0;
}

static void the_primary_is_found(void **state) {
	sneck_client *client = test_open(all.url);
	int primary = test_sentinels_primary(&all);
	(void)state;

	sneck_hold *hold = test_take(client, "door", SNECK_WRITE, 0);
	assert_int_equal(test_redis_int(&all.servers[primary], "EXISTS sneck:{door}"), 1);
	test_release(hold);
	sneck_close(client);
}

/* Two of the three are dead, the first two that are asked. */
static void one_sentinel_is_enough(void **state) {
	(void)state;
	test_server_kill9(&all.sentinels[0]);
	test_server_stopcont(&all.sentinels[1], true);
	sneck_client *client = test_open(all.url);
	test_release(test_take(client, "door", SNECK_WRITE, 5000));
	sneck_close(client);
	test_server_stopcont(&all.sentinels[1], false);
	assert_int_equal(test_server_restart(&all.sentinels[0]), 0);
}

static void wrong_addresses_are_explained(void **state) {
	sneck_error error;
	char url[256];
	(void)state;

	snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:%d/other", all.sentinels[0].port);
	assert_result(SNECK_EINVAL, test_connect(url, &error), &error);
	assert_non_null(strstr(error.text, "no service 'other'"));
	assert_result(
	        SNECK_ECONN, test_connect("redis+sentinel://127.0.0.1:1,127.0.0.1:2/locks", &error), &error);
	assert_non_null(strstr(error.text, "127.0.0.1:2"));
	snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:%d/locks", all.servers[0].port);
	assert_result(SNECK_ENOTSUP, test_connect(url, &error), &error);
	assert_non_null(strstr(error.text, "no Sentinel"));
	snprintf(url, sizeof url, "redis://127.0.0.1:%d", all.sentinels[0].port);
	assert_result(SNECK_ENOTSUP, test_connect(url, &error), &error);
	assert_non_null(strstr(error.text, "redis+sentinel://"));
	assert_result(SNECK_EINVAL, test_connect("redis+sentinel://127.0.0.1", &error), &error);
	assert_non_null(strstr(error.text, "service is missing"));
}

/* What had reached the replica is still held; nobody notices but for the pause. */
static void a_hold_outlives_a_failover(void **state) {
	sneck_client *client = test_open(all.url), *other = test_open(all.url);
	(void)state;

	sneck_hold *hold = test_take(client, "door", SNECK_WRITE, 0);
	uint64_t token = sneck_hold_token(hold);
	int old = test_sentinels_primary(&all);
	test_sentinels_settle(&all);
	int now = test_sentinels_fail_over(&all);
	assert_int_not_equal(now, old);
	assert_true(WAIT_UNTIL(sneck_renew(hold, 0, NULL) == 0, 10000));
	assert_int_equal(sneck_hold_state(hold), SNECK_HELD);
	assert_int_equal(sneck_hold_token(hold), token);
	assert_int_equal(test_redis_int(&all.servers[now], "EXISTS sneck:{door}"), 1);
	assert_result(SNECK_EBUSY, test_probe(other, "door", SNECK_WRITE), NULL);
	test_release(hold);
	hold = test_take(other, "door", SNECK_WRITE, 5000);
	assert_true(sneck_hold_token(hold) > token);
	test_release(hold);
	sneck_close(other);
	sneck_close(client);
}

/* What the replicas never heard of is lost, and the holder is told as soon as it is connected again. */
static void what_was_not_replicated_is_lost_and_told(void **state) {
	test_sentinels_settle(&all);
	sneck_client *client = test_open(all.url);
	int old = test_sentinels_primary(&all);
	(void)state;

	test_release(test_take(client, "warm", SNECK_WRITE, 0));
	/* The replicas cannot come back; who is connected stays. (A replica that is only stopped would read
	 * what was written to it, and is not fit to be promoted for a while.) */
	redisContext *admin = test_server_connect(&all.servers[old]);
	freeReplyObject(redisCommand(admin, "CONFIG SET requirepass shut"));
	redisReply *killed = redisCommand(admin, "CLIENT KILL TYPE replica");
	assert_int_equal(killed->integer, SENTINELS_SERVERS - 1);
	freeReplyObject(killed);
	redisFree(admin);
	sneck_hold *hold = test_take(client, "door", SNECK_WRITE, 0);
	test_server_kill9(&all.servers[old]);
	int now = test_sentinels_wait_switch(&all, old);
	int64_t before = test_now_ms();
	assert_true(WAIT_UNTIL(sneck_hold_state(hold) == SNECK_LOST, 10000));
	assert_true(test_now_ms() - before < 5000); /* by the server's word, not at the end of the lease */
	assert_result(SNECK_ELOST, sneck_release(hold), NULL);
	test_release(test_take(client, "door", SNECK_WRITE, 10000));
	sneck_close(client);
	test_sentinels_bring_back(&all, old, now);
}

static void waiters_go_on_waiting(void **state) {
	sneck_client *client = test_open(all.url), *other = test_open(all.url);
	struct test_call call;
	(void)state;

	sneck_hold *hold = test_take(client, "door", SNECK_WRITE, 0);
	sneck_acquire_options patient = test_waiting(60000);
	test_call_start(&call, other, "door", SNECK_WRITE, &patient);
	assert_true(test_await_members(&all.servers[test_sentinels_primary(&all)], "door", "w", 1, 5000));
	test_sentinels_settle(&all);
	test_sentinels_fail_over(&all);
	assert_true(WAIT_UNTIL(sneck_renew(hold, 0, NULL) == 0, 10000));
	test_release(hold);
	assert_int_equal(test_call_join(&call), 0);
	test_release(call.hold);
	sneck_close(other);
	sneck_close(client);
}

static bool asked_to_fail_over(void) {
	redisReply *reply = test_redis(&all.sentinels[0], "SENTINEL FAILOVER locks");
	bool accepted = reply && reply->type == REDIS_REPLY_STATUS;

	if (reply)
		freeReplyObject(reply);
	return accepted;
}

/* The old primary lives on, as a replica: by its refusal, or by the sentinel's word, it is left. */
static void a_demoted_primary_is_left(void **state) {
	sneck_client *client = test_open(all.url);
	int old = test_sentinels_primary(&all);
	(void)state;

	test_release(test_take(client, "door", SNECK_WRITE, 0));
	test_sentinels_settle(&all);
	assert_true(WAIT_UNTIL(asked_to_fail_over(), 30000)); /* once its replicas are known to be fit */
	int now = test_sentinels_wait_switch(&all, old);
	sneck_hold *hold = test_take(client, "door", SNECK_WRITE, 10000);
	assert_int_equal(test_redis_int(&all.servers[now], "EXISTS sneck:{door}"), 1);
	test_release(hold);
	sneck_close(client);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_primary_is_found),
		cmocka_unit_test(one_sentinel_is_enough),
		cmocka_unit_test(wrong_addresses_are_explained),
		cmocka_unit_test(a_hold_outlives_a_failover),
		cmocka_unit_test(what_was_not_replicated_is_lost_and_told),
		cmocka_unit_test(waiters_go_on_waiting),
		cmocka_unit_test(a_demoted_primary_is_left),
	};
	return cmocka_run_group_tests(tests, up, down);
}
