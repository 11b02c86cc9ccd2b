/* SPDX-License-Identifier: MIT */
/* What the options of sneck run do, one by one; a run inside a run. */
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
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "cli.h"
#include "server.h"
#include "wait.h"

static struct test_server server;

static int start_server(void **state) {
	(void)state;
	unsetenv("SNECK_URL");
	unsetenv("REDIS_URL");
	unsetenv("SNECK_HELD");
	if (test_server_start(&server, NULL) < 0)
		return -1;
	return setenv("HOME", server.dir, 1);
}

static int stop_server(void **state) {
	(void)state;
	test_server_stop(&server);
	return 0;
}

static void hold(struct cli *cli, const char *option, const char *name) {
	cli_start(cli, &server, CLI_ARGS("run", option, name, "sh", "-c", "echo held; cat"));
	assert_true(cli_wait_out(cli, "held", 5000));
}

/* ---- Bad input ------------------------------------------------------------------------------*/

static void test_bad_input(void **state) {
	char long_name[1026];
	struct cli cli;

	(void)state;
	memset(long_name, 'n', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	const struct {
		const char *const *args;
		const char *said;
	} rows[] = {
		{ CLI_ARGS("rum", "a", "true"), "did you mean run?" },
		{ CLI_ARGS("run", "--nonblok", "a", "true"), "did you mean --nonblock?" },
		{ CLI_ARGS("run", "--kill", "1s", "a", "true"), "did you mean --kill-after?" },
		{ CLI_ARGS("run", "-Z", "a", "true"), "-Z" },
		{ CLI_ARGS("run", "--nonblock=1", "a", "true"), "takes no value" },
		{ CLI_ARGS("run", "--lease"), "lacks its value" },
		{ CLI_ARGS("run", "-n", "-w", "3", "a", "true"), "contradict" },
		{ CLI_ARGS("run", "-s", "-x", "a", "true"), "contradict" },
		{ CLI_ARGS("run", "--read", "--write", "a", "true"), "contradict" },
		{ CLI_ARGS("run", "-q", "-v", "a", "true"), "contradict" },
		{ CLI_ARGS("run", "--skip", "-w", "3", "a", "true"), "contradict" },
		{ CLI_ARGS("run", "--skip", "-E", "3", "a", "true"), "contradict" },
		{ CLI_ARGS("run", "-c", "true", "a", "true"), "contradict" },
		{ CLI_ARGS("run", "--min-hold", "3s", "--max-hold", "2s", "a", "true"), "--min-hold" },
		{ CLI_ARGS("run", "--min-hold", "8d", "a", "true"), "7d" },
		{ CLI_ARGS("run", "--max-hold", "0", "a", "true"), "--max-hold" },
		{ CLI_ARGS("run", "-w", "1x", "a", "true"), "500ms, 1.5, 10s, 2m, 1h" },
		{ CLI_ARGS("run", "--signal", "NOSUCH", "a", "true"), "NOSUCH" },
		{ CLI_ARGS("run", "--signal", "KILL", "a", "true"), "-k 0" },
		{ CLI_ARGS("run", "--on-lost", "pray", "a", "true"), "kill|warn" },
		{ CLI_ARGS("run", "--policy", "mine", "a", "true"), "prefer-writers" },
		{ CLI_ARGS("run", "--color", "pink", "a", "true"), "auto|always|never" },
		{ CLI_ARGS("run", "--events-fd", "77", "a", "true"), "77" },
		{ CLI_ARGS("run", long_name, "true"), "1024" },
		{ CLI_ARGS("--server", "local:", "run"), "behind the command" },
		{ CLI_ARGS("help", "crno"), "did you mean cron?" },
		{ CLI_ARGS("completion", "tcsh"), "bash, zsh or fish" },
	};
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		int code = cli_run(&cli, &server, rows[i].args);
		const char *err = cli_err(&cli);
		const char *newline = strchr(err, '\n');
		if (code != 64 || !strstr(err, rows[i].said) || !newline || newline[1])
			fail_msg("case %zu: exit %d: %s", i, code, err);
	}
	assert_int_equal(test_redis_int(&server, "DBSIZE"), 0); /* nothing was changed */
	long_name[sizeof(long_name) - 2] = '\0';                /* and the longest that is good */
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", long_name, "true")), 0);
}

/* ---- Waiting, or not ------------------------------------------------------------------------*/

