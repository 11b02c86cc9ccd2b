/* SPDX-License-Identifier: MIT */
/* What sneck prints for programs, whichever command prints it: one object that a JSON parser reads, with
 * a schema number; times are RFC 3339 in UTC, durations are whole milliseconds, there are no fractions.
 *
 * The commands are taken from the table of options: one that gets --json must get a row here. What the
 * fields say is the business of each command's own tests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "look.h"

enum { ID_MAX = 80, COMMANDS_MAX = 32 };

static struct test_server server;
static struct cli holder, waiter;

static int start(void **state) {
	char dir[96];

	(void)state;
	if (test_server_start(&server, NULL) < 0)
		return -1;
	snprintf(dir, sizeof(dir), "%s/local", server.dir);
	setenv("SNECK_LOCAL_DIR", dir, 1);
	look_hold(&holder, &server, "demo", CLI_ARGS("-m", "a note"));
	look_queue(&waiter, &server, "demo", 1);
	return 0;
}

static int stop(void **state) {
	(void)state;
	cli_kill(&waiter);
	cli_kill(&holder);
	test_server_stop(&server);
	return 0;
}

/* ---- What holds for all of it -----------------------------------------------------------------*/

static bool ends_with(const char *text, const char *end) {
	size_t len = strlen(text), end_len = strlen(end);

	return len >= end_len && !strcmp(text + len - end_len, end);
}

/* "2026-11-15T12:23:51.153Z" */
static bool is_time(const json_t *value) {
	struct tm tm;
	const char *text = json_string_value(value);
	const char *rest = text ? strptime(text, "%Y-%m-%dT%H:%M:%S", &tm) : NULL;

	return rest && rest[0] == '.' && strspn(rest + 1, "0123456789") == 3 && !strcmp(rest + 4, "Z");
}

/* How many times and durations there are below `value`; each must be one. */
static int check_all(const json_t *value) {
	const char *key;
	json_t *one;
	size_t i;
	int found = 0;

	if (json_is_real(value))
		fail_msg("%f is no whole number", json_real_value(value));
	json_array_foreach(value, i, one) {
		found += check_all(one);
	}
	/* jansson's iterators take no const object, and change nothing. */
	json_object_foreach((json_t *)(uintptr_t)value, key, one) {
		bool is_duration = ends_with(key, "_ms") || ends_with(key, "_us");
		bool is_moment = !strcmp(key, "time") || !strcmp(key, "since");
		if (is_duration && !json_is_integer(one) && !json_is_null(one))
			fail_msg("%s is no whole number", key);
		if (is_moment && !is_time(one) && !json_is_null(one))
			fail_msg("%s is no time", key);
		found += (is_duration || is_moment) && !json_is_null(one);
		found += check_all(one);
	}
	return found;
}

/* Run it, check what it prints, and return that. `least`: as many times and durations are in it. */
static json_t *checked(int code, int least, const char *const *args) {
	json_t *json = look_json(&server, code, args);
	int found = check_all(json);

	if (found < least)
		fail_msg("%s: only %d times and durations", args[0], found);
	return json;
}

static void check(int code, int least, const char *const *args) {
	json_decref(checked(code, least, args));
}

/* ---- Every command ------------------------------------------------------------------------------*/

static void test_commands_that_look(void **state) {
	(void)state;
	check(75, 5, CLI_ARGS("try", "--json", "demo"));
	check(0, 0, CLI_ARGS("try", "--json", "nobody"));
	check(75, 5, CLI_ARGS("wait", "--json", "-q", "-w", "0", "demo"));
	check(0, 0, CLI_ARGS("wait", "--json", "nobody"));
	check(0, 5, CLI_ARGS("ls", "--json"));
	check(0, 0, CLI_ARGS("ls", "--json", "nobody*"));
	check(0, 7, CLI_ARGS("show", "--json", "demo"));
	check(0, 7, CLI_ARGS("show", "--json", "--chain", "demo"));
	check(1, 1, CLI_ARGS("doctor", "--json")); /* it saves nothing */
	check(0, 0, CLI_ARGS("acl", "--json"));
}

