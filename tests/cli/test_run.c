/* SPDX-License-Identifier: MIT */
/* sneck run while the lock is not lost: exit codes, waiting, modes, signals, what the command
 * inherits. */
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
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli.h"
#include "server.h"
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

/* Start a holder of `name`; its input is its life: it ends when cli_wait closes it. */
static void hold(struct cli *cli, const char *option, const char *name) {
	cli_start(cli, &server, CLI_ARGS("run", option, name, "sh", "-c", "echo held; cat"));
	assert_true(cli_wait_out(cli, "held", 5000));
}

/* The sorted set of a lock, as one string. */
static void members(const char *name, char *ret, size_t size) {
	redisReply *reply = test_redis(&server, "ZRANGE sneck:{%s} 0 -1", name);

	assert_non_null(reply);
	ret[0] = '\0';
	for (size_t i = 0; i < reply->elements; i++) {
		size_t len = strlen(ret);
		snprintf(ret + len, size - len, " %s", reply->element[i]->str);
	}
	freeReplyObject(reply);
}

/* ---- Exit codes -----------------------------------------------------------------------------*/

static void test_passes_the_exit_code_on(void **state) {
	struct cli cli;

	(void)state;
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "a", "true")), 0);
	assert_string_equal(cli_err(&cli), "");
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "a", "--", "sh", "-c", "exit 7")), 7);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "a", "sh", "-c", "kill -9 $$")), 128 + 9);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "a", "sh", "-c", "kill -15 $$")), 128 + 15);
}

static void test_usage(void **state) {
	const char *const *const wrong[] = {
		CLI_ARGS("nonsense"),
		CLI_ARGS("run"),
		CLI_ARGS("run", "a"),
		CLI_ARGS("run", "a", "--"),
		CLI_ARGS("run", "--nonsense", "a", "true"),
		CLI_ARGS("run", "-w", "soon", "a", "true"),
		CLI_ARGS("run", "-w"),
		CLI_ARGS("run", "-E", "256", "a", "true"),
		CLI_ARGS("run", "-E", "-1", "a", "true"),
		CLI_ARGS("run", "-E", "1x", "a", "true"),
		CLI_ARGS("run", "--lease", "0", "a", "true"),
		CLI_ARGS("run", "--lease", "1ms", "a", "true"),
		CLI_ARGS("run", "--lease", "8d", "a", "true"),
		CLI_ARGS("run", "", "true"),
	};
	struct cli cli;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		int code = cli_run(&cli, &server, wrong[i]);
		if (code != 64 || !cli_err(&cli)[0])
			fail_msg("case %zu: exit %d: %s", i, code, cli_err(&cli));
	}
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("--help")), 0);
	assert_non_null(strstr(cli_out(&cli), "79  the lock was lost"));
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "--help")), 0);
	assert_non_null(strstr(cli_out(&cli), "--kill-after"));
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("--version")), 0);
	assert_non_null(strstr(cli_out(&cli), "sneck 0."));
}

/* Options after the name belong to the command. */
static void test_options_end_at_the_name(void **state) {
	struct cli cli;

	(void)state;
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "a", "echo", "-n", "-w")), 0);
	assert_string_equal(cli_out(&cli), "-w");
}

static void test_command_cannot_be_run(void **state) {
	struct cli cli;

	(void)state;
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "a", "no-such-command")), 127);
	assert_non_null(strstr(cli_err(&cli), "no-such-command"));
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "a", "/dev/null")), 126);
	/* and the lock is free again */
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "-n", "a", "true")), 0);
}

static void test_server_trouble(void **state) {
	struct cli cli;
	int64_t begin_ms = test_now_ms();

	(void)state;
	assert_int_equal(
	        cli_run(&cli, &server, CLI_ARGS("run", "--server", "unix:///nowhere/r", "a", "true")), 69);
	assert_non_null(strstr(cli_err(&cli), "/nowhere/r"));
	assert_true(test_now_ms() - begin_ms < 3000);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "--server", "gopher://x", "a", "true")), 78);
	assert_int_equal(
	        cli_run(&cli, &server, CLI_ARGS("run", "--server", "redis://h:99999", "a", "true")), 78);
	test_redis_ok(&server, "SET sneck:{stranger} value");
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "stranger", "true")), 69);
	assert_int_equal(test_redis_int(&server, "EXISTS sneck:{stranger}"), 1);
}

