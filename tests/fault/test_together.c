/* SPDX-License-Identifier: MIT */
/* Renewals that go together: each hold is told what is its own, and what befalls the one request befalls no
 * hold for good.
 *
 * When a connection was cut, everything that is held is renewed at once on the next: so a test has all
 * renewals in few requests, and when it wants them. The leases are long; nothing else is renewed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "dialect/dialect.h"
#include "locks.h"
#include "proxy.h"
#include "wait.h"

enum { HOLDS = 3 * RENEWALS_MAX + 5, REQUESTS = 4 };

static struct test_server *const server = &test_the_server;

struct rig {
	struct test_proxy proxy;
	sneck_client *client;
	sneck_hold *holds[HOLDS];
};

static const char *name_of(int i, char out[24]) {
	snprintf(out, 24, "door-%d", i);
	return out;
}

static void rig_up(struct rig *rig) {
	char name[24];

	test_proxy_start(&rig->proxy, server->socket_path);
	rig->client = test_open(rig->proxy.url);
	for (int i = 0; i < HOLDS; i++)
		rig->holds[i] = test_take(rig->client, name_of(i, name), i % 2 ? SNECK_READ : SNECK_WRITE, 0);
}

static void rig_down(struct rig *rig) {
	sneck_close(rig->client);
	test_proxy_stop(&rig->proxy);
}

/* All are renewed, `n` with success. */
static void renew_all(struct rig *rig, uint64_t n) {
	uint64_t before = test_stats(rig->client).renewals;

	test_proxy_cut_all(&rig->proxy);
	assert_true(WAIT_UNTIL(test_stats(rig->client).renewals >= before + n, 10000));
}

static void assert_all_held(const struct rig *rig) {
	for (int i = 0; i < HOLDS; i++)
		assert_int_equal(sneck_hold_state(rig->holds[i]), SNECK_HELD);
	assert_int_equal(test_stats(rig->client).losses, 0);
}

static unsigned scripts_sent(struct rig *rig) {
	struct proxy_counts counts;

	test_proxy_counts(&rig->proxy, &counts);
	return counts.requests[PROXY_SCRIPT];
}

static void many_go_in_few_requests(void **state) {
	(void)state;
	struct rig rig;
	rig_up(&rig);
	renew_all(&rig, HOLDS); /* the server learns the script */
	unsigned before = scripts_sent(&rig);
	renew_all(&rig, HOLDS);
	assert_true(scripts_sent(&rig) - before <= REQUESTS);
	assert_all_held(&rig);
	rig_down(&rig);
}

/* The server has the deadlines that the client counts on. */
static void each_is_renewed_on_the_server(void **state) {
	(void)state;
	struct rig rig;
	char name[24], key[160];
	rig_up(&rig);
	int64_t soon_ms = test_server_ms(server) + 5000;
	for (int i = 0; i < HOLDS; i++) {
		redisReply *reply = test_redis(server, "ZRANGE %s 0 0", test_key(name_of(i, name), key));
		test_redis_ok(server, "ZADD %s %lld %s", key, (long long)soon_ms, reply->element[0]->str);
		freeReplyObject(reply);
	}
	renew_all(&rig, HOLDS);
	for (int i = 0; i < HOLDS; i++)
		assert_true(test_score(server, name_of(i, name), "RW") >=
		            (double)(soon_ms - 5000 + SNECK_LEASE_DEFAULT_MS));
	rig_down(&rig);
}

static void each_is_told_what_is_its_own(void **state) {
	(void)state;
	enum { GONE = 3, BROKEN = 10, WANTED = 20 };
	struct rig rig;
	char name[24], key[160], id[SNECK_ID_MAX];
	rig_up(&rig);
	sneck_client *other = test_open(server->url);
	struct test_call call;
	test_call_start(&call, other, name_of(WANTED, name), SNECK_WRITE, NULL);
	assert_true(test_await_members(server, name, "w", 1, 5000));
	test_proxy_silence(&rig.proxy, false, true); /* the message of the break is not heard */
	name_of(BROKEN, name);
	assert_result(0, sneck_hold_id(rig.holds[BROKEN], id), NULL);
	assert_result(0, sneck_break(other, name, strlen(name), id, "it hangs", 0, NULL), NULL);
	test_redis_ok(server, "DEL %s", test_key(name_of(GONE, name), key));
	test_proxy_cut_all(&rig.proxy);
	test_proxy_calm(&rig.proxy);
	assert_true(WAIT_UNTIL(test_stats(rig.client).renewals >= HOLDS - 2, 10000));
	assert_true(WAIT_UNTIL(sneck_hold_state(rig.holds[GONE]) == SNECK_LOST, 2000));
	assert_true(WAIT_UNTIL(sneck_hold_state(rig.holds[BROKEN]) == SNECK_BROKEN, 2000));
	for (int i = 0; i < HOLDS; i++)
		if (i != GONE && i != BROKEN)
			assert_int_equal(sneck_hold_state(rig.holds[i]), SNECK_HELD);
	assert_int_equal(test_stats(rig.client).losses, 2);
	test_release(rig.holds[WANTED]);
	assert_result(0, test_call_join(&call), &call.error);
	test_release(call.hold);
	sneck_close(other);
	rig_down(&rig);
}

/* A lock that was passed on within the session has used a number that the server has not given: it goes by
 * itself, and says so. */
