/* SPDX-License-Identifier: MIT */
/* A server that is there but does not answer, at the beginning or in the middle: sneck says so in time,
 * with the server's name, and the command does not run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "look.h"
#include "proxy.h"
#include "wait.h"

static struct test_server server;
static struct test_server behind; /* the same, reached through the proxy */
static struct test_proxy proxy;

static int start(void **state) {
	(void)state;
	if (test_server_start(&server, NULL) < 0)
		return -1;
	setenv("HOME", server.dir, 1);
	test_proxy_start(&proxy, server.socket_path);
	behind = server;
	snprintf(behind.url, sizeof(behind.url), "%s", proxy.url);
	return 0;
}

static int stop(void **state) {
	(void)state;
	test_proxy_stop(&proxy);
	test_server_stop(&server);
	return 0;
}

static void has(const char *text, const char *part) {
	if (!strstr(text, part))
		fail_msg("\"%s\" is not in: %s", part, text);
}

/* The lock may have been taken: nobody knows. It is not used, and it does not stay. */
static void test_the_answer_to_an_acquire_is_lost(void **state) {
	const struct proxy_rule silence = { .action = PROXY_DROP_SILENT, .class = PROXY_SCRIPT, .nth = 1 };
	struct cli cli;

	(void)state;
	test_proxy_arm(&proxy, &silence);
	cli_start(&cli, &behind, CLI_ARGS("run", "-w", "300ms", "demo", "echo", "ran"));
	assert_int_equal(cli_wait(&cli, 15000), 69);
	assert_string_equal(cli_out(&cli), "");
	has(cli_err(&cli), proxy.url);
	has(cli_err(&cli), "hint: whether the server has done it is not known");
	test_proxy_calm(&proxy);
	assert_true(WAIT_UNTIL(look_count(&server, "demo", "holder_count") == 0, 10000));
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "-n", "demo", "true")), 0);
}

/* One that waits for a lock goes on waiting when its line is cut. */
static void test_a_cut_line_does_not_end_the_wait(void **state) {
	struct proxy_counts before, after;
	struct cli holder, waiter;

	(void)state;
	look_hold(&holder, &server, "demo", NULL);
	look_queue(&waiter, &behind, "demo", 1);
	test_proxy_counts(&proxy, &before);
	test_proxy_cut_all(&proxy);
	assert_true(WAIT_UNTIL(
	        (test_proxy_counts(&proxy, &after), after.connections > before.connections), 10000));
	assert_int_equal(cli_wait(&holder, 10000), 0);
	assert_int_equal(cli_wait(&waiter, 10000), 0);
	assert_string_equal(cli_out(&waiter), "got\n");
}

static void test_the_answer_to_a_break_is_lost(void **state) {
	const struct proxy_rule silence = { .action = PROXY_DROP_SILENT, .class = PROXY_SCRIPT, .nth = 0 };
	struct cli holder, cli;

	(void)state;
	look_hold(&holder, &server, "demo", NULL);
	json_t *json = look_json(&server, 0, CLI_ARGS("show", "--json", "demo"));
	test_proxy_arm(&proxy, &silence);
	cli_start(&cli, &behind,
	        CLI_ARGS("break", "demo", "--id", look_text(json, "lock.holders.0.id"), "-m", "it hangs"));
	assert_int_equal(cli_wait(&cli, 15000), 69);
	has(cli_err(&cli), proxy.url);
	test_proxy_calm(&proxy);
	json_decref(json);
	cli_kill(&holder);
	test_redis_ok(&server, "DEL sneck:{demo}");
}

/* Less than a second, when the machine has time for it: one that is busy may be late, but not
 * every time. */
static void test_a_server_that_is_silent_from_the_start(void **state) {
	const char *const *const commands[] = { CLI_ARGS("run", "demo", "echo", "ran"),
		CLI_ARGS("lock", "demo"), CLI_ARGS("ls"), CLI_ARGS("try", "demo") };
	struct cli cli;

	(void)state;
	test_server_stopcont(&server, true);
	for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++) {
		bool in_time = false;
		for (int j = 0; j < 5 && !in_time; j++) {
			int64_t begun_ms = test_now_ms();
			assert_int_equal(cli_run(&cli, &server, commands[i]), 69);
			in_time = test_now_ms() - begun_ms < 1000;
			has(cli_err(&cli), server.socket_path);
			has(cli_err(&cli), "hint: ");
			assert_string_equal(cli_out(&cli), "");
		}
		assert_true(in_time);
	}
	test_server_stopcont(&server, false);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_answer_to_an_acquire_is_lost),
		cmocka_unit_test(test_a_cut_line_does_not_end_the_wait),
		cmocka_unit_test(test_the_answer_to_a_break_is_lost),
		cmocka_unit_test(test_a_server_that_is_silent_from_the_start),
	};
	return cmocka_run_group_tests(tests, start, stop);
}
