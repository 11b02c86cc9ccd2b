/* SPDX-License-Identifier: MIT */
/* The fault proxy itself, checked with a plain client: a fault test proves nothing if the fault does
 * not strike where it was aimed. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>
#include <hiredis/hiredis.h>

#include "proxy.h"
#include "server.h"
#include "wait.h"

static struct test_server server;
static struct test_proxy proxy;

static redisContext *connect_through(void) {
	struct timeval limit = { 5, 0 };
	redisContext *context = redisConnectUnixWithTimeout(proxy.url + strlen("unix://"), limit);
	assert_non_null(context);
	assert_int_equal(context->err, 0);
	assert_int_equal(redisSetTimeout(context, limit), REDIS_OK);
	return context;
}

static void set_patience_ms(redisContext *context, int ms) {
	struct timeval limit = { ms / 1000, ms % 1000 * 1000 };
	assert_int_equal(redisSetTimeout(context, limit), REDIS_OK);
}

static redisReply *incr(redisContext *context) {
	return redisCommand(context, "EVAL %s 1 counter", "return redis.call('incr', KEYS[1])");
}

static void expect_number(redisContext *context, long long number) {
	redisReply *reply = incr(context);
	if (!reply)
		fail_msg("no reply: %s", context->errstr);
	if (reply->type != REDIS_REPLY_INTEGER)
		fail_msg("not a number: %s", reply->str);
	assert_int_equal(reply->integer, number);
	freeReplyObject(reply);
}

static void expect_no_reply(redisContext *context) {
	redisReply *reply = incr(context);
	assert_null(reply);
}

static long long executed(void) {
	return test_redis_int(&server, "GET counter");
}

static void arm(enum proxy_action action, enum proxy_class class, unsigned nth, const char *line) {
	struct proxy_rule rule = { .action = action, .class = class, .nth = nth, .line = line };
	test_proxy_arm(&proxy, &rule);
}

static void counts_messages_by_class(void **state) {
	(void)state;
	redisContext *context = connect_through();
	freeReplyObject(redisCommand(context, "CLIENT SETNAME me"));
	for (int i = 1; i <= 5; i++)
		expect_number(context, i);
	struct proxy_counts counts;
	test_proxy_counts(&proxy, &counts);
	assert_int_equal(counts.requests[PROXY_GREETING], 1);
	assert_int_equal(counts.requests[PROXY_SCRIPT], 5);
	assert_int_equal(counts.replies[PROXY_SCRIPT], 5);
	assert_int_equal(counts.requests[PROXY_ANY], 6);
	assert_int_equal(counts.connections, 1);
	assert_int_equal(counts.open, 1);
	redisFree(context);
}

static void counts_published_messages(void **state) {
	(void)state;
	redisContext *context = connect_through();
	freeReplyObject(redisCommand(context, "SUBSCRIBE one two"));
	redisReply *reply = NULL;
	assert_int_equal(redisGetReply(context, (void **)&reply), REDIS_OK);
	freeReplyObject(reply);
	arm(PROXY_DROP, PROXY_MESSAGE, 2, NULL);
	for (int i = 1; i <= 3; i++)
		test_redis_ok(&server, "PUBLISH one %d", i);
	const char *expected[] = { "1", "3" };
	for (int i = 0; i < 2; i++) {
		assert_int_equal(redisGetReply(context, (void **)&reply), REDIS_OK);
		assert_string_equal(reply->element[2]->str, expected[i]);
		freeReplyObject(reply);
	}
	struct proxy_counts counts;
	test_proxy_counts(&proxy, &counts);
	assert_int_equal(counts.replies[PROXY_SUBSCRIBE], 2);
	assert_int_equal(counts.replies[PROXY_MESSAGE], 3);
	redisFree(context);
}

static void drops_the_reply_after_execution(void **state) {
	(void)state;
	for (unsigned silent = 0; silent < 2; silent++) {
		redisContext *context = connect_through();
		arm(silent ? PROXY_DROP_SILENT : PROXY_DROP_CUT, PROXY_SCRIPT, 2, NULL);
		long long before = silent ? executed() : 0;
		expect_number(context, before + 1);
		if (silent)
			set_patience_ms(context, 100);
		expect_no_reply(context);
		assert_int_equal(context->err, silent ? REDIS_ERR_IO : REDIS_ERR_EOF);
		assert_true(WAIT_UNTIL(executed() == before + 2, 1000));
		assert_true(test_proxy_wait_fired(&proxy, silent + 1, 1000));
		redisFree(context);
	}
}

static void cuts_before_and_after_the_server_sees_it(void **state) {
	(void)state;
	redisContext *context = connect_through();
	expect_number(context, 1);
	arm(PROXY_CUT_BEFORE, PROXY_SCRIPT, 1, NULL);
	expect_no_reply(context);
	redisFree(context);
	context = connect_through();
	expect_number(context, 2);
	arm(PROXY_CUT_AFTER, PROXY_SCRIPT, 1, NULL);
	expect_no_reply(context);
	assert_true(WAIT_UNTIL(executed() == 3, 1000));
	redisFree(context);
}

static void delivers_a_held_request_after_its_client_has_gone(void **state) {
	(void)state;
	redisContext *context = connect_through();
	expect_number(context, 1);
	arm(PROXY_HOLD, PROXY_SCRIPT, 1, NULL);
	set_patience_ms(context, 50);
	expect_no_reply(context);
	redisFree(context);
	context = connect_through();
	expect_number(context, 2);
	test_proxy_deliver(&proxy);
	assert_true(test_proxy_wait_delivered(&proxy, 1, 1000));
	assert_true(WAIT_UNTIL(executed() == 3, 1000));
	redisFree(context);
}

static void holds_for_a_time(void **state) {
	(void)state;
	redisContext *context = connect_through();
	struct proxy_rule rule = { .action = PROXY_HOLD, .class = PROXY_ANY, .nth = 2, .hold_ms = 150 };
	test_proxy_arm(&proxy, &rule);
	expect_number(context, 1);
	int64_t start_ms = test_now_ms();
	expect_number(context, 2);
	assert_true(test_now_ms() - start_ms >= 149);
	rule.action = PROXY_HOLD_REPLY;
	test_proxy_arm(&proxy, &rule);
	expect_number(context, 3);
	start_ms = test_now_ms();
	expect_number(context, 4);
	assert_true(test_now_ms() - start_ms >= 149);
	redisFree(context);
}

static void answers_in_the_servers_place(void **state) {
	(void)state;
	redisContext *context = connect_through();
	expect_number(context, 1);
	arm(PROXY_ANSWER, PROXY_SCRIPT, 1, "-LOADING not yet");
	redisReply *reply = incr(context);
	assert_non_null(reply);
	assert_string_equal(reply->str, "LOADING not yet");
	freeReplyObject(reply);
	assert_int_equal(executed(), 1);
	arm(PROXY_REPLACE, PROXY_SCRIPT, 1, "-OOM no room");
	reply = incr(context);
	assert_non_null(reply);
	assert_string_equal(reply->str, "OOM no room");
	freeReplyObject(reply);
	expect_number(context, 3);
	redisFree(context);
}

static void shifts_replies_by_one(void **state) {
	(void)state;
	redisContext *context = connect_through();
	expect_number(context, 1);
	arm(PROXY_SHIFT, PROXY_SCRIPT, 1, NULL);
	expect_number(context, 1);
	expect_number(context, 2);
	expect_number(context, 3);
	/* hiredis sends nothing while an answer is at hand: the last request leaves only when asked to. */
	int done = 0;
	while (!done)
		assert_int_equal(redisBufferWrite(context, &done), REDIS_OK);
	assert_true(WAIT_UNTIL(executed() == 4, 10000));
	redisFree(context);
}

