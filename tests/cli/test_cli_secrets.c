/* SPDX-License-Identifier: MIT */
/* The command and passwords: wherever one comes from, no process that it starts has it among its arguments,
 * and nothing that is printed has it, however much is asked for. strace(1) sees every execve; /proc is the
 * witness where there is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli.h"
#include "server.h"

#define CANARY "c4n4ry-that-nobody-may-see"

static struct test_server server;
static char plain_url[160], secret_url[256], password_file[128];

static int start(void **state) {
	FILE *file;

	(void)state;
	if (test_server_start(&server, NULL) < 0)
		return -1;
	test_redis_ok(&server, "CONFIG SET requirepass " CANARY); /* the last that is asked without it */
	snprintf(plain_url, sizeof(plain_url), "unix://%s", server.socket_path);
	snprintf(secret_url, sizeof(secret_url), "%s?password=" CANARY, plain_url);
	snprintf(password_file, sizeof(password_file), "%s/password", server.dir);
	file = fopen(password_file, "we");
	if (!file || fprintf(file, "%s\n", CANARY) < 0 || fclose(file) != 0)
		return -1;
	return chmod(password_file, 0600);
}

static int stop(void **state) {
	(void)state;
	test_server_stop(&server);
	return 0;
}

static void no_canary(const char *what, const char *text) {
	if (strstr(text, CANARY))
		fail_msg("%s: %s", what, text);
}

/* The arguments of the command, of its parent and of sneck; words are parted by NUL there. */
#define SHOW_ARGUMENTS \
	"for p in $$ $PPID $(cut -d' ' -f4 /proc/$PPID/stat); do tr '\\0' ' ' </proc/$p/cmdline; echo; done"

static void look_at_processes(const char *what, const char *const *args) {
	struct cli cli;

	cli_start(&cli, &server, args);
	int code = cli_wait(&cli, 10000);
	if (code != 0)
		fail_msg("%s: exit %d: %s", what, code, cli_err(&cli));
	assert_non_null(strstr(cli_out(&cli), "sneck")); /* it was looked at */
	no_canary(what, cli_out(&cli));
	no_canary(what, cli_err(&cli));
}

static void test_wherever_it_comes_from(void **state) {
	(void)state;
	look_at_processes("URL in the arguments",
	        CLI_ARGS("run", "-v", "--server", secret_url, "a", "sh", "-c", SHOW_ARGUMENTS));
	look_at_processes("file", CLI_ARGS("run", "-v", "--server", plain_url, "--password-file",
	                                  password_file, "a", "sh", "-c", SHOW_ARGUMENTS));
	setenv("REDISCLI_AUTH", CANARY, 1);
	look_at_processes(
	        "environment", CLI_ARGS("run", "-v", "--server", plain_url, "a", "sh", "-c", SHOW_ARGUMENTS));
	unsetenv("REDISCLI_AUTH");
	setenv("SNECK_PASSWORD_FILE", password_file, 1);
	look_at_processes("file by the environment",
	        CLI_ARGS("run", "-v", "--server", plain_url, "a", "sh", "-c", SHOW_ARGUMENTS));
	unsetenv("SNECK_PASSWORD_FILE");
}

/* Every program that is executed, from the first to the last. */
static void test_no_program_is_started_with_it(void **state) {
	char trace[128], line[8192];
	struct cli cli;
	int executed = 0;

	(void)state;
	snprintf(trace, sizeof(trace), "%s/trace", server.dir);
	setenv("ASAN_OPTIONS", "detect_leaks=0", 1); /* which cannot be done under strace */
	cli_start_program(&cli, &server, "strace",
	        CLI_ARGS("-f", "-qq", "-e", "trace=execve", "-s", "4000", "-o", trace, SNECK_BINARY, "run",
	                "-v", "--server", plain_url, "--password-file", password_file, "a", "sh", "-c",
	                "true; env true"));
	if (cli_wait(&cli, 20000) != 0) {
		print_message("strace cannot be used here: %s\n", cli_err(&cli));
		skip();
	}
	FILE *file = fopen(trace, "re");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		executed += strstr(line, "execve(") != NULL;
		no_canary("strace", line);
	}
	fclose(file);
	assert_true(executed >= 3); /* sneck, sh, env */
}

/* What is printed about the server, by each command that prints it. */
static void test_no_command_prints_it(void **state) {
	static const char *const commands[][4] = { { "doctor", NULL }, { "doctor", "--json", NULL },
		{ "ls", "--json", NULL }, { "show", "--json", "a", NULL }, { "try", "a", NULL },
		{ "acl", NULL }, { "acl", "--json", NULL }, { "run", "a", "env", NULL } };
	struct cli cli;

	(void)state;
	for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++) {
		const char *args[8] = { commands[i][0], "-v", "--server", secret_url };
		size_t n = 4;
		for (size_t j = 1; commands[i][j]; j++)
			args[n++] = commands[i][j];
		int code = cli_run(&cli, &server, args);
		if (code > 2)
			fail_msg("%s: exit %d: %s", commands[i][0], code, cli_err(&cli));
		no_canary(commands[i][0], cli_out(&cli));
		no_canary(commands[i][0], cli_err(&cli));
	}
}

static void test_a_wrong_one_is_not_repeated(void **state) {
	char url[300];
	struct cli cli;

	(void)state;
	snprintf(url, sizeof(url), "%sx", secret_url);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "-v", "--server", url, "a", "true")), 77);
	no_canary("wrong password", cli_err(&cli));
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("ls", "--server", "redis://" CANARY "@host")), 78);
	no_canary("redis://X@host", cli_err(&cli));
	assert_non_null(strstr(cli_err(&cli), "redis://:"));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wherever_it_comes_from),
		cmocka_unit_test(test_no_program_is_started_with_it),
		cmocka_unit_test(test_no_command_prints_it),
		cmocka_unit_test(test_a_wrong_one_is_not_repeated),
	};
	return cmocka_run_group_tests(tests, start, stop);
}
