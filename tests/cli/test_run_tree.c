/* SPDX-License-Identifier: MIT */
/* sneck run and the processes below it: whatever happens to sneck, nothing that the command has started
 * goes on without the lock; nothing of sneck's reaches the command. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
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

/* For what comes as soon as the machine gets to it. The leases of those that must end by themselves are long
 * enough for a shell to start on a busy machine: a command that is ended before has told nothing. */
enum { SOON_MS = 20000 };
#define SHORT_LEASE "3s"

/* The command, a child, a grandchild whose parent has gone, and one in a session of its own. */
struct tree {
	pid_t command, child, orphan, daemon;
};

static void plant(struct cli *cli, struct tree *tree, const char *option, const char *value) {
	cli_start(cli, &server,
	        CLI_ARGS("run", option, value, "tree", "sh", "-c",
	                "trap '' TERM HUP INT; sleep 600 & echo child:$!; sh -c 'sleep 600 & echo "
	                "orphan:$!'; "
	                "setsid sh -c 'echo daemon:$$; exec sleep 600' & echo command:$$; exec sleep 600"));
	if (!cli_wait_out(cli, "daemon:", SOON_MS) || !cli_wait_out(cli, "command:", SOON_MS))
		fail_msg("the command did not start: %s", cli_err(cli));
	*tree = (struct tree){ tree_pid(cli, "command:"), tree_pid(cli, "child:"), tree_pid(cli, "orphan:"),
		tree_pid(cli, "daemon:") };
}

static bool is_felled(const struct tree *tree) {
	return tree_is_gone(tree->command) && tree_is_gone(tree->child) && tree_is_gone(tree->orphan) &&
	       tree_is_gone(tree->daemon);
}

static void test_kill_of_sneck(void **state) {
	struct cli cli;
	struct tree tree;

	(void)state;
	plant(&cli, &tree, "--lease", "30s");
	assert_false(is_felled(&tree));
	kill(cli.pid, SIGKILL);
	assert_int_equal(cli_wait(&cli, SOON_MS), -SIGKILL);
	assert_true(WAIT_UNTIL(is_felled(&tree), SOON_MS));
	test_redis_ok(&server, "DEL sneck:{tree}");
}

/* As a shell's `kill -9 %1` does. */
static void test_kill_of_snecks_group(void **state) {
	struct cli cli;
	struct tree tree;

	(void)state;
	plant(&cli, &tree, "--lease", "30s");
	kill(-cli.pid, SIGKILL);
	assert_int_equal(cli_wait(&cli, SOON_MS), -SIGKILL);
	assert_true(WAIT_UNTIL(is_felled(&tree), SOON_MS));
	test_redis_ok(&server, "DEL sneck:{tree}");
}

static void test_kill_of_the_guardian(void **state) {
	struct cli cli;
	struct tree tree;

	(void)state;
	plant(&cli, &tree, "--lease", "30s");
	pid_t guardian = tree_parent(tree.command);
	assert_int_equal(tree_parent(guardian), cli.pid);
	kill(guardian, SIGKILL);
	assert_int_equal(cli_wait(&cli, SOON_MS), 125);
	assert_non_null(strstr(cli_err(&cli), "guardian"));
	assert_true(WAIT_UNTIL(is_felled(&tree), SOON_MS));
}

/* A sneck that does not get to run cannot stop the command in time; the guardian does. */
static void test_stopped_sneck(void **state) {
	struct cli cli;
	struct tree tree;

	(void)state;
	plant(&cli, &tree, "--lease", SHORT_LEASE);
	kill(cli.pid, SIGSTOP);
	assert_true(WAIT_UNTIL(is_felled(&tree), SOON_MS));
	assert_true(tree_is_stopped(cli.pid));
	kill(cli.pid, SIGCONT);
	assert_int_equal(cli_wait(&cli, SOON_MS), 79);
}

/* Also one that is stopped before it has said a word to the guardian. */
static void test_stopped_at_once(void **state) {
	enum { ROUNDS = 5 };
	struct cli cli[ROUNDS];
	pid_t guardians[ROUNDS];

	(void)state;
	for (int i = 0; i < ROUNDS; i++) {
		char name[16];
		snprintf(name, sizeof(name), "early-%d", i);
		cli_start(&cli[i], &server, CLI_ARGS("run", "--lease", SHORT_LEASE, name, "sleep", "600"));
		guardians[i] = tree_child_at_once(cli[i].pid);
		kill(cli[i].pid, SIGSTOP);
	}
	for (int i = 0; i < ROUNDS; i++) {
		/* It goes when the command has gone. */
		assert_true(WAIT_UNTIL(tree_is_gone(guardians[i]), SOON_MS));
		assert_true(tree_is_stopped(cli[i].pid));
		kill(cli[i].pid, SIGCONT);
		assert_int_equal(cli_wait(&cli[i], SOON_MS), 79);
	}
}

/* Losing the lock ends those as well that have left the group. */
static void test_loss(void **state) {
	struct cli cli;
	struct tree tree;

	(void)state;
	plant(&cli, &tree, "--lease", SHORT_LEASE);
	test_redis_ok(&server, "DEL sneck:{tree}");
	assert_int_equal(cli_wait(&cli, SOON_MS), 79);
	assert_true(is_felled(&tree));
}

