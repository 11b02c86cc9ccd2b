/* SPDX-License-Identifier: MIT */
/* Locks that replicas have to acknowledge, on a primary with two: what they have not got is not taken, and
 * one that has stopped delays nobody who does not ask for it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "locks.h"
#include "proxy.h"
#include "rule.h"
#include "wait.h"

enum { REPLICAS = 2, ACK_MS = 300, LONG_ACK_MS = 5000 };

static struct test_server primary, replicas[REPLICAS];

/* Both follow: they have got something that was written just now. */
static bool linked(void) {
	redisContext *context = test_server_connect(&primary);
	if (!context)
		return false;
	freeReplyObject(redisCommand(context, "SET probe 1 PX 1000"));
	redisReply *reply = redisCommand(context, "WAIT %d 200", REPLICAS);
	bool all = reply && reply->type == REDIS_REPLY_INTEGER && reply->integer == REPLICAS;
	freeReplyObject(reply);
	redisFree(context);
	return all;
}

static int up(void **state) {
	(void)state;
	char port[16];
	const char *first[] = { "--repl-diskless-sync-delay", "0", NULL };

	if (test_server_start_tcp(&primary, first) < 0)
		return -1;
	snprintf(port, sizeof port, "%d", primary.port);
	const char *args[] = { "--replicaof", "127.0.0.1", port, NULL };
	for (int i = 0; i < REPLICAS; i++)
		if (test_server_start_tcp(&replicas[i], args) < 0)
			return -1;
	sneck_client *client = test_open(primary.url); /* so that the server knows the scripts */
	sneck_hold *hold = test_take(client, "warm", SNECK_WRITE, 0);
	assert_int_equal(sneck_renew(hold, 0, NULL), 0);
	test_release(hold);
	sneck_close(client);
	return WAIT_UNTIL(linked(), 20000) ? 0 : -1;
}

static int down(void **state) {
	(void)state;
	for (int i = 0; i < REPLICAS; i++)
		test_server_stop(&replicas[i]);
	test_server_stop(&primary);
	return 0;
}

static int clean(void **state) {
	(void)state;
	test_redis_ok(&primary, "FLUSHALL");
	if (!WAIT_UNTIL(linked(), 20000))
		return -1;
	test_redis_ok(&primary, "CONFIG RESETSTAT");
	return 0;
}

static sneck_acquire_options acked_by(uint32_t n, uint32_t ack_ms, int64_t wait_ms) {
	sneck_acquire_options options = test_waiting(wait_ms);

	options.ack_replicas = n;
	options.ack_ms = ack_ms;
	return options;
}

/* How often WAIT was called since the test began. */
static long waits(void) {
	return test_calls(&primary, 1, "wait");
}

static int refused_by_replicas(sneck_client *client, const char *name, sneck_mode mode,
        const sneck_acquire_options *options, sneck_error *error) {
	sneck_hold *hold = NULL;
	int r = sneck_acquire(client, name, mode, options, &hold, error);
	if (r == 0)
		test_release(hold);
	return r;
}

/* ---- Enough of them -----------------------------------------------------------------------------*/

static void what_is_granted_is_on_the_replicas(void **state) {
	(void)state;
	sneck_client *client = test_open(primary.url);
	sneck_acquire_options options = acked_by(REPLICAS, LONG_ACK_MS, 0);

	for (int i = 0; i < 50; i++) {
		char name[32];
		snprintf(name, sizeof name, "door-%d", i);
		sneck_mode mode = i % 2 ? SNECK_WRITE : SNECK_READ;
		options.fixed = i % 3 == 0;
		sneck_hold *hold = test_take_opts(client, name, mode, &options);
		for (int r = 0; r < REPLICAS; r++)
			assert_int_equal(test_members(&replicas[r], name, "RW"), 1);
		assert_true(sneck_check(hold, SNECK_LEASE_DEFAULT_MS / 2));
		test_release(hold);
	}
	assert_int_equal(waits(), 50);
	sneck_close(client);
}

