/* SPDX-License-Identifier: MIT */
/* sneck run where nobody sits at a terminal: as the first process of a container, and as a service
 * manager starts and stops it (a session of its own, no terminal, nothing to read, hardly any
 * environment, SIGTERM to every process at once). */
#include <errno.h>
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

/* ---- A container --------------------------------------------------------------------------------*/

/* Start `sneck args…` as process 1 of its own world. The pid is unshare's; tree_child() is sneck's. As
 * root, or as a user who may be root in a world of his own: one of them works, or the test fails. */
static void start_first(struct cli *cli, const char *const *args) {
	static const char *const options[] = { "-pf", "-rpf" };
	const char *all[24] = { NULL, "--mount-proc", "--kill-child", SNECK_BINARY };
	size_t way = 0, n = 4;

	for (; way < 2; way++) {
		cli_start_program(cli, &server, "unshare", CLI_ARGS(options[way], "--mount-proc", "true"));
		if (cli_wait(cli, 5000) == 0)
			break;
	}
	if (way == 2)
		fail_msg("unshare(1) cannot make a process namespace here: %s", cli_err(cli));
	all[0] = options[way];
	while (*args)
		all[n++] = *args++;
	cli_start_program(cli, &server, "unshare", all);
}

/* Signals reach the command, which is not process 1 itself, and its exit code comes back. */
static void test_the_first_process_passes_signals_on(void **state) {
	struct cli cli;

	(void)state;
	start_first(&cli, CLI_ARGS("run", "one", "sh", "-c",
	                          "test $$ != 1 && test $PPID != 1 || exit 91; trap 'exit 7' TERM; echo up; "
	                          "while :; do sleep 0.01; done"));
	assert_true(cli_wait_out(&cli, "up", 5000));
	kill(tree_child(cli.pid), SIGTERM);
	assert_int_equal(cli_wait(&cli, 5000), 7);
}

/* The kernel shields process 1 from signals that it does not expect: it must expect them also while it
 * waits. */
static void test_the_first_process_leaves_the_queue(void **state) {
	struct cli holder, cli;

	(void)state;
	cli_start(&holder, &server, CLI_ARGS("run", "one", "sh", "-c", "echo held; cat"));
	assert_true(cli_wait_out(&holder, "held", 5000));
	long long alone = test_redis_int(&server, "ZCARD sneck:{one}");
	start_first(&cli, CLI_ARGS("run", "one", "echo", "ran"));
	assert_true(WAIT_UNTIL(test_redis_int(&server, "ZCARD sneck:{one}") > alone, 5000));
	kill(tree_child(cli.pid), SIGTERM);
	assert_int_equal(cli_wait(&cli, 5000), 128 + SIGTERM);
	assert_string_equal(cli_out(&cli), "");
	assert_int_equal(test_redis_int(&server, "ZCARD sneck:{one}"), alone);
	assert_int_equal(cli_wait(&holder, 5000), 0);
}

/* What others leave is buried: no zombie stays. */
static void test_the_first_process_buries_orphans(void **state) {
	struct cli cli;

	(void)state;
	start_first(&cli,
	        CLI_ARGS("run", "one", "sh", "-c",
	                "for i in 1 2 3 4 5; do sh -c 'sleep 0.01 & exit 0'; done; for i in $(seq 500); do "
	                "grep -l 'State:.Z' /proc/[0-9]*/status 2>/dev/null || "
	                "pgrep -x sleep >/dev/null || exit 0; sleep 0.005; done; exit 8"));
	assert_int_equal(cli_wait(&cli, 9000), 0);
}

/* ---- A service ----------------------------------------------------------------------------------*/

/* As a service manager starts it: ExecStart=sneck run … */
static void start_service(struct cli *cli, const char *name, const char *script) {
	char url[TEST_URL_MAX + 16];

	snprintf(url, sizeof(url), "SNECK_URL=%s", server.url);
	cli_start_program(cli, &server, "sh",
	        CLI_ARGS("-c", "exec setsid -w env -i PATH=/usr/bin:/bin INVOCATION_ID=0 \"$@\" </dev/null",
	                "sh", url, SNECK_BINARY, "run", name, "sh", "-c", script));
}

/* setsid(1) forks when it leads a group, as the tests' programs do. */
static pid_t service_pid(struct cli *cli) {
	return tree_child(cli->pid);
}

