/* SPDX-License-Identifier: MIT */
/* `sneck run --ack` and `sneck lock --ack`, on a server that has no replicas to acknowledge anything. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli.h"
#include "rule.h"
#include "server.h"
#include "wait.h"

static struct test_server server;

static int start(void **state) {
	(void)state;
	unsetenv("SNECK_HELD");
	if (test_server_start(&server, NULL) < 0)
		return -1;
	setenv("HOME", server.dir, 1);
	return 0;
}

static int stop(void **state) {
	(void)state;
	test_server_stop(&server);
	return 0;
}

static int clean(void **state) {
	(void)state;
	unsetenv("SNECK_ACK");
	test_redis_ok(&server, "FLUSHALL");
	return 0;
}

static void too_few(const char *const *args) {
	struct cli cli;

	assert_int_equal(cli_run(&cli, &server, args), 69);
	assert_non_null(strstr(cli_err(&cli), "0 of 1 replicas have acknowledged"));
	assert_string_equal(cli_out(&cli), "");
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "-n", "--ack", "0", "x", "true")), 0);
}

static void nothing_runs_without_its_replicas(void **state) {
	(void)state;
	too_few(CLI_ARGS("run", "--ack", "1", "--ack-timeout", "100ms", "x", "echo", "ran"));
	too_few(CLI_ARGS("lock", "--ack", "1", "--ack-timeout", "100ms", "x"));
}

static void the_environment_says_it(void **state) {
	(void)state;
	struct cli cli;

	setenv("SNECK_ACK", "1", 1);
	too_few(CLI_ARGS("run", "--ack-timeout", "100ms", "x", "echo", "ran"));
	too_few(CLI_ARGS("lock", "--ack-timeout", "100ms", "x"));
	setenv("SNECK_ACK", "all", 1);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "x", "true")), 64);
	assert_non_null(strstr(cli_err(&cli), "SNECK_ACK=all"));
}

/* A user with the printed rule. */
static void make_user(const char *const *args) {
	struct test_rule rule;
	struct cli cli;

	assert_int_equal(cli_run(&cli, &server, args), 0);
	test_rule_read(&rule, cli_out(&cli));
	test_rule_obey(&rule, &server, 1, NULL);
}

/* With --ack its holder may ask replicas, and is told that there are none; without it may not. */
static void the_rule_allows_it(void **state) {
	(void)state;
	struct test_server as_user = server;
	struct cli cli;
	const char *const *run = CLI_ARGS("run", "--ack", "1", "--ack-timeout", "100ms", "x", "echo", "ran");

	snprintf(as_user.url, sizeof as_user.url, "unix://%s?user=sneck-holder&password=pw",
	        server.socket_path);
	make_user(CLI_ARGS("acl", "-q", "--ack"));
	assert_int_equal(cli_run(&cli, &as_user, run), 69);
	assert_non_null(strstr(cli_err(&cli), "0 of 1 replicas have acknowledged"));
	make_user(CLI_ARGS("acl", "-q"));
	assert_int_not_equal(cli_run(&cli, &as_user, run), 0);
	assert_null(strstr(cli_err(&cli), "0 of 1 replicas have acknowledged"));
	assert_non_null(strstr(cli_err(&cli), "wait"));
	assert_string_equal(cli_out(&cli), "");
}

static void they_have_their_time(void **state) {
	(void)state;
	struct cli cli;
	int64_t began = test_now_ms();

	assert_int_equal(cli_run(&cli, &server,
	                         CLI_ARGS("run", "-n", "--ack", "1", "--ack-timeout", "400ms", "x", "true")),
	        69);
	assert_true(test_now_ms() - began >= 400);
	assert_int_equal(
	        cli_run(&cli, &server,
	                CLI_ARGS("run", "--lease", "1s", "--ack", "1", "--ack-timeout", "2s", "x", "true")),
	        64); /* longer than the lease */
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(nothing_runs_without_its_replicas, clean),
		cmocka_unit_test_setup(the_environment_says_it, clean),
		cmocka_unit_test_setup(the_rule_allows_it, clean),
		cmocka_unit_test_setup(they_have_their_time, clean),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
