/* SPDX-License-Identifier: MIT */
/* What users of other lock commands have reported as faults of those, tried on sneck run: children that
 * outlive a signal or the shell between, commands that start although one was told to stop, wrappers that
 * go on when they should not. The faults that belong to a subject of their own are tested there:
 * exit codes, standard input, the wait before the lock, loss of the lease. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli.h"
#include "server.h"
#include "tree.h"
#include "wait.h"

static struct test_server server;

static int start_server(void **state) {
	(void)state;
	unsetenv("SNECK_URL");
	unsetenv("REDIS_URL");
	if (test_server_start(&server, NULL) < 0)
		return -1;
	return setenv("HOME", server.dir, 1);
}

static int stop_server(void **state) {
	(void)state;
	test_server_stop(&server);
	return 0;
}

static long long holders(const char *name) {
	return test_redis_int(&server, "ZCOUNT sneck:{%s} 0 10000000000000", name);
}

/* Whichever signal ends the job ends all of it: the shell, and what runs below it. */
static void test_signals_leave_no_child_behind(void **state) {
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	struct cli cli;

	(void)state;
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++) {
		cli_start(&cli, &server,
		        CLI_ARGS("run", "family", "-c",
		                "echo shell:$$; sh -c 'echo below:$$; exec sleep 600'; true"));
		assert_true(cli_wait_out(&cli, "below:", 5000));
		pid_t shell = tree_pid(&cli, "shell:"), below = tree_pid(&cli, "below:");
		assert_int_equal(tree_parent(below), shell);
		kill(cli.pid, signals[i]);
		assert_int_equal(cli_wait(&cli, 5000), 128 + signals[i]);
		assert_true(tree_is_gone(shell));
		assert_true(WAIT_UNTIL(tree_is_gone(below), 5000));
		assert_int_equal(holders("family"), 0); /* given back, not left to its lease */
	}
}

/* A signal that comes as the lock is handed over: the command either does not start, or gets the signal.
 * It never runs on unaware. */
static void test_no_command_starts_unaware_of_the_end(void **state) {
	struct cli holder, cli;
	int started = 0;

	(void)state;
	for (int i = 0; i < 40; i++) {
		cli_start(&holder, &server, CLI_ARGS("run", "race", "sh", "-c", "echo held; cat"));
		assert_true(cli_wait_out(&holder, "held", 5000));
		long long alone = test_redis_int(&server, "ZCARD sneck:{race}");
		cli_start(&cli, &server,
		        CLI_ARGS("run", "race", "sh", "-c", "echo started; read line; echo on"));
		assert_true(WAIT_UNTIL(test_redis_int(&server, "ZCARD sneck:{race}") > alone, 5000));
		close(holder.in_fd);
		holder.in_fd = -1;
		/* Somewhere between the release and the start of the command. */
		const struct timespec pause = { 0, i * 150000L };
		nanosleep(&pause, NULL);
		kill(cli.pid, SIGTERM);
		int in_fd = cli.in_fd;
		cli.in_fd = -1; /* stays open: the command must not end by itself */
		assert_int_equal(cli_wait(&cli, 5000), 128 + SIGTERM);
		close(in_fd);
		assert_null(strstr(cli_out(&cli), "on\n"));
		started += strstr(cli_out(&cli), "started") != NULL;
		assert_int_equal(cli_wait(&holder, 5000), 0);
		assert_true(WAIT_UNTIL(holders("race") == 0, 1000));
	}
	print_message("%d of 40 had started\n", started);
}

/* TERM to flock(1) leaves its child alone, still locked. Here nobody would renew the lease. */
static void test_the_wrapper_does_not_leave_before_the_command(void **state) {
	struct cli cli;

	(void)state;
	cli_start(&cli, &server,
	        CLI_ARGS("run", "slow", "sh", "-c",
	                "trap 'echo cleaning; read line; echo clean; exit 5' TERM; echo pid:$$; "
	                "while :; do sleep 0.01; done"));
	assert_true(cli_wait_out(&cli, "pid:", 5000));
	kill(cli.pid, SIGTERM);
	assert_true(cli_wait_out(&cli, "cleaning", 5000));
	assert_int_equal(holders("slow"), 1); /* while it cleans up, the lock is its own */
	assert_int_equal(cli_wait(&cli, 5000), 5);
	assert_non_null(strstr(cli_out(&cli), "clean\n"));
	assert_int_equal(holders("slow"), 0);
}

/* The lock does not outlive a command that ended by a signal of its own. */
static void test_a_crash_gives_the_lock_back(void **state) {
	struct cli cli;

	(void)state;
	assert_int_equal(
	        cli_run(&cli, &server, CLI_ARGS("run", "crash", "sh", "-c", "kill -SEGV $$")), 128 + SIGSEGV);
	assert_int_equal(holders("crash"), 0);
}

/* As much time as was asked for between the two signals, not a fixed one. */
static void test_the_grace_is_the_users(void **state) {
	struct cli cli;
	int64_t begin_ms = test_now_ms();

	(void)state;
	cli_start(&cli, &server,
	        CLI_ARGS("run", "--max-hold", "100ms", "-k", "400ms", "grace", "sh", "-c",
	                "trap '' TERM; while :; do sleep 0.01; done"));
	assert_int_equal(cli_wait(&cli, 5000), 124);
	int64_t took_ms = test_now_ms() - begin_ms;
	assert_in_range(took_ms, 500, 4500);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_signals_leave_no_child_behind),
		cmocka_unit_test(test_no_command_starts_unaware_of_the_end),
		cmocka_unit_test(test_the_wrapper_does_not_leave_before_the_command),
		cmocka_unit_test(test_a_crash_gives_the_lock_back),
		cmocka_unit_test(test_the_grace_is_the_users),
	};

	return cmocka_run_group_tests(tests, start_server, stop_server);
}
