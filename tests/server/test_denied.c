/* SPDX-License-Identifier: MIT */
/* Users who lack a right: each right of the holder's rule is taken away in turn, before a lock is asked for
 * and while it is held, waited for, released. What fails says which right is missing, and nobody who is
 * refused asks again and again: the server itself counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "locks.h"
#include "rule.h"
#include "wait.h"

enum { RIGHTS_MAX = 48, LEASE_MS = 3000 };

static struct test_server *const server = &test_the_server;
static char needs[512], words[512];
static const char *rights[RIGHTS_MAX];
static int rights_n;

/* What the rule allows is asked once, as somebody who may do everything. */
static int up(void **state) {
	sneck_probe_info info = SNECK_PROBE_INFO_INIT;

	if (test_server_up(state) < 0)
		return -1;
	sneck_client *client = test_open(server->url);
	info.wanted = SNECK_PROBE_POLICY;
	assert_result(0, sneck_probe(client, &info, NULL), NULL);
	sneck_close(client);
	snprintf(needs, sizeof needs, "%s", info.needs[SNECK_ROLE_HOLDER]);
	memcpy(words, needs, sizeof words);
	for (char *word = strtok(words, " "); word && rights_n < RIGHTS_MAX; word = strtok(NULL, " "))
		rights[rights_n++] = word;
	return rights_n > 10 ? 0 : -1;
}

/* The holder's rule, without `missing` (NULL: all of it); by one command, lest somebody be refused anything
 * else meanwhile. */
static void set_rule(const char *missing) {
	test_allow(server, "holder", ">pw ~sneck:* &sneck:!*", needs, missing);
}

static sneck_client *open_holder(void) {
	sneck_client_options options = SNECK_CLIENT_OPTIONS_INIT;
	sneck_client *client = NULL;
	sneck_error error = { 0 };

	options.user = "holder";
	options.password = "pw";
	assert_result(0, sneck_open(server->url, &options, &client, &error), &error);
	return client;
}

/* Script calls since CONFIG RESETSTAT, also those that were refused. */
static long scripts_called(void) {
	static const char *const lines[] = { "cmdstat_evalsha:", "cmdstat_eval:" };
	redisReply *reply = test_redis(server, "INFO commandstats");
	long n = 0;

	assert_non_null(reply);
	for (size_t i = 0; i < 2; i++) {
		const char *at = strstr(reply->str, lines[i]);
		const char *rejected = at ? strstr(at, "rejected_calls=") : NULL;
		if (rejected)
			n += strtol(at + strlen(lines[i]) + strlen("calls="), NULL, 10) +
			     strtol(rejected + strlen("rejected_calls="), NULL, 10);
	}
	freeReplyObject(reply);
	return n;
}

/* As the server tells it, or as the library has found out. */
static bool names(const char *text, const char *right) {
	char with_plus[64], quoted[64];

	snprintf(with_plus, sizeof with_plus, "+%s", right);
	snprintf(quoted, sizeof quoted, "'%s'", right);
	return strstr(text, with_plus) || strstr(text, quoted);
}

/* ---- Asking -------------------------------------------------------------------------------------*/

/* Take and release once; 0, or SNECK_EACCES, which must name the right. */
static int take_and_release(sneck_client *client, const char *missing) {
	sneck_acquire_options options = test_waiting(2000);
	sneck_error error = { 0 };
	sneck_hold *hold = NULL;
	int64_t begin_ms = test_now_ms();
	int r = sneck_acquire(client, "door", SNECK_WRITE, &options, &hold, &error);

	if (r == 0) {
		r = sneck_release(hold);
		return r;
	}
	assert_result(SNECK_EACCES, r, &error);
	if (!names(error.text, missing))
		fail_msg("without %s: \"%s\"", missing, error.text);
	assert_true(test_now_ms() - begin_ms < 1000); /* it is not waited for */
	return r;
}

static void a_missing_right_is_named(void **state) {
	int denied = 0;
	(void)state;

	for (int i = 0; i < rights_n; i++) {
		set_rule(rights[i]);
		sneck_client *client = open_holder();
		test_redis_ok(server, "SCRIPT FLUSH");
		test_redis_ok(server, "CONFIG RESETSTAT");
		int r = take_and_release(client, rights[i]);
		assert_true(r == 0 || r == SNECK_EACCES);
		denied += r == SNECK_EACCES;
		sneck_close(client);
		/* An acquire and a release, each once more with the text of its script. */
		if (scripts_called() > 6)
			fail_msg("without %s: %ld calls", rights[i], scripts_called());
		test_redis_ok(server, "DEL sneck:{door}");
	}
	/* evalsha, eval, time, zrange, zadd, zrem and pexpireat are needed by every lock. */
	if (denied < 6)
		fail_msg("only %d of %d rights were needed", denied, rights_n);
	set_rule(NULL);
	sneck_client *client = open_holder();
	assert_int_equal(take_and_release(client, ""), 0);
	sneck_close(client);
}

