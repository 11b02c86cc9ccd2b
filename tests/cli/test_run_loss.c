/* SPDX-License-Identifier: MIT */
/* sneck run when the lock is lost, or sneck itself: nothing of the command outlives the lease. */
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

static int setup(void **state) {
	struct test_server *server = calloc(1, sizeof(*server));

	if (!server || test_server_start(server, NULL) < 0)
		return -1;
	*state = server;
	return 0;
}

static int teardown(void **state) {
	struct test_server *server = *state;

	test_server_stop(server);
	free(server);
	return 0;
}

/* The server falls silent: SIGTERM comes before the lease ends, and there is time to obey. */
static void test_silent_server_stops_politely(void **state) {
	struct test_server *server = *state;
	struct cli cli;

	cli_start(&cli, server,
	        CLI_ARGS("run", "--lease", "6s", "-k", "1500ms", "a", "sh", "-c",
	                "trap 'echo told; exit 0' TERM; echo ready; while :; do sleep 0.01; done"));
	assert_true(cli_wait_out(&cli, "ready", 5000));
	test_server_stopcont(server, true);
	assert_int_equal(cli_wait(&cli, 15000), 79); /* closing does not wait for ever either */
	assert_non_null(strstr(cli_out(&cli), "told"));
	assert_non_null(strstr(cli_err(&cli), "losing"));
	test_server_stopcont(server, false);
}

/* The server is gone for good, and with it every connection: the same. */
static void test_vanished_server_stops_politely(void **state) {
	struct test_server *server = *state;
	struct cli cli;

	cli_start(&cli, server,
	        CLI_ARGS("run", "--lease", "3s", "-k", "700ms", "a", "sh", "-c",
	                "trap 'echo told; exit 0' TERM; echo ready; while :; do sleep 0.01; done"));
	assert_true(cli_wait_out(&cli, "ready", 5000));
	int64_t begin_ms = test_now_ms();
	test_server_kill9(server);
	assert_int_equal(cli_wait(&cli, 15000), 79);
	assert_non_null(strstr(cli_out(&cli), "told"));
	assert_true(test_now_ms() - begin_ms >= 1000); /* a line that is cut is no loss yet */
}

/* When the one holder's lease ends, by the server's clock. */
static long long deadline_of(const struct test_server *server, const char *name) {
	redisReply *reply = test_redis(server, "ZRANGE sneck:{%s} 0 10000000000000 BYSCORE WITHSCORES", name);
	long long deadline_ms = 0;

	if (reply && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2)
		deadline_ms = atoll(reply->element[1]->str);
	freeReplyObject(reply);
	return deadline_ms;
}

/* The last number in a file of lines. */
static long long last_line(const char *path) {
	char text[64] = "";
	FILE *file = fopen(path, "re");

	assert_non_null(file);
	fseek(file, -15, SEEK_END);
	size_t n = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	assert_true(n > 0);
	char *newline = memchr(text, '\n', n - 1);
	return atoll(newline ? newline + 1 : text);
}

/* Lose a lock under a command that does not obey and has a child of its own. By how many milliseconds
 * the child's last act came before the end of the lease: the child notes the time while it lives,
 * and the lease's end is what the server has noted. */
static long long outlive_by_ms(struct test_server *server, const char *name) {
	struct cli cli;
	char path[128], script[512];

	snprintf(path, sizeof(path), "%s/ticks-%s", server->dir, name);
	snprintf(script, sizeof(script),
	        "trap '' TERM; (while :; do date +%%s%%3N; sleep 0.002; done >%s) & echo inner:$!; echo "
	        "outer:$$; wait",
	        path);
	cli_start(&cli, server, CLI_ARGS("run", "--lease", "2s", name, "sh", "-c", script));
	assert_true(cli_wait_out(&cli, "outer:", 5000));
	pid_t outer = tree_pid(&cli, "outer:"), inner = tree_pid(&cli, "inner:");
	test_server_stopcont(server, true);
	assert_true(WAIT_UNTIL(tree_is_gone(outer) && tree_is_gone(inner), 8000));
	assert_int_equal(cli_wait(&cli, 15000), 79);
	test_server_stopcont(server, false);
	long long end_ms = deadline_of(server, name);
	assert_true(end_ms > 0);
	return end_ms - last_line(path);
}

/* Neither does anything after the lease has ended. A machine on which nothing is scheduled in time
 * may be late once, but not every time. */
static void test_silent_server_kills_the_group(void **state) {
	static const char *const names[] = { "a", "b", "c" };
	struct test_server *server = *state;
	bool in_time = false;

	for (size_t i = 0; i < sizeof(names) / sizeof(*names) && !in_time; i++) {
		long long by_ms = outlive_by_ms(server, names[i]);
		in_time = by_ms > 0 && by_ms < 1000; /* it had its time, and no more */
	}
	assert_true(in_time);
}

