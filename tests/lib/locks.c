/* SPDX-License-Identifier: MIT */
/* Helpers of the tests of the public interface. What asserts by cmocka is for the test's main thread;
 * test_call's own thread only records what happened, and the eyes on the server assert nothing. */
#include "locks.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "layouts.h"
#include "topology.h"
#include "wait.h"

struct test_server test_the_server;

/* SNECK_TEST_ONLY=pattern runs the tests of a program that match. */
__attribute__((constructor)) static void choose_tests(void) {
	const char *only = getenv("SNECK_TEST_ONLY");
	if (only)
		cmocka_set_test_filter(only);
}

int test_server_up(void **state) {
	(void)state;
	return test_topology_start(&test_the_server);
}

int test_server_down(void **state) {
	(void)state;
	return test_topology_stop(&test_the_server);
}

int test_server_clean(void **state) {
	(void)state;
	test_server_stopcont(
	        &test_the_server, false); /* a test that failed may have left it stopped, or full */
	test_redis_ok(&test_the_server, "CONFIG SET maxmemory 0");
	test_redis_ok(&test_the_server, "FLUSHALL");
	return 0;
}

int test_server_clean_plain(void **state) {
	return test_server_clean(state);
}

int test_run(const char *group, const struct CMUnitTest *tests, size_t n) {
	struct CMUnitTest *chosen = calloc(n, sizeof(*chosen));
	size_t chosen_n = 0;
	int failed = test_topology_start(&test_the_server) < 0;

	for (size_t i = 0; chosen && i < n; i++)
		if (tests[i].setup_func != test_server_clean_plain || test_topology_is_plain())
			chosen[chosen_n++] = tests[i];
	if (chosen_n < n)
		print_message("%zu of %zu tests are for one plain server alone\n", n - chosen_n, n);
	if (!failed) {
		failed = _cmocka_run_group_tests(group, chosen, chosen_n, NULL, NULL);
		failed += test_topology_stop(&test_the_server) < 0;
	}
	free(chosen);
	return failed;
}

void test_assert_result(
        int expected, int result, const sneck_error *error, const char *call, const char *file, int line) {
	if (expected == result)
		return;
	print_error("%s:%d: %s\n  gave %s, expected %s\n", file, line, call,
	        result == 0 ? "0" : sneck_err_name(result), expected == 0 ? "0" : sneck_err_name(expected));
	if (error && result != 0)
		print_error("  text: %s\n", error->text);
	_fail(file, line);
}

int test_connect(const char *url, sneck_error *ret_error) {
	sneck_client_options options = SNECK_CLIENT_OPTIONS_INIT;
	sneck_client *client = NULL;

	options.flags = SNECK_OPEN_CONNECT;
	memset(ret_error, 0, sizeof *ret_error);
	int r = sneck_open(url, &options, &client, ret_error);
	sneck_close(client);
	return r;
}

sneck_client *test_open_command_ms(const char *url, uint32_t command_ms) {
	sneck_client_options options = SNECK_CLIENT_OPTIONS_INIT;
	options.command_ms = command_ms;
	options.dialect = test_dialect();
	sneck_client *client = NULL;
	sneck_error error = { 0 };
	assert_result(0, sneck_open(url, &options, &client, &error), &error);
	assert_non_null(client);
	return client;
}

sneck_client *test_open(const char *url) {
	return test_open_command_ms(url, 0);
}

void test_await_link(sneck_client *client, const char *name) {
	sneck_lock_info *info = NULL;
	sneck_error error = { 0 };
	int r = SNECK_ECONN;
	if (!WAIT_UNTIL((r = sneck_inspect(client, name, strlen(name), 0, &info, &error)) == 0, 10000))
		assert_result(0, r, &error);
	sneck_lock_info_free(info);
}

sneck_acquire_options test_waiting(int64_t wait_ms) {
	sneck_acquire_options options = SNECK_ACQUIRE_OPTIONS_INIT;
	options.wait_ms = wait_ms;
	return options;
}

sneck_hold *test_take_opts(
        sneck_client *client, const char *name, sneck_mode mode, const sneck_acquire_options *options) {
	sneck_hold *hold = NULL;
	sneck_error error = { 0 };
	assert_result(0, sneck_acquire(client, name, mode, options, &hold, &error), &error);
	assert_non_null(hold);
	return hold;
}