static void test_skip(void **state) {
	struct cli holder, cli;

	(void)state;
	hold(&holder, "-x", "skip");
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "--skip", "skip", "echo", "ran")), 0);
	assert_string_equal(cli_out(&cli), "");
	assert_string_equal(cli_err(&cli), "");
	assert_int_equal(cli_wait(&holder, 5000), 0);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "--skip", "skip", "sh", "-c", "exit 3")), 3);
}

/* Not on a terminal: one line after a second. */
static void test_says_that_it_waits(void **state) {
	struct cli holder, cli, quiet;

	(void)state;
	hold(&holder, "-x", "line");
	cli_start(&cli, &server, CLI_ARGS("run", "line", "true"));
	cli_start(&quiet, &server, CLI_ARGS("run", "-q", "line", "true"));
	assert_true(WAIT_UNTIL(strstr(cli_err(&cli), "waiting for") != NULL, 5000));
	assert_non_null(strstr(cli_err(&cli), "line"));
	assert_int_equal(cli_wait(&holder, 5000), 0);
	assert_int_equal(cli_wait(&cli, 5000), 0);
	assert_int_equal(cli_wait(&quiet, 5000), 0);
	assert_string_equal(cli_err(&quiet), "");
}

static void test_signals_that_do_not_end_the_wait(void **state) {
	struct cli holder, cli;

	(void)state;
	hold(&holder, "-x", "winch");
	cli_start(&cli, &server, CLI_ARGS("run", "winch", "sh", "-c", "exit 4"));
	assert_true(WAIT_UNTIL(test_redis_int(&server, "ZCARD sneck:{winch}") > 2, 5000));
	kill(cli.pid, SIGWINCH);
	kill(cli.pid, SIGCONT);
	assert_int_equal(cli_wait(&holder, 5000), 0);
	assert_int_equal(cli_wait(&cli, 5000), 4);
}

static void test_modes_by_other_names(void **state) {
	struct cli holder, cli;

	(void)state;
	hold(&holder, "--read", "modes");
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "-n", "--read", "modes", "true")), 0);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "-n", "--write", "modes", "true")), 75);
	assert_int_equal(cli_wait(&holder, 5000), 0);
}

/* Who says so goes before the readers that wait. */
static void test_policy(void **state) {
	struct cli holder, reader, writer;

	(void)state;
	for (int i = 0; i < 2; i++) {
		const char *policy = i ? "--policy=prefer-writers" : "--policy=fair";
		char order[96];
		snprintf(order, sizeof(order), "%s/order-%d", server.dir, i);
		hold(&holder, "-x", "policy");
		cli_start(&reader, &server,
		        CLI_ARGS("run", "-s", "policy", "sh", "-c", "echo reader >>$0", order));
		assert_true(WAIT_UNTIL(test_redis_int(&server, "ZCOUNT sneck:{policy} -inf -1") == 1, 5000));
		cli_start(&writer, &server,
		        CLI_ARGS("run", policy, "policy", "sh", "-c", "echo writer >>$0", order));
		assert_true(WAIT_UNTIL(test_redis_int(&server, "ZCOUNT sneck:{policy} -inf -1") == 2, 5000));
		assert_int_equal(cli_wait(&holder, 5000), 0);
		assert_int_equal(cli_wait(&reader, 5000), 0);
		assert_int_equal(cli_wait(&writer, 5000), 0);
		cli_start_program(&holder, &server, "cat", CLI_ARGS(order));
		assert_int_equal(cli_wait(&holder, 5000), 0);
		assert_string_equal(cli_out(&holder), i ? "writer\nreader\n" : "reader\nwriter\n");
	}
}

static void test_verbose(void **state) {
	struct cli cli;

	(void)state;
	assert_int_equal(
	        cli_run(&cli, &server, CLI_ARGS("run", "-v", "--min-hold", "1500ms", "say", "true")), 0);
	assert_non_null(strstr(cli_err(&cli), "sneck: got \"say\" after "));
	assert_non_null(strstr(cli_err(&cli), ", id W"));
	assert_non_null(strstr(cli_err(&cli), "\"say\" stays held for "));
	assert_string_equal(cli_out(&cli), "");
}

