/* SPDX-License-Identifier: MIT */
/* Where the command finds its server and the password: options, the environment (or as little of it as
 * cron gives), the user's file, the system's file. The system's file is put into a /etc of the test's own, in
 * a mount namespace. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "cli.h"
#include "server.h"

enum { PATH_BYTES = 192, URL_BYTES = 192 };

static struct test_server server;
static char etc_dir[PATH_BYTES], home_dir[PATH_BYTES];

static int start(void **state) {
	char script[4 * PATH_BYTES];

	(void)state;
	unsetenv("SNECK_URL");
	unsetenv("REDIS_URL");
	unsetenv("SNECK_HELD");
	if (test_server_start(&server, NULL) < 0)
		return -1;
	setenv("HOME", server.dir, 1);
	snprintf(etc_dir, sizeof(etc_dir), "%s/etc", server.dir);
	snprintf(home_dir, sizeof(home_dir), "%s/home", server.dir);
	snprintf(script, sizeof(script), "mkdir -p %s/sneck %s/.config/sneck && cp /etc/passwd %s", etc_dir,
	        home_dir, etc_dir);
	return system(script);
}

static int stop(void **state) {
	(void)state;
	test_server_stop(&server);
	return 0;
}

/* Sources name one server with a database of their own each. */
static const char *url_of(int db, char ret[URL_BYTES]) {
	snprintf(ret, URL_BYTES, "unix://%s?db=%d", server.socket_path, db);
	return ret;
}

static void write_config(const char *dir, const char *more, int db) {
	char path[PATH_BYTES + 32], url[URL_BYTES];

	snprintf(path, sizeof(path), "%s/sneck/config", dir);
	FILE *file = fopen(path, "we");
	assert_non_null(file);
	fprintf(file, "url = %s\n%s", url_of(db, url), more);
	assert_int_equal(fclose(file), 0);
}

/* `env -i settings… sneck run [--server URL] where …` with the test's own /etc. Which database the command
 * was told, and under which namespace its lock was. */
static void expect_db(int db, const char *name_space, const char *const *settings, const char *server_url) {
	static const char *const options[] = { "-m", "-rm" };
	const char *args[24] = { NULL, "sh", "-c", "mount --bind \"$0\" /etc && exec env -i \"$@\"", etc_dir,
		"PATH=/usr/bin:/bin" };
	char home[PATH_BYTES + 8], expected[32];
	size_t n = 6, way = 0;
	struct cli cli;

	snprintf(home, sizeof(home), "HOME=%s", home_dir);
	args[n++] = home;
	for (; settings && *settings; settings++)
		args[n++] = *settings;
	args[n++] = SNECK_BINARY;
	args[n++] = "run";
	if (server_url) {
		args[n++] = "--server";
		args[n++] = server_url;
	}
	args[n++] = "where";
	args[n++] = "sh";
	args[n++] = "-c";
	args[n++] = "echo $SNECK_SERVER";
	/* As root, or as root of a world of one's own: one of them works, or the test fails. */
	for (; way < 2; way++) {
		args[0] = options[way];
		cli_start_program(&cli, &server, "unshare", args);
		if (cli_wait(&cli, 10000) == 0)
			break;
	}
	if (way == 2)
		fail_msg("%s", cli_err(&cli));
	snprintf(expected, sizeof(expected), "?db=%d\n", db);
	if (!strstr(cli_out(&cli), expected))
		fail_msg("not db=%d, but %s", db, cli_out(&cli));
	assert_string_equal(cli_err(&cli), "");
	/* Its token is remembered for a while. */
	redisContext *redis = test_server_connect(&server);
	freeReplyObject(redisCommand(redis, "SELECT %d", db));
	redisReply *reply = redisCommand(redis, "EXISTS %s:{where}", name_space);
	assert_int_equal(reply->integer, 1);
	freeReplyObject(reply);
	redisFree(redis);
}

static void test_the_order_of_sources(void **state) {
	char config[PATH_BYTES + 16], redis_url[URL_BYTES + 16], sneck_url[URL_BYTES + 16], url[URL_BYTES];

	(void)state;
	write_config(etc_dir, "namespace = team\n", 1);
	expect_db(1, "team", NULL, NULL);
	snprintf(config, sizeof(config), "%s/.config", home_dir);
	write_config(config, "", 2);
	expect_db(2, "team", NULL, NULL); /* the user's file wins, key by key */
	snprintf(redis_url, sizeof(redis_url), "REDIS_URL=%s", url_of(3, url));
	expect_db(3, "team", CLI_ARGS(redis_url), NULL);
	snprintf(sneck_url, sizeof(sneck_url), "SNECK_URL=%s", url_of(4, url));
	expect_db(4, "team", CLI_ARGS(redis_url, sneck_url), NULL);
	expect_db(5, "team", CLI_ARGS(redis_url, sneck_url), url_of(5, url));
	/* One that is set to nothing names no server. */
	expect_db(3, "team", CLI_ARGS(redis_url, "SNECK_URL="), NULL);
}