/* One WAIT for each grant; none for re-entry, renewal, downgrade, release, nor when somebody else has it. */
static void nothing_else_waits(void **state) {
	(void)state;
	sneck_client *client = test_open(primary.url), *other = test_open(primary.url);
	sneck_acquire_options options = acked_by(1, LONG_ACK_MS, 0);
	sneck_error error = { 0 };
	sneck_hold *hold = test_take_opts(client, "door", SNECK_WRITE, &options);

	assert_int_equal(waits(), 1);
	assert_int_equal(refused_by_replicas(other, "door", SNECK_WRITE, &options, &error), SNECK_EBUSY);
	test_release(test_take_opts(client, "door", SNECK_WRITE, &options));
	assert_result(0, sneck_renew(hold, 0, &error), &error);
	assert_result(0, sneck_downgrade(hold, &error), &error);
	test_release(hold);
	assert_int_equal(waits(), 1);
	test_release(test_take(client, "door", SNECK_WRITE, 0));
	assert_int_equal(waits(), 1);
	sneck_close(client);
	sneck_close(other);
}

static void the_client_says_it_for_all(void **state) {
	(void)state;
	sneck_client_options options = SNECK_CLIENT_OPTIONS_INIT;
	sneck_acquire_options own = SNECK_ACQUIRE_OPTIONS_INIT;
	sneck_client *client = NULL;
	sneck_error error = { 0 };

	options.ack_replicas = 1;
	assert_result(0, sneck_open(primary.url, &options, &client, &error), &error);
	test_release(test_take(client, "door", SNECK_WRITE, 0));
	assert_int_equal(waits(), 1);
	own.ack_replicas = SNECK_ACK_OFF;
	test_release(test_take_opts(client, "door", SNECK_WRITE, &own));
	assert_int_equal(waits(), 1);
	own.ack_replicas = REPLICAS + 1;
	own.ack_ms = ACK_MS;
	assert_result(
	        SNECK_EREPLICAS, refused_by_replicas(client, "door", SNECK_WRITE, &own, &error), &error);
	sneck_close(client);
}

static void a_grant_that_was_acknowledged_is_passed_on(void **state) {
	(void)state;
	sneck_client *client = test_open(primary.url);
	sneck_acquire_options options = acked_by(1, LONG_ACK_MS, 5000);
	struct test_call next;

	options.owner = 1;
	sneck_hold *hold = test_take_opts(client, "door", SNECK_WRITE, &options);
	options.owner = 2;
	test_call_start(&next, client, "door", SNECK_WRITE, &options);
	assert_true(WAIT_UNTIL(test_stats(client).waiters == 1, 5000));
	test_release(hold);
	assert_int_equal(test_call_join(&next), 0);
	assert_int_equal(waits(), 1);
	options.owner = 3;
	options.ack_replicas = REPLICAS; /* more than have said so: they are asked again */
	struct test_call more;
	test_call_start(&more, client, "door", SNECK_WRITE, &options);
	assert_true(WAIT_UNTIL(test_stats(client).waiters == 1, 5000));
	test_release(next.hold);
	assert_int_equal(test_call_join(&more), 0);
	test_release(more.hold);
	assert_true(waits() <= 2); /* the first WAIT may have heard both */
	sneck_close(client);
}

static void what_lingers_unacknowledged_is_acknowledged_before_it_is_taken_again(void **state) {
	(void)state;
	sneck_client *client = test_open(primary.url);
	sneck_acquire_options options = SNECK_ACQUIRE_OPTIONS_INIT;

	options.linger_ms = 20000;
	test_release(test_take_opts(client, "door", SNECK_WRITE, &options));
	assert_int_equal(waits(), 0);
	options.ack_replicas = REPLICAS;
	sneck_hold *hold = test_take_opts(client, "door", SNECK_WRITE, &options);
	assert_int_equal(waits(), 1);
	assert_int_equal(test_stats(client).retakes, 1);
	test_release(hold);
	test_release(test_take_opts(client, "door", SNECK_WRITE, &options));
	assert_int_equal(waits(), 1);
	sneck_close(client);
}

/* ---- Waiting and upgrading ----------------------------------------------------------------------*/

static void a_waiter_claims_before_it_believes(void **state) {
	(void)state;
	sneck_client *client = test_open(primary.url), *other = test_open(primary.url);
	sneck_acquire_options options = acked_by(REPLICAS, LONG_ACK_MS, 5000);
	struct test_call waiter;
	sneck_hold *hold = test_take(other, "door", SNECK_WRITE, 0);

	test_call_start(&waiter, client, "door", SNECK_WRITE, &options);
	assert_true(test_await_members(&primary, "door", "w", 1, 5000));
	assert_int_equal(waits(), 0);
	test_release(hold);
	assert_int_equal(test_call_join(&waiter), 0);
	assert_int_equal(waits(), 1);
	assert_int_equal(test_stats(client).grants_by_message, 0);
	for (int r = 0; r < REPLICAS; r++)
		assert_int_equal(test_members(&replicas[r], "door", "W"), 1);
	test_release(waiter.hold);
	sneck_close(client);
	sneck_close(other);
}