static void test_commands_that_hold(void **state) {
	char id[ID_MAX];

	(void)state;
	json_t *json = checked(0, 1, CLI_ARGS("lock", "--json", "--lease", "20s", "held"));
	assert_int_equal(look_number(json, "lease_left_ms"), 20000);
	snprintf(id, sizeof(id), "%s", look_text(json, "id"));
	long long token = look_number(json, "token");
	json_decref(json);
	json = checked(0, 1, CLI_ARGS("renew", "--json", "--lease", "30s", "held", id));
	assert_int_equal(look_number(json, "token"), token);
	assert_in_range(look_number(json, "lease_left_ms"), 20001, 30000); /* what is left of it */
	snprintf(id, sizeof(id), "%s", look_text(json, "id"));
	json_decref(json);
	json = checked(0, 2, CLI_ARGS("break", "--json", "held", "--id", id, "-m", "why not", "--now"));
	assert_string_equal(look_text(json, "broken.id"), id);
	json_decref(json);
}

static void test_the_private_server(void **state) {
	char expected[160];

	(void)state;
	snprintf(expected, sizeof(expected), "unix://%s/redis.sock", getenv("SNECK_LOCAL_DIR"));
	json_t *json = checked(69, 0, CLI_ARGS("server", "--json"));
	assert_true(json_is_false(look_at(json, "running")));
	assert_true(json_is_null(look_at(json, "pid")));
	json_decref(json);
	check(0, 0, CLI_ARGS("ls", "--json", "--server", "local:"));
	json = checked(0, 0, CLI_ARGS("server", "status", "--json"));
	assert_true(json_is_true(look_at(json, "running")));
	assert_true(look_number(json, "pid") > 1);
	json_decref(json);
	json = checked(0, 0, CLI_ARGS("server", "url", "--json"));
	assert_string_equal(look_text(json, "url"), expected);
	json_decref(json);
	json = checked(0, 0, CLI_ARGS("server", "stop", "--json"));
	assert_true(json_is_false(look_at(json, "running")));
	json_decref(json);
	check(69, 0, CLI_ARGS("server", "--json"));
}

static void test_the_version(void **state) {
	struct cli cli;

	(void)state;
	json_t *json = checked(0, 0, CLI_ARGS("--version", "--json"));
	const char *version = look_text(json, "version");
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("--version")), 0);
	assert_memory_equal(cli_out(&cli), "sneck ", 6);
	assert_memory_equal(cli.text + 6, version, strlen(version));
	json_decref(json);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("--version", "--jsno")), 64);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("--version", "--json", "more")), 64);
}

/* The table has no command with --json that the tests above leave out. */
static void test_none_is_left_out(void **state) {
	static const char *const tried[] = { "try", "wait", "ls", "show", "doctor", "acl", "lock", "renew",
		"break", "server", NULL };
	char name[32], letter[8], option[32], value[256];
	struct cli cli;
	int found = 0;

	(void)state;
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("help", "options")), 0);
	FILE *table = fopen(cli.out_path, "re");
	assert_non_null(table);
	while (fscanf(table, "%31s %7s %31s %255s", name, letter, option, value) == 4) {
		if (strcmp(option, "json") != 0)
			continue;
		size_t i = 0;
		while (tried[i] && strcmp(tried[i], name) != 0)
			i++;
		if (!tried[i])
			fail_msg("sneck %s --json is not tested", name);
		found++;
	}
	fclose(table);
	assert_int_equal(found, sizeof(tried) / sizeof(*tried) - 1);
}

/* Half an answer is none. */
static void test_a_full_disk_is_an_error(void **state) {
	static const char *const commands[] = { "ls", "ls --json", "show demo", "try demo", "doctor", "acl",
		"acl --json", "server url", "--version", "help", "help cron", "completion bash" };
	struct cli cli;

	(void)state;
	for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++) {
		char script[160];
		snprintf(script, sizeof(script), "exec \"$0\" %s >/dev/full", commands[i]);
		cli_start_program(&cli, &server, "sh", CLI_ARGS("-c", script, SNECK_BINARY));
		int code = cli_wait(&cli, 10000);
		if (code != 125 || !strstr(cli_err(&cli), "sneck: cannot write "))
			fail_msg("%s: exit %d: %s", commands[i], code, cli_err(&cli));
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_commands_that_look),
		cmocka_unit_test(test_commands_that_hold),
		cmocka_unit_test(test_the_private_server),
		cmocka_unit_test(test_the_version),
		cmocka_unit_test(test_none_is_left_out),
		cmocka_unit_test(test_a_full_disk_is_an_error),
	};
	return cmocka_run_group_tests(tests, start, stop);
}