/* ---- Waiting and modes ----------------------------------------------------------------------*/

static void test_busy(void **state) {
	struct cli holder, cli;

	(void)state;
	hold(&holder, "-x", "busy");
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "-n", "busy", "true")), 75);
	assert_non_null(strstr(cli_err(&cli), "busy"));
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "-w", "0", "busy", "true")), 75);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "-n", "-E", "9", "busy", "true")), 9);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "-qn", "-E", "0", "busy", "echo", "ran")), 0);
	assert_string_equal(cli_out(&cli), "");
	assert_string_equal(cli_err(&cli), "");
	int64_t begin_ms = test_now_ms();
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "-w", "200ms", "busy", "true")), 75);
	assert_in_range(test_now_ms() - begin_ms, 200, 2000);
	assert_int_equal(cli_wait(&holder, 5000), 0);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "-n", "busy", "true")), 0);
}

/* One holder, one waiter. How long the waiter's command took to begin and end after the holder's. */
static int64_t take_a_turn(void) {
	struct cli holder, cli;
	char text[512];

	hold(&holder, "-x", "turn");
	cli_start(&cli, &server, CLI_ARGS("run", "turn", "echo", "mine"));
	assert_true(WAIT_UNTIL((members("turn", text, sizeof(text)), strstr(text, " w") != NULL), 5000));
	assert_string_equal(cli_out(&cli), "");
	int64_t begin_ms = test_now_ms();
	assert_int_equal(cli_wait(&holder, 5000), 0);
	assert_int_equal(cli_wait(&cli, 5000), 0);
	assert_string_equal(cli_out(&cli), "mine\n");
	return test_now_ms() - begin_ms;
}

/* The lock is handed over; a heartbeat would find it only after up to a second. A busy machine may
 * be slow once, but not every time. */
static void test_waits_its_turn(void **state) {
	bool quick = false;

	(void)state;
	for (int i = 0; i < 5 && !quick; i++)
		quick = take_a_turn() < 500;
	assert_true(quick);
}

static void test_shared(void **state) {
	struct cli first, second, cli;

	(void)state;
	hold(&first, "-s", "shared");
	hold(&second, "-s", "shared");
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "-n", "shared", "true")), 75);
	assert_int_equal(cli_wait(&first, 5000), 0);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "-n", "shared", "true")), 75);
	assert_int_equal(cli_wait(&second, 5000), 0);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "-n", "shared", "true")), 0);
}

/* A sanitizer's time is not the program's: no such test under one. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/* The shortest of some runs, in microseconds: what a busy machine adds is not the program's. */
static int64_t shortest_us(const char *program, const char *const *args) {
	int64_t best_us = INT64_MAX;

	for (int i = 0; i < 30; i++) {
		struct timespec begin, end;
		struct cli cli;

		clock_gettime(CLOCK_MONOTONIC, &begin);
		cli_start_program(&cli, &server, program, args);
		close(cli.in_fd);
		cli.in_fd = -1;
		assert_int_equal(waitpid(cli.pid, NULL, 0), cli.pid);
		clock_gettime(CLOCK_MONOTONIC, &end);
		int64_t us = (end.tv_sec - begin.tv_sec) * 1000000 + (end.tv_nsec - begin.tv_nsec) / 1000;
		best_us = us < best_us ? us : best_us;
	}
	return best_us;
}

/* Next to flock(1) it costs at most five milliseconds more. */
static void test_overhead(void **state) {
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/flock", server.dir);
	int64_t flock_us = shortest_us("flock", CLI_ARGS("-n", path, "true"));
	int64_t sneck_us = shortest_us(SNECK_BINARY, CLI_ARGS("run", "-n", "cost", "--", "true"));
	if (sneck_us - flock_us > 5000)
		fail_msg("sneck %lld us, flock %lld us", (long long)sneck_us, (long long)flock_us);
}
#endif

/* ---- What the command finds -----------------------------------------------------------------*/

