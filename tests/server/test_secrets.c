/* SPDX-License-Identifier: MIT */
/* Passwords stay where they belong: with the log hook at its most talkative, and in every error text,
 * wherever the password came from and whatever went wrong. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "locks.h"
#include "wait.h"

#define CANARY "c4n4ry-that-nobody-may-see"

static struct test_server *const server = &test_the_server;

/* All that was logged; `lines` counts it, so that a log that says nothing does not pass for a silent one. */
static struct {
	pthread_mutex_t mutex;
	int lines;
	char leak[512]; /* the first line with the secret in it */
} heard = { .mutex = PTHREAD_MUTEX_INITIALIZER };

static void listen_to(void *ctx, sneck_log_level level, const char *text) {
	(void)ctx;
	(void)level;
	pthread_mutex_lock(&heard.mutex);
	heard.lines++;
	if (strstr(text, CANARY) && !heard.leak[0])
		snprintf(heard.leak, sizeof heard.leak, "%s", text);
	pthread_mutex_unlock(&heard.mutex);
}

static void nothing_leaked(const char *what, const sneck_error *error) {
	char leak[sizeof heard.leak];

	pthread_mutex_lock(&heard.mutex); /* a test that fails jumps away: not with the mutex */
	memcpy(leak, heard.leak, sizeof leak);
	heard.leak[0] = '\0';
	pthread_mutex_unlock(&heard.mutex);
	if (leak[0])
		fail_msg("%s: logged \"%s\"", what, leak);
	if (strstr(error->text, CANARY) || strstr(error->server, CANARY))
		fail_msg("%s: told \"%s\"", what, error->text);
}

static sneck_client_options talkative(void) {
	sneck_client_options options = SNECK_CLIENT_OPTIONS_INIT;

	options.log_fn = listen_to;
	options.log_level = SNECK_LOG_DEBUG;
	options.connect_ms = 300;
	options.command_ms = 500;
	return options;
}

static int guard_server(void **state) {
	if (test_server_up(state) < 0)
		return -1;
	test_redis_ok(server, "ACL SETUSER user on >" CANARY " ~* &* +@all");
	test_redis_ok(server, "ACL SETUSER few on >" CANARY " ~* &* +@all -zadd -subscribe");
	return 0;
}

/* Use it as a program would, and go on through what fails. Returns the result of the acquire. */
static int live(const char *url, const sneck_client_options *options) {
	sneck_client *client = NULL;
	sneck_hold *hold = NULL;
	sneck_error error = { 0 };
	sneck_acquire_options waiting = test_waiting(600);
	int r = sneck_open(url, options, &client, &error);

	nothing_leaked(url, &error);
	if (r < 0)
		return r;
	r = sneck_acquire(client, "door", SNECK_WRITE, &waiting, &hold, &error);
	nothing_leaked(url, &error);
	if (r == 0) {
		sneck_probe_info info = SNECK_PROBE_INFO_INIT;
		(void)sneck_probe(client, &info, &error);
		(void)sneck_renew(hold, 0, &error);
		nothing_leaked(url, &error);
		(void)sneck_release(hold);
	}
	sneck_close(client);
	nothing_leaked(url, &error);
	return r;
}

/* ---- Whatever goes well or wrong ----------------------------------------------------------------*/

static void a_password_that_is_right(void **state) {
	sneck_client_options options = talkative();
	char url[TEST_URL_MAX];
	(void)state;

	heard.lines = 0;
	snprintf(url, sizeof url, "unix://%s?user=user&password=" CANARY, server->socket_path);
	assert_int_equal(live(url, &options), 0);
	options.user = "user";
	options.password = CANARY;
	snprintf(url, sizeof url, "unix://%s", server->socket_path);
	assert_int_equal(live(url, &options), 0);
	options.user = "few";
	assert_int_equal(live(url, &options), SNECK_EACCES);
	assert_true(heard.lines > 5);
}

static void a_password_that_is_wrong(void **state) {
	sneck_client_options options = talkative();
	char url[TEST_URL_MAX];
	(void)state;

	heard.lines = 0;
	snprintf(url, sizeof url, "unix://%s?user=user&password=" CANARY "x", server->socket_path);
	assert_int_equal(live(url, &options), SNECK_EACCES);
	snprintf(url, sizeof url, "unix://%s?user=" CANARY "&password=" CANARY, server->socket_path);
	options.user = "nobody";
	assert_int_equal(live(url, &options), SNECK_EACCES);
	assert_true(heard.lines > 2);
}

