/* SPDX-License-Identifier: MIT */
/* sneck lock, unlock, renew: holds that outlive the process. */
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

struct held {
	char id[80];
	unsigned long long token;
};

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

/* Exactly one line, `ID TOKEN`. */
static struct held read_hold(struct cli *cli) {
	struct held held;
	int end = 0;

	assert_int_equal(sscanf(cli_out(cli), "%79s %llu\n%n", held.id, &held.token, &end), 2);
	assert_int_equal(strlen(cli->text), end);
	return held;
}

static int try_lock(const char *name) {
	struct cli cli;

	return cli_run(&cli, &server, CLI_ARGS("run", "-q", "-n", name, "true"));
}

static void test_lock_and_unlock(void **state) {
	struct cli cli;

	(void)state;
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("lock", "a")), 0);
	struct held first = read_hold(&cli);
	assert_string_equal(cli_err(&cli), "");
	assert_int_equal(try_lock("a"), 75);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("lock", "-n", "a")), 75);
	assert_string_equal(cli_out(&cli), "");
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("lock", "-w", "100ms", "-E", "9", "a")), 9);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("unlock", "a", first.id)), 0);
	assert_int_equal(try_lock("a"), 0);
	/* Given back once: the second time it is nobody's. */
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("unlock", "a", first.id)), 79);
	assert_non_null(strstr(cli_err(&cli), "nothing was changed"));
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("lock", "a")), 0);
	struct held second = read_hold(&cli);
	assert_true(second.token > first.token);
	/* The stale id does not open the next one's lock. */
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("unlock", "a", first.id)), 79);
	assert_non_null(strstr(cli_err(&cli), second.id));
	assert_int_equal(try_lock("a"), 75);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("unlock", "a", second.id)), 0);
}

static void test_ends_at_its_lease(void **state) {
	struct cli cli;
	int64_t begin_ms = test_now_ms();

	(void)state;
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("lock", "--lease", "1s", "b")), 0);
	struct held held = read_hold(&cli);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "-w", "10s", "b", "true")), 0);
	assert_in_range(test_now_ms() - begin_ms, 950, 5000);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("renew", "b", held.id)), 79);
	/* Shorter than what could be renewed. */
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("lock", "--lease", "100ms", "b")), 0);
}

static void test_renew(void **state) {
	struct cli cli;

	(void)state;
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("lock", "--lease", "5s", "c")), 0);
	struct held held = read_hold(&cli);
	for (int i = 0; i < 2; i++) { /* the second time the lease is not made shorter */
		assert_int_equal(
		        cli_run(&cli, &server, CLI_ARGS("renew", "--lease", i ? "5s" : "1h", "c", held.id)),
		        0);
		struct held renewed = read_hold(&cli);
		assert_string_equal(renewed.id, held.id);
		assert_int_equal(renewed.token, held.token);
		assert_true(test_redis_int(&server, "PTTL sneck:{c}") > 3000000);
	}
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("renew", "-v", "--json", "c", held.id)), 0);
	assert_non_null(strstr(cli_err(&cli), "is held for another"));
	json_t *object = json_loads(cli_out(&cli), 0, NULL);
	assert_string_equal(json_string_value(json_object_get(object, "id")), held.id);
	assert_in_range(json_integer_value(json_object_get(object, "lease_left_ms")), 3000000, 3600000);
	json_decref(object);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("unlock", "c", held.id)), 0);
	assert_int_equal(try_lock("c"), 0);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("renew", "c", held.id)), 79);
	assert_non_null(strstr(cli_err(&cli), "nothing was changed"));
}

/* Who took it and why can be read by those who come later. */
static void test_note(void **state) {
	struct cli cli;

	(void)state;
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("lock", "-m", "moving house", "n")), 0);
	struct held held = read_hold(&cli);
	const char *const *const looks[] = { CLI_ARGS("ls", "--json"), CLI_ARGS("show", "--json", "n") };
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(cli_run(&cli, &server, looks[i]), 0);
		assert_non_null(strstr(cli_out(&cli), "moving house"));
	}
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("lock", "-n", "n")), 75);
	assert_non_null(strstr(cli_err(&cli), "moving house"));
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("unlock", "n", held.id)), 0);
	assert_int_equal(test_redis_int(&server, "EXISTS sneck:@%s", held.id + 1), 0);
}