static uint64_t token_of(struct cli *cli) {
	const char *found = strstr(cli_out(cli), "SNECK_TOKEN=");

	assert_non_null(found);
	return strtoull(found + strlen("SNECK_TOKEN="), NULL, 10);
}

static void test_environment(void **state) {
	struct cli cli;

	(void)state;
	setenv("SNECK_TOKEN", "stale", 1);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "-s", "env 1", "env")), 0);
	assert_non_null(strstr(cli_out(&cli), "SNECK_NAME=env 1\n"));
	assert_non_null(strstr(cli_out(&cli), "SNECK_MODE=read\n"));
	assert_non_null(strstr(cli_out(&cli), "SNECK_SERVER=unix:///"));
	assert_non_null(strstr(cli_out(&cli), "PATH="));
	assert_null(strstr(cli_out(&cli), "stale"));
	unsetenv("SNECK_TOKEN");
	uint64_t before = token_of(&cli);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "env 1", "env")), 0);
	assert_non_null(strstr(cli_out(&cli), "SNECK_MODE=write\n"));
	assert_true(token_of(&cli) > before);
}

static void test_descriptors(void **state) {
	struct cli cli;

	(void)state;
	/* 3 is the directory that ls itself reads. */
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "fds", "ls", "/proc/self/fd")), 0);
	assert_string_equal(cli_out(&cli), "0\n1\n2\n3\n");
}

/* Closed ones stay closed for the command, and nothing of sneck's gets their numbers: the guardian, which
 * has a copy of sneck's, shows it. */
static void test_closed_descriptors(void **state) {
	struct cli cli;
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/fds", server.dir);
	cli_start_program(&cli, &server, "sh",
	        CLI_ARGS("-c", "exec \"$@\" <&- >&- 2>&-", "sh", SNECK_BINARY, "run", "-v", "closed", "sh",
	                "-c",
	                "for fd in 0 1 2; do test ! -e /proc/self/fd/$fd || exit 91; done; "
	                "readlink /proc/$PPID/fd/0 /proc/$PPID/fd/1 /proc/$PPID/fd/2 >$0; exit 3",
	                path));
	assert_int_equal(cli_wait(&cli, 5000), 3);
	cli_start_program(&cli, &server, "cat", CLI_ARGS(path));
	assert_int_equal(cli_wait(&cli, 5000), 0);
	assert_string_equal(cli_out(&cli), "/dev/null\n/dev/null\n/dev/null\n");
	/* An answer that nobody can read is none. */
	cli_start_program(&cli, &server, "sh", CLI_ARGS("-c", "exec \"$0\" --version >&-", SNECK_BINARY));
	assert_int_equal(cli_wait(&cli, 5000), 125);
}

static void test_standard_input(void **state) {
	struct cli cli;

	(void)state;
	cli_start(&cli, &server, CLI_ARGS("run", "in", "cat"));
	assert_int_equal(write(cli.in_fd, "through\n", 8), 8);
	assert_int_equal(cli_wait(&cli, 5000), 0);
	assert_string_equal(cli_out(&cli), "through\n");
}

/* A line of /proc/self/status as a number: of this process's child, or of a command under sneck. */
static uint64_t signal_bits(struct cli *cli, const char *field) {
	const char *found = strstr(cli_out(cli), field);

	assert_non_null(found);
	/* Those above 31 are glibc's own: it sets them as a program gets threads. */
	return strtoull(found + strlen(field), NULL, 16) & 0x7fffffff;
}

static void test_signals_are_as_before(void **state) {
	struct cli bare, cli;

	(void)state;
	cli_start_program(&bare, &server, "cat", CLI_ARGS("/proc/self/status"));
	assert_int_equal(cli_wait(&bare, 5000), 0);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "mask", "cat", "/proc/self/status")), 0);
	assert_int_equal(signal_bits(&cli, "SigBlk:"), signal_bits(&bare, "SigBlk:"));
	assert_int_equal(signal_bits(&cli, "SigIgn:"), signal_bits(&bare, "SigIgn:"));
	assert_int_equal(signal_bits(&cli, "SigBlk:"), 0);
}

/* ---- Signals --------------------------------------------------------------------------------*/