sneck_hold *test_take(sneck_client *client, const char *name, sneck_mode mode, int64_t wait_ms) {
	sneck_acquire_options options = test_waiting(wait_ms);
	return test_take_opts(client, name, mode, &options);
}

int test_probe(sneck_client *client, const char *name, sneck_mode mode) {
	sneck_hold *hold = NULL;
	int result = sneck_acquire(client, name, mode, NULL, &hold, NULL);
	if (result == 0)
		test_release(hold);
	return result;
}

void test_release(sneck_hold *hold) {
	assert_result(0, sneck_release(hold), NULL);
}

sneck_counters test_stats(sneck_client *client) {
	sneck_counters stats = { .size = sizeof(stats) };
	assert_result(0, sneck_stats(client, &stats), NULL);
	return stats;
}

int64_t test_await_long_pause(sneck_client *client) {
	int64_t asked_ms = test_now_ms(), gap_ms = 0;

	while (gap_ms < 150) {
		uint64_t beats = test_stats(client).beats;
		assert_true(WAIT_UNTIL(test_stats(client).beats != beats, 5000));
		int64_t now_ms = test_now_ms();
		gap_ms = now_ms - asked_ms;
		asked_ms = now_ms;
	}
	return asked_ms;
}

bool test_readable(int fd, int timeout_ms) {
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	return poll(&pfd, 1, timeout_ms) == 1 && (pfd.revents & POLLIN);
}

bool test_next_event(sneck_client *client, sneck_event *ret_event, int timeout_ms) {
	int64_t until_ms = test_now_ms() + timeout_ms;
	for (;;) {
		*ret_event = (sneck_event){ .size = sizeof(*ret_event) };
		if (sneck_client_next_event(client, ret_event) == 1)
			return true;
		int64_t left_ms = until_ms - test_now_ms();
		if (left_ms <= 0 || !test_readable(sneck_client_fd(client), (int)left_ms))
			return false;
	}
}

static void *run_call(void *arg) {
	struct test_call *call = arg;
	if (call->upgrade)
		call->result = sneck_upgrade(call->upgrade, &call->options, &call->error);
	else
		call->result = sneck_acquire(
		        call->client, call->name, call->mode, &call->options, &call->hold, &call->error);
	call->end_ms = test_now_ms();
	atomic_store(&call->done, true);
	return NULL;
}

static void launch(struct test_call *call, const sneck_acquire_options *options) {
	static atomic_uint_fast64_t next_owner = 1000000;
	call->options = options ? *options : test_waiting(10000);
	if (call->options.owner == 0)
		call->options.owner = atomic_fetch_add(&next_owner, 1);
	assert_int_equal(pthread_create(&call->thread, NULL, run_call, call), 0);
}

void test_call_start(struct test_call *call, sneck_client *client, const char *name, sneck_mode mode,
        const sneck_acquire_options *options) {
	memset(call, 0, sizeof(*call));
	call->client = client;
	call->name = name;
	call->mode = mode;
	launch(call, options);
}

void test_call_start_upgrade(struct test_call *call, sneck_hold *hold, const sneck_acquire_options *options) {
	memset(call, 0, sizeof(*call));
	call->upgrade = hold;
	launch(call, options);
}

int test_call_join(struct test_call *call) {
	if (!WAIT_UNTIL(atomic_load(&call->done), 10000))
		fail_msg("a call did not return within 10 s");
	pthread_join(call->thread, NULL);
	return call->result;
}

const char *test_key(const char *name, char out[160]) {
	snprintf(out, 160, "sneck:{%s}", name);
	return out;
}

static redisReply *must_be_array(redisReply *reply, const char *what) {
	if (!reply || reply->type != REDIS_REPLY_ARRAY) {
		fprintf(stderr, "%s: %s\n", what, reply ? reply->str : "no answer");
		abort();
	}
	return reply;
}

static redisReply *whole_lock(const struct test_server *server, const char *name) {
	char key[160];
	redisReply *reply = test_redis(server, "ZRANGE %s 0 -1 WITHSCORES", test_key(name, key));
	return must_be_array(reply, key);
}

/* Holders whose time is over stay until a script comes by; they hold nothing. */
static bool is_dead_holder(const char *member, const char *score, double now_ms) {
	return (member[0] == 'R' || member[0] == 'W') && strtod(score, NULL) <= now_ms;
}