static void test_min_hold(void **state) {
	struct cli cli;
	int64_t begin_ms = test_now_ms();

	(void)state;
	assert_int_equal(
	        cli_run(&cli, &server, CLI_ARGS("run", "--min-hold", "1500ms", "min", "sh", "-c", "exit 3")),
	        3);
	assert_true(test_now_ms() - begin_ms < 1400); /* sneck itself does not stay for it */
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "-n", "min", "true")), 75);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "-w", "5s", "min", "true")), 0);
	assert_true(test_now_ms() - begin_ms >= 1450);
	/* Not for a command that could not be run. */
	assert_int_equal(
	        cli_run(&cli, &server, CLI_ARGS("run", "--min-hold", "1m", "min", "no-such-command")), 127);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "-n", "min", "true")), 0);
}

/* ---- Losing it ------------------------------------------------------------------------------*/

static void test_warn_only(void **state) {
	struct cli cli;

	(void)state;
	cli_start(&cli, &server,
	        CLI_ARGS("run", "--on-lost=warn", "--lease", "1s", "warn", "sh", "-c",
	                "echo up; cat; exit 6"));
	assert_true(cli_wait_out(&cli, "up", 5000));
	test_redis_ok(&server, "DEL sneck:{warn}");
	assert_true(WAIT_UNTIL(strstr(cli_err(&cli), "the command goes on") != NULL, 5000));
	assert_int_equal(cli_wait(&cli, 5000), 6);
}

/* ---- The server -----------------------------------------------------------------------------*/

static void test_unreachable(void **state) {
	struct cli cli;
	int64_t begin_ms = test_now_ms();

	(void)state;
	assert_int_equal(
	        cli_run(&cli, &server, CLI_ARGS("run", "--server", "redis://127.0.0.1:1", "a", "true")), 69);
	assert_true(test_now_ms() - begin_ms < 1000);
	assert_non_null(strstr(cli_err(&cli), "127.0.0.1:1"));
	assert_null(strstr(cli_err(&cli), "certificate"));
	/* Not to look at the server's certificate is announced, whether it can be reached or not. */
	assert_int_equal(
	        cli_run(&cli, &server,
	                CLI_ARGS("run", "--server", "rediss://127.0.0.1:1?verify=none", "a", "true")),
	        69);
	assert_non_null(strstr(cli_err(&cli), "certificate is not looked at"));
	assert_non_null(strstr(cli_err(&cli), "--server"));
}

static void test_retry_connect(void **state) {
	struct test_server late;
	struct cli cli;

	(void)state;
	assert_int_equal(test_server_start(&late, NULL), 0);
	test_server_kill9(&late);
	cli_start(&cli, &server,
	        CLI_ARGS("run", "--server", late.url, "--retry-connect", "20s", "a", "echo", "ran"));
	int64_t until_ms = test_now_ms() + 300;
	assert_true(WAIT_UNTIL(test_now_ms() >= until_ms, 5000)); /* how long nobody answers */
	assert_int_equal(kill(cli.pid, 0), 0);
	assert_int_equal(test_server_restart(&late), 0);
	assert_int_equal(cli_wait(&cli, 10000), 0);
	assert_string_equal(cli_out(&cli), "ran\n");
	/* It ends in time, and at a signal. */
	test_server_kill9(&late);
	assert_int_equal(
	        cli_run(&cli, &server,
	                CLI_ARGS("run", "--server", late.url, "--retry-connect", "300ms", "a", "true")),
	        69);
	cli_start(&cli, &server, CLI_ARGS("run", "--server", late.url, "--retry-connect", "1m", "a", "true"));
	until_ms = test_now_ms() + 300;
	assert_true(WAIT_UNTIL(test_now_ms() >= until_ms, 5000));
	kill(cli.pid, SIGTERM);
	assert_int_equal(cli_wait(&cli, 5000), 128 + SIGTERM);
	test_server_stop(&late);
}

/* Who may not call what a lock needs is told the rule. */
static void test_missing_right(void **state) {
	struct cli cli;
	char url[256];

	(void)state;
	test_redis_ok(&server, "ACL SETUSER weak on >pw ~* &* +@all -evalsha");
	snprintf(url, sizeof(url), "unix://%s?user=weak&password=pw", server.socket_path);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "--server", url, "a", "true")), 77);
	assert_non_null(strstr(cli_err(&cli), "+evalsha"));
	test_redis_ok(&server, "ACL DELUSER weak");
}