static void test_forwards_signals(void **state) {
	static const struct {
		int number;
		const char *name;
	} signals[] = { { SIGINT, "INT" }, { SIGTERM, "TERM" }, { SIGHUP, "HUP" }, { SIGQUIT, "QUIT" },
		{ SIGUSR1, "USR1" }, { SIGUSR2, "USR2" } };
	struct cli cli;
	char script[128];

	(void)state;
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++) {
		snprintf(script, sizeof(script),
		        "trap 'echo got %s; exit 3' %s; echo ready; while :; do sleep 0.01; done",
		        signals[i].name, signals[i].name);
		cli_start(&cli, &server, CLI_ARGS("run", "sig", "sh", "-c", script));
		assert_true(cli_wait_out(&cli, "ready", 5000));
		kill(cli.pid, signals[i].number);
		assert_int_equal(cli_wait(&cli, 5000), 3);
		assert_non_null(strstr(cli_out(&cli), signals[i].name));
	}
	cli_start(&cli, &server, CLI_ARGS("run", "sig", "sh", "-c", "echo ready; exec sleep 60"));
	assert_true(cli_wait_out(&cli, "ready", 5000));
	kill(cli.pid, SIGTERM);
	assert_int_equal(cli_wait(&cli, 5000), 128 + SIGTERM);
}

static void test_signal_leaves_the_queue(void **state) {
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	struct cli holder, cli;
	char text[512];

	(void)state;
	hold(&holder, "-x", "queue");
	for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++) {
		cli_start(&cli, &server, CLI_ARGS("run", "queue", "echo", "ran"));
		assert_true(
		        WAIT_UNTIL((members("queue", text, sizeof(text)), strstr(text, " w") != NULL), 5000));
		int64_t begin_ms = test_now_ms();
		kill(cli.pid, signals[i]);
		assert_int_equal(cli_wait(&cli, 5000), 128 + signals[i]);
		assert_true(test_now_ms() - begin_ms < 3000); /* it does not wait for the holder */
		members("queue", text, sizeof(text));
		assert_null(strstr(text, " w"));
		assert_string_equal(cli_out(&cli), "");
	}
	assert_int_equal(cli_wait(&holder, 5000), 0);
}

static void test_ignored_stays_ignored(void **state) {
	struct cli holder, cli;
	char text[512];

	(void)state;
	cli_start_program(&cli, &server, "env",
	        CLI_ARGS("--ignore-signal=HUP", "--ignore-signal=CHLD", SNECK_BINARY, "run", "ign", "cat",
	                "/proc/self/status"));
	assert_int_equal(cli_wait(&cli, 5000), 0);
	const uint64_t both = 1u << (SIGHUP - 1) | 1u << (SIGCHLD - 1);
	assert_int_equal(signal_bits(&cli, "SigIgn:") & both, both);
	cli_start_program(&cli, &server, "env",
	        CLI_ARGS("--ignore-signal=HUP", SNECK_BINARY, "run", "ign", "sh", "-c",
	                "echo up; cat; exit 5"));
	assert_true(cli_wait_out(&cli, "up", 5000));
	kill(cli.pid, SIGHUP);
	assert_int_equal(cli_wait(&cli, 5000), 5);

	/* Also while it waits. */
	hold(&holder, "-x", "ign");
	cli_start_program(&cli, &server, "env",
	        CLI_ARGS("--ignore-signal=HUP", SNECK_BINARY, "run", "ign", "sh", "-c", "exit 6"));
	assert_true(WAIT_UNTIL((members("ign", text, sizeof(text)), strstr(text, " w") != NULL), 5000));
	kill(cli.pid, SIGHUP);
	kill(cli.pid, SIGCHLD); /* means nothing by itself */
	assert_int_equal(cli_wait(&holder, 5000), 0);
	assert_int_equal(cli_wait(&cli, 5000), 6);
}

/* ---- Secrets and local: ---------------------------------------------------------------------*/

static bool process_shows(pid_t pid, const char *file, const char *secret) {
	char path[64], text[8192];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	ssize_t n = read(fd, text, sizeof(text));
	close(fd);
	assert_true(n > 0);
	return memmem(text, (size_t)n, secret, strlen(secret)) != NULL;
}