static void test_max_hold(void **state) {
	struct cli cli;
	struct tree tree;

	(void)state;
	cli_start(&cli, &server,
	        CLI_ARGS("run", "--max-hold", "1s", "max", "sh", "-c",
	                "trap 'echo told; exit 3' TERM; while :; do sleep 0.01; done"));
	assert_int_equal(cli_wait(&cli, SOON_MS), 124);
	assert_non_null(strstr(cli_out(&cli), "told"));
	assert_non_null(strstr(cli_err(&cli), "--max-hold"));
	/* One that does not obey, and -k. */
	int64_t begin_ms = test_now_ms();
	cli_start(&cli, &server,
	        CLI_ARGS("run", "--max-hold", "1s", "-k", "200ms", "max", "sh", "-c",
	                "trap '' TERM; sleep 600 & echo child:$!; setsid sh -c 'echo daemon:$$; exec sleep "
	                "600' & "
	                "echo command:$$; sleep 600"));
	assert_int_equal(cli_wait(&cli, SOON_MS), 124);
	assert_true(test_now_ms() - begin_ms >= 1200);
	tree = (struct tree){ tree_pid(&cli, "command:"), tree_pid(&cli, "child:"), tree_pid(&cli, "child:"),
		tree_pid(&cli, "daemon:") };
	assert_true(is_felled(&tree));
	/* Another signal. */
	cli_start(&cli, &server,
	        CLI_ARGS("run", "--max-hold", "1s", "--signal", "USR1", "max", "sh", "-c",
	                "trap 'echo one; exit 3' USR1; while :; do sleep 0.01; done"));
	assert_int_equal(cli_wait(&cli, SOON_MS), 124);
	assert_non_null(strstr(cli_out(&cli), "one"));
	/* In time. */
	assert_int_equal(
	        cli_run(&cli, &server, CLI_ARGS("run", "--max-hold", "20s", "max", "sh", "-c", "exit 4")), 4);
}

/* What the command leaves in the background when it ends by itself is its own business. */
static void test_background_job_stays(void **state) {
	struct cli cli;

	(void)state;
	assert_int_equal(
	        cli_run(&cli, &server,
	                CLI_ARGS("run", "bg", "sh", "-c", "sleep 600 >/dev/null 2>&1 & echo left:$!")),
	        0);
	pid_t left = tree_pid(&cli, "left:");
	assert_false(tree_is_gone(left));
	kill(left, SIGKILL);
}

/* ---- Signals --------------------------------------------------------------------------------*/

/* The command starts no others: a shell that waits in vfork for a child that was stopped does not
 * stop itself. */
static void test_stop_and_continue(void **state) {
	struct cli cli;

	(void)state;
	cli_start(&cli, &server, CLI_ARGS("run", "stop", "sh", "-c", "echo pid:$$; read line; exit 5"));
	assert_true(cli_wait_out(&cli, "pid:", SOON_MS));
	pid_t pid = tree_pid(&cli, "pid:");
	kill(cli.pid, SIGTSTP);
	assert_true(WAIT_UNTIL(tree_is_stopped(pid), SOON_MS));
	assert_false(tree_is_stopped(cli.pid)); /* without a terminal it goes on renewing */
	kill(cli.pid, SIGCONT);
	assert_true(WAIT_UNTIL(!tree_is_stopped(pid), SOON_MS));
	assert_int_equal(cli_wait(&cli, SOON_MS), 5);
	cli_start(&cli, &server,
	        CLI_ARGS("run", "stop", "sh", "-c",
	                "trap 'echo wide; exit 6' WINCH; echo up; while :; do sleep 0.01; done"));
	assert_true(cli_wait_out(&cli, "up", SOON_MS));
	kill(cli.pid, SIGWINCH);
	assert_int_equal(cli_wait(&cli, SOON_MS), 6);
}

static void test_foreground(void **state) {
	struct cli cli;
	char expected[64];

	(void)state;
	cli_start(&cli, &server,
	        CLI_ARGS("run", "--foreground", "fg", "sh", "-c",
	                "echo group:$(ps -o pgid= -p $$ | tr -d ' '); trap 'exit 9' TERM; echo ready; while "
	                ":; "
	                "do "
	                "sleep 0.01; done"));
	assert_true(cli_wait_out(&cli, "ready", SOON_MS));
	snprintf(expected, sizeof(expected), "group:%d\n", (int)cli.pid); /* its own group's leader */
	assert_non_null(strstr(cli_out(&cli), expected));
	kill(cli.pid, SIGTERM);
	assert_int_equal(cli_wait(&cli, SOON_MS), 9);
	/* By default it is not. */
	assert_int_equal(
	        cli_run(&cli, &server, CLI_ARGS("run", "fg", "sh", "-c", "test $(ps -o pgid= -p $$) = $$")),
	        0);
}

/* ---- Descriptors ----------------------------------------------------------------------------*/

/* The guardian keeps nothing of the caller's or of sneck's but its own three and the first three. */
static void test_guardian_descriptors(void **state) {
	struct cli cli;

	(void)state;
	assert_int_equal(cli_run(&cli, &server,
	                         CLI_ARGS("run", "fds", "sh", "-c",
	                                 "for i in $(seq 200); do n=$(ls /proc/$PPID/fd | wc -l); test $n = "
	                                 "6 && exit 0; "
	                                 "sleep 0.01; done; ls -l /proc/$PPID/fd; exit 1")),
	        0);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kill_of_sneck),
		cmocka_unit_test(test_kill_of_snecks_group),
		cmocka_unit_test(test_kill_of_the_guardian),
		cmocka_unit_test(test_stopped_sneck),
		cmocka_unit_test(test_stopped_at_once),
		cmocka_unit_test(test_loss),
		cmocka_unit_test(test_max_hold),
		cmocka_unit_test(test_background_job_stays),
		cmocka_unit_test(test_stop_and_continue),
		cmocka_unit_test(test_foreground),
		cmocka_unit_test(test_guardian_descriptors),
	};

	return cmocka_run_group_tests(tests, start_server, stop_server);
}