/* A server that may drop locks: told once. */
static void test_evicting_server(void **state) {
	struct test_server evicting;
	struct cli cli;

	(void)state;
	assert_int_equal(test_server_start(&evicting,
	                         CLI_ARGS("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")),
	        0);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "--server", evicting.url, "a", "true")), 0);
	assert_non_null(strstr(cli_err(&cli), "allkeys-lru"));
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "--server", evicting.url, "a", "true")), 0);
	assert_string_equal(cli_err(&cli), "");
	test_server_stop(&evicting);
}

/* ---- The command ----------------------------------------------------------------------------*/

static void test_shell_command(void **state) {
	struct cli cli;

	(void)state;
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "-c", "echo $((1 + 2)); exit 3", "sh")), 3);
	assert_string_equal(cli_out(&cli), "3\n");
	/* as flock(1) has it */
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "sh", "-c", "echo after; exit 4")), 4);
	assert_string_equal(cli_out(&cli), "after\n");
	/* and no shell otherwise */
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "sh", "echo", "$HOME", ";")), 0);
	assert_string_equal(cli_out(&cli), "$HOME ;\n");
}

static void test_id_and_note(void **state) {
	struct cli cli;

	(void)state;
	cli_start(&cli, &server,
	        CLI_ARGS("run", "-m", "rolling out", "note", "sh", "-c", "echo \"id:$SNECK_ID:\"; cat"));
	assert_true(cli_wait_out(&cli, ":\n", 5000));
	char id[128] = "";
	assert_int_equal(sscanf(cli_out(&cli), "id:%127[^\n]", id), 1);
	id[strlen(id) - 1] = '\0';
	redisReply *reply = test_redis(&server, "ZSCORE sneck:{note} %s", id);
	assert_true(reply && reply->type == REDIS_REPLY_STRING); /* it names the holder */
	freeReplyObject(reply);
	assert_int_equal(cli_wait(&cli, 5000), 0);
}

/* ---- Events ---------------------------------------------------------------------------------*/

/* The named event among the lines, or NULL; json_decref it. Every line must be JSON with the schema. */
static json_t *find_event(const char *text, const char *event) {
	json_t *found = NULL;
	char copy[4096];
	char *rest = copy, *line;

	snprintf(copy, sizeof(copy), "%s", text);
	while ((line = strsep(&rest, "\n")) != NULL) {
		if (!*line)
			continue;
		json_t *object = json_loads(line, 0, NULL);
		assert_non_null(object);
		assert_int_equal(json_integer_value(json_object_get(object, "schema")), 1);
		assert_non_null(json_string_value(json_object_get(object, "time")));
		if (!found && !strcmp(json_string_value(json_object_get(object, "event")), event))
			found = object;
		else
			json_decref(object);
	}
	return found;
}

static int64_t number_in(json_t *event, const char *key) {
	assert_true(json_is_integer(json_object_get(event, key)));
	return json_integer_value(json_object_get(event, key));
}

static void test_events(void **state) {
	struct cli holder, cli;

	(void)state;
	hold(&holder, "-x", "events");
	cli_start_program(&cli, &server, "sh",
	        CLI_ARGS("-c", "exec 5>&1; exec \"$@\"", "sh", SNECK_BINARY, "run", "--events-fd", "5",
	                "--lease", "1s", "events", "sh", "-c",
	                "test -e /proc/self/fd/5 && exit 9; exec sleep 600"));
	assert_true(cli_wait_out(&cli, "\"waiting\"", 5000));
	assert_int_equal(cli_wait(&holder, 5000), 0);
	assert_true(cli_wait_out(&cli, "\"acquired\"", 5000));
	test_redis_ok(&server, "DEL sneck:{events}");
	assert_int_equal(cli_wait(&cli, 5000), 79);
	json_t *acquired = find_event(cli_out(&cli), "acquired");
	assert_non_null(acquired);
	assert_true(number_in(acquired, "token") > 0);
	assert_true(number_in(acquired, "waited_ms") >= 100);
	assert_int_equal(number_in(acquired, "lease_ms"), 1000);
	assert_string_equal(json_string_value(json_object_get(acquired, "name")), "events");
	json_t *lost = find_event(cli_out(&cli), "lost");
	assert_non_null(lost);
	json_t *released = find_event(cli_out(&cli), "released");
	assert_non_null(released);
	assert_int_equal(number_in(released, "exit"), 79);
	json_decref(acquired);
	json_decref(lost);
	json_decref(released);
}