static void dribbles_delays_and_silences(void **state) {
	(void)state;
	redisContext *context = connect_through();
	test_proxy_dribble(&proxy, true);
	expect_number(context, 1);
	test_proxy_dribble(&proxy, false);
	test_proxy_delay(&proxy, 60);
	int64_t start_ms = test_now_ms();
	expect_number(context, 2);
	assert_true(test_now_ms() - start_ms >= 119);
	test_proxy_delay(&proxy, 0);
	test_proxy_silence(&proxy, false, true);
	redisAppendCommand(context, "EVAL %s 1 counter", "return redis.call('incr', KEYS[1])");
	int sent = 0;
	while (!sent)
		assert_int_equal(redisBufferWrite(context, &sent), REDIS_OK);
	assert_true(WAIT_UNTIL(executed() == 3, 1000));
	char byte;
	assert_true(recv(context->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0);
	test_proxy_calm(&proxy);
	redisReply *reply = NULL;
	assert_int_equal(redisGetReply(context, (void **)&reply), REDIS_OK);
	assert_int_equal(reply->integer, 3);
	freeReplyObject(reply);
	redisFree(context);
}

static void cuts_all_and_refuses(void **state) {
	(void)state;
	redisContext *context = connect_through();
	expect_number(context, 1);
	test_proxy_cut_all(&proxy);
	expect_no_reply(context);
	redisFree(context);
	test_proxy_refuse(&proxy, true);
	context = connect_through();
	expect_no_reply(context);
	redisFree(context);
	test_proxy_calm(&proxy);
	context = connect_through();
	expect_number(context, 2);
	redisFree(context);
}

static int setup(void **state) {
	(void)state;
	if (server.pid == 0 && test_server_start(&server, NULL) < 0)
		return -1;
	test_redis_ok(&server, "FLUSHALL");
	test_proxy_start(&proxy, server.socket_path);
	return 0;
}

static int teardown(void **state) {
	(void)state;
	test_proxy_stop(&proxy);
	return 0;
}

static int stop_server(void **state) {
	(void)state;
	test_server_stop(&server);
	return 0;
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(counts_messages_by_class),
		TEST(counts_published_messages),
		TEST(drops_the_reply_after_execution),
		TEST(cuts_before_and_after_the_server_sees_it),
		TEST(delivers_a_held_request_after_its_client_has_gone),
		TEST(holds_for_a_time),
		TEST(answers_in_the_servers_place),
		TEST(shifts_replies_by_one),
		TEST(dribbles_delays_and_silences),
		TEST(cuts_all_and_refuses),
	};
	/* The plain client writes to connections that were cut without guarding against the signal. */
	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, stop_server);
}