static void an_upgrade_is_acknowledged_or_stays_read(void **state) {
	(void)state;
	sneck_client *client = test_open(primary.url);
	sneck_acquire_options options = acked_by(REPLICAS, ACK_MS, 0);
	sneck_error error = { 0 };
	sneck_hold *hold = test_take_opts(client, "door", SNECK_READ, &options);

	assert_result(0, sneck_upgrade(hold, NULL, &error), &error); /* as the hold */
	assert_int_equal(waits(), 2);
	assert_int_equal(test_members(&replicas[0], "door", "W"), 1);
	assert_result(0, sneck_downgrade(hold, &error), &error);
	test_server_stopcont(&replicas[1], true);
	assert_result(SNECK_EREPLICAS, sneck_upgrade(hold, NULL, &error), &error);
	assert_non_null(strstr(error.text, "1 of 2"));
	assert_true(test_await_members(&primary, "door", "R", 1, 5000));
	assert_int_equal(sneck_hold_mode(hold), SNECK_READ);
	assert_int_equal(sneck_hold_state(hold), SNECK_HELD);
	test_server_stopcont(&replicas[1], false);
	assert_true(WAIT_UNTIL(linked(), 20000));
	assert_result(0, sneck_upgrade(hold, NULL, &error), &error);
	test_release(hold);
	assert_true(test_is_idle(&primary, "door"));
	sneck_close(client);
}

/* ---- Too few ------------------------------------------------------------------------------------*/

static void too_few_and_it_is_undone(void **state) {
	(void)state;
	sneck_client *client = test_open(primary.url), *other = test_open(primary.url);
	sneck_acquire_options options = acked_by(REPLICAS, ACK_MS, 0);
	sneck_error error = { 0 };

	test_server_stopcont(&replicas[0], true);
	for (int fixed = 0; fixed < 2; fixed++) {
		options.fixed = (uint32_t)fixed;
		int64_t began = test_now_ms();
		assert_result(SNECK_EREPLICAS,
		        refused_by_replicas(client, "door", SNECK_WRITE, &options, &error), &error);
		int64_t took = test_now_ms() - began;
		assert_in_range(took, ACK_MS - 5, ACK_MS + TEST_SLACK_MS);
		assert_non_null(strstr(error.text, "1 of 2 replicas"));
		assert_int_equal(sneck_err_outcome(SNECK_EREPLICAS), SNECK_OUTCOME_FAILED);
		assert_true(WAIT_UNTIL(test_is_idle(&primary, "door"), 5000));
		test_release(test_take(other, "door", SNECK_WRITE, 1000));
	}
	options = acked_by(1, LONG_ACK_MS, 0); /* there is one */
	test_release(test_take_opts(client, "door", SNECK_WRITE, &options));
	test_server_stopcont(&replicas[0], false);
	options = acked_by(REPLICAS, LONG_ACK_MS, 0);
	assert_true(WAIT_UNTIL(linked(), 20000));
	test_release(test_take_opts(client, "door", SNECK_WRITE, &options));
	sneck_close(client);
	sneck_close(other);
}

/* While one waits for a replica that has stopped, the rest of the client goes on. */
static void nobody_else_is_delayed(void **state) {
	(void)state;
	sneck_client *client = test_open(primary.url);
	sneck_acquire_options options = acked_by(REPLICAS, LONG_ACK_MS, 0);
	sneck_acquire_options one = acked_by(1, LONG_ACK_MS, 0);
	struct test_call slow;

	test_release(test_take_opts(client, "warm", SNECK_WRITE, &options)); /* the connections are there */
	test_server_stopcont(&replicas[0], true);
	test_call_start(&slow, client, "slow", SNECK_WRITE, &options);
	assert_true(WAIT_UNTIL(waits() >= 1 && test_members(&primary, "slow", "W") == 1, 5000));
	int64_t began = test_now_ms();
	for (int i = 0; i < 20; i++) {
		test_release(test_take(client, "plain", SNECK_WRITE, 0));
		test_release(test_take_opts(client, "acked", SNECK_WRITE, &one));
	}
	assert_false(atomic_load(&slow.done));
	assert_true(test_now_ms() - began < LONG_ACK_MS / 2);
	test_server_stopcont(&replicas[0], false);
	assert_int_equal(test_call_join(&slow), 0);
	test_release(slow.hold);
	sneck_close(client);
}