static void test_password(void **state) {
	struct test_server guarded;
	struct cli cli;
	char url[256];

	(void)state;
	assert_int_equal(test_server_start(&guarded, CLI_ARGS("--requirepass", "canary")), 0);
	snprintf(url, sizeof(url), "unix://%s?password=canary", guarded.socket_path);
	cli_start(&cli, &server, CLI_ARGS("run", "--server", url, "a", "sh", "-c", "env; echo ready; cat"));
	assert_true(cli_wait_out(&cli, "ready", 5000));
	assert_true(process_shows(cli.pid, "cmdline", "--server"));
	assert_false(process_shows(cli.pid, "cmdline", "canary"));
	assert_int_equal(cli_wait(&cli, 5000), 0);
	assert_null(strstr(cli_out(&cli), "canary"));

	snprintf(url, sizeof(url), "unix://%s?password=wrong-canary", guarded.socket_path);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "--server", url, "a", "true")), 77);
	assert_null(strstr(cli_err(&cli), "canary"));
	test_server_stop(&guarded);
}

static void test_local_is_said(void **state) {
	struct cli cli;
	char dir[128];

	(void)state;
	snprintf(dir, sizeof(dir), "%s/local", server.dir);
	setenv("SNECK_LOCAL_DIR", dir, 1);
	cli_start_program(
	        &cli, &server, "env", CLI_ARGS("-u", "SNECK_URL", SNECK_BINARY, "run", "a", "true"));
	assert_int_equal(cli_wait(&cli, 20000), 0);
	assert_non_null(strstr(cli_err(&cli), "this machine only"));
	assert_non_null(strstr(cli_err(&cli), "set SNECK_URL="));
	assert_string_equal(strchr(cli_err(&cli), '\n'), "\n"); /* one line */
	cli_start_program(&cli, &server, "env",
	        CLI_ARGS("-u", "SNECK_URL", SNECK_BINARY, "lock", "--lease", "1s", "b"));
	assert_int_equal(cli_wait(&cli, 20000), 0);
	assert_non_null(strstr(cli_err(&cli), "this machine only"));
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "--server", "local:", "a", "true")), 0);
	assert_string_equal(cli_err(&cli), "");

	/* It goes on running until it is told to stop. */
	char expected[160];
	snprintf(expected, sizeof(expected), "unix://%s/redis.sock\n", dir);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("server", "url")), 0);
	assert_string_equal(cli_out(&cli), expected);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("server")), 0);
	const char *pid = strstr(cli_out(&cli), "running, pid ");
	assert_ptr_equal(pid, cli.text);
	pid_t server_pid = atoi(pid + strlen("running, pid "));
	assert_int_equal(kill(server_pid, 0), 0);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("server", "stop")), 0);
	assert_true(WAIT_UNTIL(kill(server_pid, 0) < 0, 5000));
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("server", "status")), 69);
	assert_non_null(strstr(cli_out(&cli), "not running"));
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("server", "stop")), 0);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("server", "halt")), 64);
	unsetenv("SNECK_LOCAL_DIR");
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_passes_the_exit_code_on),
		cmocka_unit_test(test_usage),
		cmocka_unit_test(test_options_end_at_the_name),
		cmocka_unit_test(test_command_cannot_be_run),
		cmocka_unit_test(test_server_trouble),
		cmocka_unit_test(test_busy),
		cmocka_unit_test(test_waits_its_turn),
		cmocka_unit_test(test_shared),
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
		cmocka_unit_test(test_overhead),
#endif
		cmocka_unit_test(test_environment),
		cmocka_unit_test(test_descriptors),
		cmocka_unit_test(test_closed_descriptors),
		cmocka_unit_test(test_standard_input),
		cmocka_unit_test(test_signals_are_as_before),
		cmocka_unit_test(test_forwards_signals),
		cmocka_unit_test(test_signal_leaves_the_queue),
		cmocka_unit_test(test_ignored_stays_ignored),
		cmocka_unit_test(test_password),
		cmocka_unit_test(test_local_is_said),
	};

	return cmocka_run_group_tests(tests, start_server, stop_server);
}