static void test_a_service_has_no_terminal(void **state) {
	struct cli cli;

	(void)state;
	start_service(&cli, "service",
	        "(: </dev/tty) 2>/dev/null && exit 92; test -z \"$NOTIFY_SOCKET$HOME\" || exit 93; "
	        "test -n \"$SNECK_TOKEN\" || exit 94; read line; echo \"read:$line\"; exit 6");
	assert_int_equal(cli_wait(&cli, 10000), 6);
	assert_string_equal(cli_out(&cli), "read:\n");
	assert_string_equal(cli_err(&cli), "");
}

/* What the manager gives to the service reaches the command: its socket for notices, its descriptors. */
static void test_a_service_keeps_what_it_was_given(void **state) {
	struct cli cli;

	(void)state;
	cli_start_program(&cli, &server, "sh",
	        CLI_ARGS("-c", "exec 3>&1; NOTIFY_SOCKET=/run/x exec \"$@\"", "sh", SNECK_BINARY, "run",
	                "service", "sh", "-c", "echo $NOTIFY_SOCKET >&3"));
	assert_int_equal(cli_wait(&cli, 5000), 0);
	assert_string_equal(cli_out(&cli), "/run/x\n");
}

/* `systemctl stop` with KillMode=control-group: every process gets SIGTERM, in any order; the command so
 * once from the manager and once from sneck, if it is not faster. It has its time, its exit code is the
 * service's, and the lock is given back. */
static void test_everybody_is_told_to_stop(void **state) {
	struct cli cli;

	(void)state;
	for (int order = 0; order < 3; order++) {
		start_service(&cli, "stop",
		        "n=0; trap 'n=$((n + 1)); trap \"n=\\$((n + 1))\" TERM; stop=1' TERM; stop=; "
		        "echo command:$$; while [ -z \"$stop\" ]; do sleep 0.01; done; "
		        "for i in 1 2 3 4 5; do sleep 0.02; done; echo told:$n; exit 4");
		assert_true(cli_wait_out(&cli, "command:", 5000));
		pid_t sneck = service_pid(&cli), command = tree_pid(&cli, "command:");
		pid_t guardian = tree_parent(command);
		assert_int_equal(tree_parent(guardian), sneck);
		pid_t all[] = { sneck, guardian, command };
		for (int i = 0; i < 3; i++)
			kill(all[(order + i) % 3], SIGTERM);
		assert_int_equal(cli_wait(&cli, 10000), 4);
		assert_true(strstr(cli_out(&cli), "told:1\n") || strstr(cli_out(&cli), "told:2\n"));
		assert_int_equal(test_redis_int(&server, "ZCOUNT sneck:{stop} 0 10000000000000"), 0);
		assert_null(strstr(cli_err(&cli), "sneck")); /* sh has its own word for its sleep */
	}
}

/* The manager's last resort: SIGKILL to all of them. Nothing is left. */
static void test_everybody_is_killed(void **state) {
	struct cli cli;

	(void)state;
	start_service(&cli, "kill", "trap '' TERM; sleep 600 & echo child:$!; echo command:$$; wait");
	assert_true(cli_wait_out(&cli, "command:", 5000));
	pid_t sneck = service_pid(&cli), command = tree_pid(&cli, "command:");
	pid_t child = tree_pid(&cli, "child:"), guardian = tree_parent(command);
	kill(sneck, SIGKILL);
	kill(guardian, SIGKILL);
	assert_true(WAIT_UNTIL(tree_is_gone(command) && tree_is_gone(guardian), 5000));
	/* Only the manager can find it then; it does. */
	kill(child, SIGKILL);
	assert_true(cli_wait(&cli, 5000) != 0);
	assert_true(tree_is_gone(sneck));
	test_redis_ok(&server, "DEL sneck:{kill}");
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_first_process_passes_signals_on),
		cmocka_unit_test(test_the_first_process_leaves_the_queue),
		cmocka_unit_test(test_the_first_process_buries_orphans),
		cmocka_unit_test(test_a_service_has_no_terminal),
		cmocka_unit_test(test_a_service_keeps_what_it_was_given),
		cmocka_unit_test(test_everybody_is_told_to_stop),
		cmocka_unit_test(test_everybody_is_killed),
	};

	return cmocka_run_group_tests(tests, start_server, stop_server);
}