/* A hold of a program that is alive is not to be had this way. */
static void test_anothers_hold(void **state) {
	struct cli holder, cli;
	char id[80];

	(void)state;
	cli_start(&holder, &server, CLI_ARGS("run", "d", "sh", "-c", "echo id $SNECK_ID; cat; exit 3"));
	assert_true(cli_wait_out(&holder, "\n", 5000));
	assert_int_equal(sscanf(cli_out(&holder), "id %79s", id), 1);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("unlock", "d", id)), 75);
	assert_non_null(strstr(cli_err(&cli), "sneck break"));
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("renew", "d", id)), 75);
	assert_int_equal(try_lock("d"), 75);
	/* Also when nothing says who it is. */
	char session[80];
	snprintf(session, sizeof(session), "%.*s", (int)strcspn(id + 1, "."), id + 1);
	assert_int_equal(test_redis_int(&server, "DEL sneck:@%s", session), 1);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("unlock", "d", id)), 75);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("renew", "d", id)), 75);
	assert_int_equal(try_lock("d"), 75);
	assert_int_equal(cli_wait(&holder, 5000), 3); /* it has not lost it */
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("unlock", "d", id)), 79);
}

static void test_shared(void **state) {
	struct cli cli;

	(void)state;
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("lock", "-s", "e")), 0);
	struct held first = read_hold(&cli);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("lock", "--read", "-n", "e")), 0);
	struct held second = read_hold(&cli);
	assert_int_equal(try_lock("e"), 75);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("unlock", "e", first.id)), 0);
	assert_int_equal(try_lock("e"), 75);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("unlock", "e", second.id)), 0);
	assert_int_equal(try_lock("e"), 0);
}

static void test_json(void **state) {
	struct cli cli;

	(void)state;
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("lock", "--json", "--lease", "3s", "f")), 0);
	json_t *object = json_loads(cli_out(&cli), 0, NULL);
	assert_non_null(object);
	assert_int_equal(json_integer_value(json_object_get(object, "schema")), 1);
	assert_string_equal(json_string_value(json_object_get(object, "name")), "f");
	assert_int_equal(json_integer_value(json_object_get(object, "lease_left_ms")), 3000);
	assert_true(json_integer_value(json_object_get(object, "token")) > 0);
	const char *id = json_string_value(json_object_get(object, "id"));
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("unlock", "f", id)), 0);
	json_decref(object);
}

static void test_bad_input(void **state) {
	const char *const *const wrong[] = {
		CLI_ARGS("lock"),
		CLI_ARGS("lock", ""),
		CLI_ARGS("lock", "a", "b"),
		CLI_ARGS("lock", "--lease", "8d", "g"),
		CLI_ARGS("lock", "--lease", "1ms", "g"),
		CLI_ARGS("lock", "-n", "-w", "1", "g"),
		CLI_ARGS("unlock", "g"),
		CLI_ARGS("unlock", "g", "id", "more"),
		CLI_ARGS("renew", "--lease", "soon", "g", "id"),
	};
	struct cli cli;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		int code = cli_run(&cli, &server, wrong[i]);
		if (code != 64 || !cli_err(&cli)[0])
			fail_msg("case %zu: exit %d: %s", i, code, cli_err(&cli));
	}
	assert_int_equal(test_redis_int(&server, "EXISTS sneck:{g}"), 0);
}

/* A signal leaves the queue. */
static void test_signal(void **state) {
	struct cli cli;

	(void)state;
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("lock", "--lease", "1m", "h")), 0);
	long long alone = test_redis_int(&server, "ZCARD sneck:{h}");
	cli_start(&cli, &server, CLI_ARGS("lock", "h"));
	assert_true(WAIT_UNTIL(test_redis_int(&server, "ZCARD sneck:{h}") > alone, 5000));
	kill(cli.pid, SIGINT);
	assert_int_equal(cli_wait(&cli, 5000), 128 + SIGINT);
	assert_int_equal(test_redis_int(&server, "ZCARD sneck:{h}"), alone);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lock_and_unlock),
		cmocka_unit_test(test_ends_at_its_lease),
		cmocka_unit_test(test_renew),
		cmocka_unit_test(test_note),
		cmocka_unit_test(test_anothers_hold),
		cmocka_unit_test(test_shared),
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_bad_input),
		cmocka_unit_test(test_signal),
	};

	return cmocka_run_group_tests(tests, start_server, stop_server);
}