/* The server is silent for longer than a command may take, and that is as it should be. */
static void replicas_may_take_longer_than_a_command(void **state) {
	(void)state;
	sneck_client *client = test_open_command_ms(primary.url, ACK_MS);
	sneck_acquire_options options = acked_by(REPLICAS, 4 * ACK_MS, 0);
	sneck_error error = { 0 };

	test_server_stopcont(&replicas[0], true);
	int64_t began = test_now_ms();
	assert_result(
	        SNECK_EREPLICAS, refused_by_replicas(client, "door", SNECK_WRITE, &options, &error), &error);
	assert_true(test_now_ms() - began >= 4 * ACK_MS - 5);
	assert_non_null(strstr(error.text, "1 of 2"));
	test_server_stopcont(&replicas[0], false);
	assert_int_equal(test_stats(client).disconnects, 0);
	sneck_close(client);
}

/* What one was refused for lack of replicas goes to the next here who asks for none. */
static void the_next_may_ask_for_less(void **state) {
	(void)state;
	sneck_client *client = test_open(primary.url);
	sneck_acquire_options options = acked_by(REPLICAS, ACK_MS, 5000);
	struct test_call strict, plain;

	test_server_stopcont(&replicas[0], true);
	options.owner = 1;
	test_call_start(&strict, client, "door", SNECK_WRITE, &options);
	assert_true(WAIT_UNTIL(test_members(&primary, "door", "W") == 1, 5000));
	sneck_acquire_options waiting = test_waiting(5000);
	waiting.owner = 2;
	test_call_start(&plain, client, "door", SNECK_WRITE, &waiting);
	assert_int_equal(test_call_join(&strict), SNECK_EREPLICAS);
	assert_int_equal(test_call_join(&plain), 0);
	assert_int_equal(test_members(&primary, "door", "W"), 1);
	test_release(plain.hold);
	test_server_stopcont(&replicas[0], false);
	sneck_close(client);
}

static void given_up_while_replicas_are_asked(void **state) {
	(void)state;
	sneck_client *client = test_open(primary.url);
	sneck_acquire_options options = acked_by(REPLICAS, LONG_ACK_MS, 5000);
	struct test_call call;

	options.tag = 7;
	test_server_stopcont(&replicas[0], true);
	test_call_start(&call, client, "door", SNECK_WRITE, &options);
	assert_true(WAIT_UNTIL(test_members(&primary, "door", "W") == 1, 5000));
	int64_t began = test_now_ms();
	assert_int_equal(sneck_cancel(client, 7), 1);
	assert_int_equal(test_call_join(&call), SNECK_ECANCELED);
	assert_true(WAIT_UNTIL(test_is_idle(&primary, "door"), 5000));
	assert_true(test_now_ms() - began < LONG_ACK_MS / 2);
	test_server_stopcont(&replicas[0], false);
	sneck_close(client);
}

/* ---- Trouble ------------------------------------------------------------------------------------*/

/* A connection that is in WAIT. */
static void kill_waiting(void) {
	redisReply *list = test_redis(&primary, "CLIENT LIST");

	assert_non_null(list);
	const char *row = strstr(list->str, "cmd=wait");
	while (row && row > list->str && row[-1] != '\n')
		row--;
	if (row && strstr(row, "flags=b"))
		freeReplyObject(
		        test_redis(&primary, "CLIENT KILL ID %lld", strtoll(row + strlen("id="), NULL, 10)));
	freeReplyObject(list);
}

