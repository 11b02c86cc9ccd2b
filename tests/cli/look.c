/* SPDX-License-Identifier: MIT */
#include "look.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wait.h"

enum { ARGS = 24, READY_MS = 10000 };

void look_hold(
        struct cli *cli, const struct test_server *server, const char *name, const char *const *options) {
	const char *args[ARGS] = { "run" };
	size_t n = 1;

	for (; options && *options; options++)
		args[n++] = *options;
	args[n++] = name;
	args[n++] = "sh";
	args[n++] = "-c";
	args[n++] = "echo in; cat";
	cli_start(cli, server, args);
	assert_true(cli_wait_out(cli, "in\n", READY_MS));
}

void look_queue(struct cli *cli, const struct test_server *server, const char *name, int place) {
	cli_start(cli, server, CLI_ARGS("run", name, "echo", "got"));
	assert_true(WAIT_UNTIL(look_count(server, name, "waiter_count") == place, READY_MS));
}

long long look_count(const struct test_server *server, const char *name, const char *what) {
	char path[64];

	json_t *json = look_json(server, 0, CLI_ARGS("show", "--json", name));
	snprintf(path, sizeof(path), "lock.%s", what);
	long long count = look_number(json, path);
	json_decref(json);
	return count;
}

json_t *look_json(const struct test_server *server, int code, const char *const *args) {
	struct cli cli;
	json_error_t error;

	int got = cli_run(&cli, server, args);
	if (got != code)
		fail_msg("exit %d instead of %d: %s", got, code, cli_err(&cli));
	json_t *json = json_load_file(cli.out_path, 0, &error);
	if (!json)
		fail_msg("no JSON: %s in line %d: %s", error.text, error.line, cli_out(&cli));
	assert_int_equal(look_number(json, "schema"), 1);
	return json;
}

json_t *look_at(json_t *json, const char *path) {
	char copy[128], *rest = copy, *step;

	snprintf(copy, sizeof(copy), "%s", path);
	while (json && (step = strsep(&rest, ".")) != NULL)
		json = json_is_array(json) ? json_array_get(json, strtoul(step, NULL, 10))
		                           : json_object_get(json, step);
	if (!json)
		fail_msg("%s is not there", path);
	return json;
}

const char *look_text(json_t *json, const char *path) {
	const char *text = json_string_value(look_at(json, path));

	if (!text)
		fail_msg("%s is no text", path);
	return text;
}

long long look_number(json_t *json, const char *path) {
	json_t *number = look_at(json, path);

	if (!json_is_integer(number))
		fail_msg("%s is no whole number", path);
	return json_integer_value(number);
}