static void keys_of_others_are_refused(void **state) {
	sneck_error error = { 0 };
	sneck_hold *hold = NULL;
	(void)state;

	set_rule(NULL);
	test_redis_ok(server, "ACL SETUSER holder resetkeys ~other:*");
	sneck_client *client = open_holder();
	test_redis_ok(server, "CONFIG RESETSTAT");
	sneck_acquire_options options = test_waiting(2000);
	assert_result(
	        SNECK_EACCES, sneck_acquire(client, "door", SNECK_WRITE, &options, &hold, &error), &error);
	if (!strstr(error.text, "key") || !strstr(error.text, "door"))
		fail_msg("\"%s\" names no key", error.text);
	assert_true(scripts_called() <= 2);
	sneck_close(client);
}

/* ---- Holding ------------------------------------------------------------------------------------*/

/* The rights without which a renewal fails. */
static void a_renewal_that_is_denied_is_no_storm(void **state) {
	static const char *const lost[] = { "evalsha", "time", "zadd" };
	(void)state;

	for (size_t i = 0; i < sizeof lost / sizeof lost[0]; i++) {
		set_rule(NULL);
		sneck_client *client = open_holder();
		sneck_acquire_options options = SNECK_ACQUIRE_OPTIONS_INIT;
		sneck_error error = { 0 };
		options.lease_ms = LEASE_MS;
		sneck_hold *hold = test_take_opts(client, "door", SNECK_WRITE, &options);
		set_rule(lost[i]);
		test_redis_ok(server, "CONFIG RESETSTAT");
		assert_result(SNECK_EACCES, sneck_renew(hold, 0, &error), &error);
		if (!names(error.text, lost[i]))
			fail_msg("without %s: \"%s\"", lost[i], error.text);
		assert_true(WAIT_UNTIL(sneck_hold_state(hold) == SNECK_SUSPECT, 2 * LEASE_MS));
		assert_true(WAIT_UNTIL(sneck_hold_state(hold) == SNECK_LOST, 2 * LEASE_MS));
		/* One every fifteenth of the lease, from the first denial on. */
		if (scripts_called() > 18 || scripts_called() < 3)
			fail_msg("without %s: %ld calls", lost[i], scripts_called());
		assert_result(SNECK_ELOST, sneck_release(hold), NULL);
		sneck_close(client);
		test_redis_ok(server, "DEL sneck:{door}");
	}
}

/* And one that is allowed again in time saves the lock. */
static void a_right_that_comes_back_saves_the_lock(void **state) {
	(void)state;
	set_rule(NULL);
	sneck_client *client = open_holder();
	sneck_acquire_options options = SNECK_ACQUIRE_OPTIONS_INIT;
	options.lease_ms = LEASE_MS;
	sneck_hold *hold = test_take_opts(client, "door", SNECK_WRITE, &options);
	set_rule("zadd");
	assert_true(WAIT_UNTIL(sneck_hold_state(hold) == SNECK_SUSPECT, 2 * LEASE_MS));
	set_rule(NULL);
	assert_true(WAIT_UNTIL(sneck_hold_state(hold) == SNECK_HELD, LEASE_MS / 2));
	test_release(hold);
	sneck_close(client);
}

static void a_release_that_is_denied_says_so(void **state) {
	(void)state;
	set_rule(NULL);
	sneck_client *client = open_holder();
	sneck_acquire_options options = SNECK_ACQUIRE_OPTIONS_INIT;
	options.lease_ms = LEASE_MS;
	sneck_hold *hold = test_take_opts(client, "door", SNECK_WRITE, &options);
	set_rule("zrem");
	test_redis_ok(server, "CONFIG RESETSTAT");
	int64_t begin_ms = test_now_ms();
	assert_result(SNECK_EACCES, sneck_release(hold), NULL);
	assert_true(test_now_ms() - begin_ms < 1000);
	/* It goes on in the background until the lease ends, at the same pace. */
	assert_true(WAIT_UNTIL(test_now_ms() - begin_ms > LEASE_MS, 2 * LEASE_MS));
	if (scripts_called() > 18)
		fail_msg("%ld calls", scripts_called());
	sneck_close(client);
}

/* ---- Waiting ------------------------------------------------------------------------------------*/

static void a_waiter_that_is_denied_is_told(void **state) {
	struct test_call call;
	(void)state;

	set_rule(NULL);
	sneck_client *admin = test_open(server->url), *client = open_holder();
	sneck_hold *hold = test_take(admin, "door", SNECK_WRITE, 0);
	sneck_acquire_options options = test_waiting(20000);
	test_call_start(&call, client, "door", SNECK_WRITE, &options);
	assert_true(test_await_members(server, "door", "w", 1, 5000));
	set_rule("time");
	test_redis_ok(server, "CONFIG RESETSTAT");
	int64_t begin_ms = test_now_ms();
	assert_result(SNECK_EACCES, test_call_join(&call), &call.error);
	assert_true(test_now_ms() - begin_ms < 2000 + TEST_SLACK_MS); /* with the next heartbeat */
	assert_true(names(call.error.text, "time"));
	test_release(hold);
	sneck_close(client);
	assert_true(scripts_called() < 20);
	sneck_close(admin);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(a_missing_right_is_named),
		TEST(keys_of_others_are_refused),
		TEST(a_renewal_that_is_denied_is_no_storm),
		TEST(a_right_that_comes_back_saves_the_lock),
		TEST(a_release_that_is_denied_says_so),
		TEST(a_waiter_that_is_denied_is_told),
	};
	return cmocka_run_group_tests(tests, up, test_server_down);
}