/* ---- A run inside a run ---------------------------------------------------------------------*/

static void test_inside_a_run(void **state) {
	struct cli cli;
	int64_t begin_ms = test_now_ms();

	(void)state;
	assert_int_equal(cli_run(&cli, &server,
	                         CLI_ARGS("run", "in \xff:%", SNECK_BINARY, "run", "in \xff:%", "true")),
	        75);
	assert_non_null(strstr(cli_err(&cli), "you hold it already"));
	assert_true(test_now_ms() - begin_ms < 5000); /* it does not wait for itself */
	/* Not only in the innermost. */
	assert_int_equal(cli_run(&cli, &server,
	                         CLI_ARGS("run", "in", SNECK_BINARY, "run", "other", SNECK_BINARY, "run",
	                                 "in", "true")),
	        75);
	/* Another lock, another namespace, a neighbour of the same name: no matter. */
	assert_int_equal(
	        cli_run(&cli, &server, CLI_ARGS("run", "in", SNECK_BINARY, "run", "in2", "true")), 0);
	assert_int_equal(
	        cli_run(&cli, &server,
	                CLI_ARGS("run", "in", SNECK_BINARY, "run", "--namespace", "two", "in", "true")),
	        0);
}

static void test_joins_a_run(void **state) {
	struct cli cli;

	(void)state;
	assert_int_equal(
	        cli_run(&cli, &server,
	                CLI_ARGS("run", "join", "sh", "-c",
	                        "echo $SNECK_TOKEN $SNECK_ID; exec \"$0\" run --reentrant join sh -c "
	                        "'echo $SNECK_TOKEN $SNECK_ID; exit 5'",
	                        SNECK_BINARY)),
	        5);
	char copy[512];
	snprintf(copy, sizeof(copy), "%s", cli_out(&cli));
	char *second = strchr(copy, '\n');
	assert_non_null(second);
	*second++ = '\0';
	second[strcspn(second, "\n")] = '\0';
	assert_true(strlen(copy) > 10);
	assert_string_equal(copy, second); /* one hold */
	/* Shared outside is not enough for exclusive inside. */
	assert_int_equal(
	        cli_run(&cli, &server,
	                CLI_ARGS("run", "-s", "join", SNECK_BINARY, "run", "--reentrant", "join", "true")),
	        75);
	assert_int_equal(cli_run(&cli, &server,
	                         CLI_ARGS("run", "-s", "join", SNECK_BINARY, "run", "-s", "--reentrant",
	                                 "join", "true")),
	        0);
	/* Outside a run it takes the lock. */
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "--reentrant", "join", "true")), 0);
}

/* What a daemon carries along from a run that is over means nothing. */
static void test_stale_environment(void **state) {
	struct cli cli;

	(void)state;
	assert_int_equal(
	        cli_run(&cli, &server, CLI_ARGS("run", "stale", "sh", "-c", "printf %s \"$SNECK_HELD\"")), 0);
	char held[1024];
	snprintf(held, sizeof(held), "SNECK_HELD=%s", cli_out(&cli));
	assert_non_null(strstr(held, "stale"));
	cli_start_program(&cli, &server, "env",
	        CLI_ARGS(held, SNECK_BINARY, "run", "-n", "stale", "sh", "-c", "exit 3"));
	assert_int_equal(cli_wait(&cli, 5000), 3);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bad_input),
		cmocka_unit_test(test_skip),
		cmocka_unit_test(test_says_that_it_waits),
		cmocka_unit_test(test_signals_that_do_not_end_the_wait),
		cmocka_unit_test(test_modes_by_other_names),
		cmocka_unit_test(test_policy),
		cmocka_unit_test(test_verbose),
		cmocka_unit_test(test_min_hold),
		cmocka_unit_test(test_warn_only),
		cmocka_unit_test(test_unreachable),
		cmocka_unit_test(test_retry_connect),
		cmocka_unit_test(test_missing_right),
		cmocka_unit_test(test_evicting_server),
		cmocka_unit_test(test_shell_command),
		cmocka_unit_test(test_id_and_note),
		cmocka_unit_test(test_events),
		cmocka_unit_test(test_inside_a_run),
		cmocka_unit_test(test_joins_a_run),
		cmocka_unit_test(test_stale_environment),
	};

	return cmocka_run_group_tests(tests, start_server, stop_server);
}