static void servers_that_cannot_be_reached(void **state) {
	static const char *const urls[] = {
		"redis://user:" CANARY "@127.0.0.1:1",
		"rediss://user:" CANARY "@127.0.0.1:1",
		"redis://user:" CANARY "@no-such-host.invalid",
		"unix:///nowhere/redis.sock?user=user&password=" CANARY,
		"redis+sentinel://user:" CANARY "@127.0.0.1:1,127.0.0.1:2/locks",
		"redis+cluster://user:" CANARY "@127.0.0.1:1,127.0.0.1:2",
	};
	sneck_client_options options = talkative();
	(void)state;

	for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
		heard.lines = 0;
		int r = live(urls[i], &options);
		if (r != SNECK_ECONN)
			fail_msg("%s: %s", urls[i], sneck_strerror(r));
		assert_true(heard.lines > 0);
	}
}

/* The server goes away and comes back while a lock is held and waited for. */
static void a_connection_that_breaks(void **state) {
	sneck_client_options options = talkative();
	sneck_client *client = NULL;
	sneck_error error = { 0 };
	(void)state;

	heard.lines = 0;
	options.user = "user";
	options.password = CANARY;
	assert_result(0, sneck_open(server->url, &options, &client, &error), &error);
	sneck_hold *hold = test_take(client, "door", SNECK_WRITE, 0);
	/* It comes back without the user. */
	assert_int_equal(test_server_restart(server), 0);
	assert_true(WAIT_UNTIL(sneck_hold_state(hold) != SNECK_HELD, 60000));
	assert_int_not_equal(sneck_renew(hold, 0, &error), 0);
	nothing_leaked("restart", &error);
	(void)sneck_release(hold);
	sneck_close(client);
	nothing_leaked("close", &error);
	assert_true(heard.lines > 2);
	test_redis_ok(server, "ACL SETUSER user on >" CANARY " ~* &* +@all");
}

/* ---- URLs that are refused ----------------------------------------------------------------------*/

static void urls_that_make_no_sense(void **state) {
	static const char *const urls[] = {
		"redis://user:" CANARY "@host:port",
		"redis://user:" CANARY "@host:99999",
		"redis://user:" CANARY "@[::1",
		"redis://user:" CANARY "@",
		"redis://user:" CANARY "@host/x",
		"redis://user:" CANARY "%zz@host",
		"redis://user:" CANARY "@host?bogus=1",
		"redis://user:" CANARY "@host?password=" CANARY,
		"redis://host?password=" CANARY "&verify=maybe",
		"http://user:" CANARY "@host",
		"unix://relative?password=" CANARY "&x=y",
		"redis+sentinel://user:" CANARY "@host",
		"redis+cluster://user:" CANARY "@host/5",
		"rediss://user:" CANARY "@host?ca=/nowhere.crt",
		"redis://" CANARY "@host",
	};
	sneck_client_options options = talkative();
	(void)state;

	for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
		sneck_client *client = NULL;
		sneck_error error = { 0 };
		int r = sneck_open(urls[i], &options, &client, &error);
		if (r == 0) {
			sneck_close(client);
			fail_msg("%s was taken", urls[i]);
		}
		assert_true(error.text[0] != '\0');
		nothing_leaked(urls[i], &error);
	}
}

static void one_word_before_the_host_is_explained(void **state) {
	sneck_client *client = NULL;
	sneck_error error = { 0 };
	(void)state;

	assert_result(SNECK_EINVAL, sneck_open("redis://" CANARY "@host", NULL, &client, &error), &error);
	assert_non_null(strstr(error.text, "redis://:"));
	nothing_leaked("redis://X@host", &error);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_password_that_is_right),
		cmocka_unit_test(a_password_that_is_wrong),
		cmocka_unit_test(servers_that_cannot_be_reached),
		cmocka_unit_test(a_connection_that_breaks),
		cmocka_unit_test(urls_that_make_no_sense),
		cmocka_unit_test(one_word_before_the_host_is_explained),
	};
	return cmocka_run_group_tests(tests, guard_server, test_server_down);
}