long test_members(const struct test_server *server, const char *name, const char *kinds) {
	if (test_dialect())
		return test_layout_members(server, name, kinds);
	double now_ms = (double)test_server_ms(server);
	redisReply *reply = whole_lock(server, name);
	long count = 0;
	for (size_t i = 0; i < reply->elements; i += 2) {
		const char *member = reply->element[i]->str;
		if (strchr(kinds, member[0]) && !is_dead_holder(member, reply->element[i + 1]->str, now_ms))
			count++;
	}
	freeReplyObject(reply);
	return count;
}

double test_score(const struct test_server *server, const char *name, const char *kinds) {
	double now_ms = (double)test_server_ms(server);
	redisReply *reply = whole_lock(server, name);
	double score = 0;
	for (size_t i = 0; i < reply->elements && score == 0; i += 2) {
		const char *member = reply->element[i]->str;
		if (strchr(kinds, member[0]) && !is_dead_holder(member, reply->element[i + 1]->str, now_ms))
			score = strtod(reply->element[i + 1]->str, NULL);
	}
	freeReplyObject(reply);
	return score;
}

bool test_await_members(
        const struct test_server *server, const char *name, const char *kinds, long count, int timeout_ms) {
	return WAIT_UNTIL(test_members(server, name, kinds) == count, timeout_ms);
}

bool test_is_idle(const struct test_server *server, const char *name) {
	if (test_dialect())
		return test_layout_is_idle(server, name);
	char key[160];
	test_key(name, key);
	double now_ms = (double)test_server_ms(server);
	redisReply *reply = whole_lock(server, name);
	bool idle = true;
	for (size_t i = 0; i < reply->elements; i += 2) {
		const char *member = reply->element[i]->str;
		double score = strtod(reply->element[i + 1]->str, NULL);
		bool buried = member[0] == 'x' && score > 2e14 && score - 2e14 <= now_ms + SNECK_BURY_MS;
		bool dead = is_dead_holder(member, reply->element[i + 1]->str, now_ms);
		if (strcmp(member, "#1") != 0 && !buried && !dead) {
			fprintf(stderr, "%s still has %s %.0f\n", key, member, score);
			idle = false;
		}
	}
	freeReplyObject(reply);
	long long ttl_ms = test_redis_int(server, "PTTL %s", key);
	if (ttl_ms == -1)
		fprintf(stderr, "%s never expires\n", key);
	return idle && ttl_ms != -1 && ttl_ms <= SNECK_BURY_MS + 2 * SNECK_KEEP_MS;
}

/* The names of channels that `server` itself sends to. */
static redisReply *channels_at(const struct test_server *server, bool sharded) {
	return must_be_array(
	        test_redis(server, sharded ? "PUBSUB SHARDCHANNELS *" : "PUBSUB CHANNELS *"), "PUBSUB");
}

/* Count them, and say `text` on each unless it is NULL. */
static long walk_channels(const struct test_server *server, const char *part, const void *text, size_t len) {
	long count = 0;

	for (size_t i = 0; i < server->peers_n; i++)
		count += walk_channels(&server->peers[i], part, text, len);
	for (int sharded = 0; !server->peers && sharded < 2; sharded++) {
		redisReply *names = channels_at(server, sharded);
		for (size_t i = 0; i < names->elements; i++) {
			if (!strstr(names->element[i]->str, part))
				continue;
			count++;
			if (text)
				test_redis_ok(server, sharded ? "SPUBLISH %s %b" : "PUBLISH %s %b",
				        names->element[i]->str, text, len);
		}
		freeReplyObject(names);
	}
	return count;
}

long test_channels(const struct test_server *server, const char *part) {
	return walk_channels(server, part, NULL, 0);
}

long test_say(const struct test_server *server, const char *session, const void *text, size_t len) {
	return walk_channels(server, session, text, len);
}

long test_count_keys(const struct test_server *server, const char *pattern) {
	long count = 0;

	for (size_t i = 0; i < server->peers_n; i++)
		count += test_count_keys(&server->peers[i], pattern);
	if (!server->peers) {
		redisReply *keys = must_be_array(test_redis(server, "KEYS %s", pattern), pattern);
		count = (long)keys->elements;
		freeReplyObject(keys);
	}
	return count;
}

int64_t test_server_ms(const struct test_server *server) {
	redisReply *reply = must_be_array(test_redis(server, "TIME"), "TIME");
	int64_t ms = strtoll(reply->element[0]->str, NULL, 10) * 1000 +
	             strtoll(reply->element[1]->str, NULL, 10) / 1000;
	freeReplyObject(reply);
	return ms;
}