static void the_connection_breaks_meanwhile(void **state) {
	(void)state;
	sneck_client *client = test_open(primary.url);
	sneck_acquire_options options = acked_by(REPLICAS, LONG_ACK_MS, 0);
	struct test_call call;

	test_server_stopcont(&replicas[0], true);
	test_call_start(&call, client, "door", SNECK_WRITE, &options);
	assert_true(WAIT_UNTIL(test_members(&primary, "door", "W") == 1, 5000));
	assert_true(WAIT_UNTIL(atomic_load(&call.done) || (kill_waiting(), false), 5000));
	assert_int_equal(test_call_join(&call), SNECK_EREPLICAS);
	assert_non_null(strstr(call.error.text, "broke"));
	assert_true(WAIT_UNTIL(test_is_idle(&primary, "door"), 5000));
	test_server_stopcont(&replicas[0], false);
	assert_true(WAIT_UNTIL(linked(), 20000));
	test_release(test_take_opts(client, "door", SNECK_WRITE, &options));
	sneck_close(client);
}

/* The server itself refuses to write, which is told as it says it; and it must not ask replicas then. */
static void the_server_wants_replicas_as_well(void **state) {
	(void)state;
	sneck_client *client = test_open(primary.url);
	sneck_acquire_options options = acked_by(1, ACK_MS, 0);
	sneck_error error = { 0 };

	test_redis_ok(&primary, "CONFIG SET min-replicas-to-write 3");
	assert_result(
	        SNECK_ESERVER, refused_by_replicas(client, "door", SNECK_WRITE, &options, &error), &error);
	test_redis_ok(&primary, "CONFIG SET min-replicas-to-write 0");
	assert_non_null(strstr(error.text, "NOREPLICAS"));
	assert_int_equal(waits(), 0);
	sneck_close(client);
}

static void a_user_may_not_wait(void **state) {
	(void)state;
	sneck_client_options options = SNECK_CLIENT_OPTIONS_INIT;
	sneck_acquire_options own = acked_by(1, ACK_MS, 0);
	sneck_client *client = NULL;
	sneck_error error = { 0 };

	test_redis_ok(&primary, "ACL SETUSER hasty on >pw ~* &* +@all -wait");
	options.user = "hasty";
	options.password = "pw";
	assert_result(0, sneck_open(primary.url, &options, &client, &error), &error);
	assert_result(SNECK_EACCES, refused_by_replicas(client, "door", SNECK_WRITE, &own, &error), &error);
	assert_true(WAIT_UNTIL(test_is_idle(&primary, "door"), 5000));
	sneck_close(client);
}

static void what_cannot_be(void **state) {
	(void)state;
	sneck_client *client = test_open(primary.url);
	sneck_acquire_options options = acked_by(1, 600, 0);
	sneck_error error = { 0 };

	options.lease_ms = 600;
	assert_result(
	        SNECK_EINVAL, refused_by_replicas(client, "door", SNECK_WRITE, &options, &error), &error);
	options.lease_ms = 0;
	options.dialect = "redisson:lock";
	assert_result(
	        SNECK_ENOTSUP, refused_by_replicas(client, "door", SNECK_WRITE, &options, &error), &error);
	sneck_close(client);
	sneck_client_options all = SNECK_CLIENT_OPTIONS_INIT;
	all.dialect = "redisson:lock";
	all.ack_replicas = 1;
	assert_result(SNECK_ENOTSUP, sneck_open(primary.url, &all, &client, &error), &error);
}

#define ACK_TEST(function) cmocka_unit_test_setup(function, clean)

int main(void) {
	const struct CMUnitTest tests[] = {
		ACK_TEST(what_is_granted_is_on_the_replicas),
		ACK_TEST(nothing_else_waits),
		ACK_TEST(the_client_says_it_for_all),
		ACK_TEST(a_grant_that_was_acknowledged_is_passed_on),
		ACK_TEST(what_lingers_unacknowledged_is_acknowledged_before_it_is_taken_again),
		ACK_TEST(a_waiter_claims_before_it_believes),
		ACK_TEST(an_upgrade_is_acknowledged_or_stays_read),
		ACK_TEST(too_few_and_it_is_undone),
		ACK_TEST(nobody_else_is_delayed),
		ACK_TEST(replicas_may_take_longer_than_a_command),
		ACK_TEST(the_next_may_ask_for_less),
		ACK_TEST(given_up_while_replicas_are_asked),
		ACK_TEST(the_connection_breaks_meanwhile),
		ACK_TEST(the_server_wants_replicas_as_well),
		ACK_TEST(a_user_may_not_wait),
		ACK_TEST(what_cannot_be),
	};

	return cmocka_run_group_tests(tests, up, down);
}