static void a_number_that_was_used_is_reported(void **state) {
	(void)state;
	enum { PASSED_ON = 4 };
	struct rig rig;
	char name[24];
	rig_up(&rig);
	struct test_call call;
	test_call_start(&call, rig.client, name_of(PASSED_ON, name), SNECK_WRITE, NULL);
	assert_true(WAIT_UNTIL(test_stats(rig.client).waiters == 1, 5000));
	uint64_t token = sneck_hold_token(rig.holds[PASSED_ON]);
	test_release(rig.holds[PASSED_ON]);
	assert_result(0, test_call_join(&call), &call.error);
	rig.holds[PASSED_ON] = call.hold;
	assert_int_equal(test_stats(rig.client).handovers, 1);
	assert_true(sneck_hold_token(call.hold) > token);
	renew_all(&rig, HOLDS);
	assert_all_held(&rig);
	assert_true(test_score(server, name, "#") == (double)sneck_hold_token(call.hold));
	rig_down(&rig);
}

static void a_script_that_is_forgotten_is_sent_again(void **state) {
	(void)state;
	struct rig rig;
	rig_up(&rig);
	renew_all(&rig, HOLDS);
	test_redis_ok(server, "SCRIPT FLUSH");
	unsigned before = scripts_sent(&rig);
	renew_all(&rig, HOLDS);
	/* Once more with the text, for those that were under way. */
	assert_true(scripts_sent(&rig) - before > REQUESTS && scripts_sent(&rig) - before <= 2 * REQUESTS);
	assert_int_equal(test_stats(rig.client).renewal_failures, 0);
	assert_all_held(&rig);
	rig_down(&rig);
}

/* Strike the first of the requests, or its answer. */
static void survive(const struct proxy_rule *rule, bool breaks) {
	struct rig rig;
	rig_up(&rig);
	renew_all(&rig, HOLDS);
	test_proxy_arm(&rig.proxy, rule);
	renew_all(&rig, HOLDS);
	assert_true(test_proxy_wait_fired(&rig.proxy, 1, 0));
	uint64_t failures = test_stats(rig.client).renewal_failures;
	assert_true(breaks ? failures > 0 && failures <= HOLDS : failures == 0);
	assert_all_held(&rig);
	rig_down(&rig);
}

/* An error may be meant for one of them: each asks for itself, and none has failed. */
static void after_an_error_each_asks_for_itself(void **state) {
	(void)state;
	static const char *const errors[] = { "-ERR what is it?", "-NOPERM no permissions to access a key",
		"-WRONGTYPE not a lock", "-OOM command not allowed" };
	for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
		struct proxy_rule rule = {
			.action = PROXY_ANSWER, .class = PROXY_SCRIPT, .nth = 1, .line = errors[i]
		};
		survive(&rule, false);
	}
}

/* What was sent and not answered is unknown, and asked for on the next connection. */
static void lost_requests_and_answers(void **state) {
	(void)state;
	static const enum proxy_action actions[] = { PROXY_CUT_BEFORE, PROXY_CUT_AFTER, PROXY_DROP_CUT };
	for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
		struct proxy_rule rule = { .action = actions[i], .class = PROXY_SCRIPT, .nth = 1 };
		survive(&rule, true);
	}
}

/* One late from there on: the echo tells, and the connection is given up. */
static void answers_that_are_not_theirs(void **state) {
	(void)state;
	static const struct proxy_rule rules[] = {
		{ .action = PROXY_REPLACE, .class = PROXY_SCRIPT, .nth = 1, .line = ":5" },
		{ .action = PROXY_SHIFT, .class = PROXY_SCRIPT, .nth = 2 },
	};
	survive(&rules[0], true);
	survive(&rules[1], true);
}

/* The right to one of them is gone: the others do not suffer. */
static void a_right_to_one_of_them(void **state) {
	(void)state;
	enum { DENIED = 7 };
	struct rig rig;
	struct test_proxy proxy;
	test_redis_ok(server, "ACL SETUSER some on >word +@all allchannels ~*");
	test_proxy_start(&proxy, server->socket_path);
	sneck_client_options options = SNECK_CLIENT_OPTIONS_INIT;
	options.user = "some";
	options.password = "word";
	assert_int_equal(sneck_open(proxy.url, &options, &rig.client, NULL), 0);
	for (int i = 0; i < HOLDS; i++) {
		char name[24];
		snprintf(name, sizeof name, "%s-%d", i == DENIED ? "gate" : "door", i);
		rig.holds[i] = test_take(rig.client, name, SNECK_WRITE, 0);
	}
	test_redis_ok(server, "ACL SETUSER some resetkeys ~sneck:{door*");
	test_proxy_cut_all(&proxy);
	assert_true(WAIT_UNTIL(test_stats(rig.client).renewals >= HOLDS - 1, 10000));
	assert_true(WAIT_UNTIL(test_stats(rig.client).renewal_failures >= 1, 2000));
	assert_int_equal(test_stats(rig.client).renewal_failures, 1);
	assert_all_held(&rig); /* for now: it is asked again within the lease */
	sneck_close(rig.client);
	test_proxy_stop(&proxy);
	test_redis_ok(server, "ACL DELUSER some");
}

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(many_go_in_few_requests),
		TEST(each_is_renewed_on_the_server),
		TEST(each_is_told_what_is_its_own),
		TEST(a_number_that_was_used_is_reported),
		TEST(a_script_that_is_forgotten_is_sent_again),
		TEST(after_an_error_each_asks_for_itself),
		TEST(lost_requests_and_answers),
		TEST(answers_that_are_not_theirs),
		TEST(a_right_to_one_of_them),
	};
	return cmocka_run_group_tests(tests, test_server_up, test_server_down);
}