static void write_file(const char *path, const char *text) {
	FILE *file = fopen(path, "we");

	assert_non_null(file);
	fputs(text, file);
	assert_int_equal(fclose(file), 0);
}

static void test_password_sources(void **state) {
	struct test_server guarded;
	struct cli cli;
	char path[128], file[160];

	(void)state;
	assert_int_equal(test_server_start(&guarded, CLI_ARGS("--requirepass", "canary")), 0);
	snprintf(path, sizeof(path), "%s/password", guarded.dir);
	write_file(path, "canary\n");
	snprintf(file, sizeof(file), "SNECK_PASSWORD_FILE=%s", path);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "--server", guarded.url, "a", "true")), 77);
	assert_non_null(strstr(cli_err(&cli), "--password-file"));
	assert_int_equal(
	        cli_run(&cli, &server,
	                CLI_ARGS("run", "--server", guarded.url, "--password-file", path, "a", "true")),
	        0);
	const char *const sources[] = { file, "REDISCLI_AUTH=canary" };
	for (size_t i = 0; i < 2; i++) {
		cli_start_program(&cli, &server, "env",
		        CLI_ARGS(sources[i], SNECK_BINARY, "run", "--server", guarded.url, "a", "true"));
		assert_int_equal(cli_wait(&cli, 5000), 0);
	}
	assert_int_equal(cli_run(&cli, &server,
	                         CLI_ARGS("run", "--server", guarded.url, "--password-file", "/nowhere/p",
	                                 "a", "true")),
	        78);
	test_server_stop(&guarded);
}

/* ---- Configuration files --------------------------------------------------------------------*/

/* As cron runs it: hardly any environment. */
static int run_bare(struct cli *cli, const char *home, const char *const *args) {
	const char *argv[16] = { "-i", "PATH=/usr/bin:/bin", home, SNECK_BINARY };
	size_t n = 4;

	while (*args)
		argv[n++] = *args++;
	argv[n] = NULL;
	cli_start_program(cli, &server, "env", argv);
	return cli_wait(cli, 10000);
}

static void test_configuration(void **state) {
	struct cli cli;
	char home[PATH_BYTES + 8], path[PATH_BYTES + 32], text[TEST_URL_MAX + 128];

	(void)state;
	snprintf(home, sizeof(home), "HOME=%s", home_dir);
	snprintf(path, sizeof(path), "%s/.config/sneck/config", home_dir);
	snprintf(text, sizeof(text), "# the lock server\n\nurl = %s\n  namespace=team  \nlease = 7s\n",
	        server.url);
	write_file(path, text);
	assert_int_equal(
	        run_bare(&cli, home,
	                CLI_ARGS("run", "conf", "sh", "-c", "echo $SNECK_SERVER; test -z \"$SNECK_URL\"")),
	        0);
	assert_non_null(strstr(cli_out(&cli), server.socket_path));
	assert_string_equal(cli_err(&cli), "");
	assert_int_equal(test_redis_int(&server, "EXISTS team:{conf}"), 1); /* its token is remembered */
	/* An option wins. */
	assert_int_equal(run_bare(&cli, home, CLI_ARGS("run", "--namespace", "other", "conf", "true")), 0);
	assert_int_equal(test_redis_int(&server, "EXISTS other:{conf}"), 1);
	assert_int_equal(run_bare(&cli, home, CLI_ARGS("run", "--server", "gopher://x", "conf", "true")), 78);

	const char *const wrong[] = { "url = redis://x\nulr = redis://y\n", "nonsense\n", "lease = soon\n",
		"url =\n" };
	const char *const said[] = { "config:2: ", "config:1: ", "config:1: ", "config:1: " };
	for (size_t i = 0; i < 4; i++) {
		write_file(path, wrong[i]);
		assert_int_equal(run_bare(&cli, home, CLI_ARGS("run", "conf", "true")), 78);
		assert_non_null(strstr(cli_err(&cli), said[i]));
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_order_of_sources),
		cmocka_unit_test(test_configuration),
		cmocka_unit_test(test_password_sources),
	};
	return cmocka_run_group_tests(tests, start, stop);
}