/* The server says that the lock is gone: no time is left, so the command is killed at once. */
static void test_lost_by_the_servers_word(void **state) {
	struct test_server *server = *state;
	struct cli cli;

	cli_start(&cli, server,
	        CLI_ARGS("run", "--lease", "1500ms", "a", "sh", "-c", "echo ready; exec sleep 60"));
	assert_true(cli_wait_out(&cli, "ready", 5000));
	test_redis_ok(server, "FLUSHALL");
	assert_int_equal(cli_wait(&cli, 1500), 79);
	assert_non_null(strstr(cli_err(&cli), "(lost)"));
}

/* A server that is short of memory has dropped it. */
static void test_lost_by_eviction(void **state) {
	static const char fill[] =
	        "for i = 1, 100 do redis.call('SET', ARGV[1] .. i, string.rep('x', 4096)) end";
	struct test_server *server = *state;
	struct cli cli;

	test_redis_ok(server, "CONFIG SET maxmemory-policy allkeys-lru");
	cli_start(&cli, server,
	        CLI_ARGS("run", "-q", "--lease", "1500ms", "a", "sh", "-c", "echo ready; exec sleep 60"));
	assert_true(cli_wait_out(&cli, "ready", 5000));
	/* Full, so that every key that is older than the newest goes. */
	test_redis_ok(server, "CONFIG SET maxmemory 3mb");
	for (int i = 0; i < 200 && test_redis_int(server, "EXISTS sneck:{a}"); i++)
		freeReplyObject(test_redis(server, "EVAL %s 0 %d.", fill, i));
	assert_int_equal(test_redis_int(server, "EXISTS sneck:{a}"), 0);
	assert_int_equal(cli_wait(&cli, 5000), 79);
	assert_non_null(strstr(cli_err(&cli), "(lost)"));
}

/* The command ended well, but at the release the lock turns out to have been lost. */
static void test_lost_before_the_end(void **state) {
	struct test_server *server = *state;
	struct cli cli;

	cli_start(&cli, server, CLI_ARGS("run", "a", "sh", "-c", "echo ready; cat; exit 0"));
	assert_true(cli_wait_out(&cli, "ready", 5000));
	test_redis_ok(server, "DEL sneck:{a}");
	assert_int_equal(cli_wait(&cli, 5000), 79);
	assert_non_null(strstr(cli_err(&cli), "lost before the command ended"));
}

/* A silence that is shorter than the lease is ridden out. */
static void test_short_silence_is_no_loss(void **state) {
	struct test_server *server = *state;
	struct cli cli;

	cli_start(&cli, server, CLI_ARGS("run", "--lease", "3s", "a", "sh", "-c", "echo ready; cat; exit 4"));
	assert_true(cli_wait_out(&cli, "ready", 5000));
	long long first_ms = deadline_of(server, "a");
	assert_true(first_ms > 0);
	test_server_stopcont(server, true);
	int64_t until_ms = test_now_ms() + 1200;
	assert_true(WAIT_UNTIL(test_now_ms() >= until_ms, 5000)); /* the length of the silence */
	test_server_stopcont(server, false);
	assert_true(WAIT_UNTIL(deadline_of(server, "a") > first_ms, 5000));
	assert_int_equal(cli_wait(&cli, 5000), 4);
	assert_string_equal(cli_err(&cli), "");
}

/* kill -9 of sneck: nobody renews the lease, so the command must not go on. */
static void test_command_dies_with_sneck(void **state) {
	struct test_server *server = *state;
	struct cli cli;

	cli_start(&cli, server, CLI_ARGS("run", "a", "sh", "-c", "echo pid:$$; exec sleep 60"));
	assert_true(cli_wait_out(&cli, "pid:", 5000));
	pid_t pid = tree_pid(&cli, "pid:");
	kill(cli.pid, SIGKILL);
	assert_int_equal(cli_wait(&cli, 5000), -SIGKILL);
	assert_true(WAIT_UNTIL(tree_is_gone(pid), 5000));
}

/* A restart without memory: the lock is gone, whoever held it is told. */
static void test_forgetful_restart(void **state) {
	struct test_server *server = *state;
	struct cli cli;

	cli_start(
	        &cli, server, CLI_ARGS("run", "--lease", "3s", "a", "sh", "-c", "echo ready; exec sleep 60"));
	assert_true(cli_wait_out(&cli, "ready", 5000));
	assert_int_equal(test_server_restart(server), 0);
	assert_int_equal(cli_wait(&cli, 5000), 79);
}

int main(void) {
#define LOSS_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		LOSS_TEST(test_silent_server_stops_politely),
		LOSS_TEST(test_vanished_server_stops_politely),
		LOSS_TEST(test_silent_server_kills_the_group),
		LOSS_TEST(test_lost_by_the_servers_word),
		LOSS_TEST(test_lost_by_eviction),
		LOSS_TEST(test_lost_before_the_end),
		LOSS_TEST(test_short_silence_is_no_loss),
		LOSS_TEST(test_command_dies_with_sneck),
		LOSS_TEST(test_forgetful_restart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
