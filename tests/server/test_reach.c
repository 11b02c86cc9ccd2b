/* SPDX-License-Identifier: MIT */
/* Getting to the server at all: addresses that are wrong, servers that are not there, do not let us
 * in or are something else. Each has a code and a text with a remedy, and no text, log line or error
 * ever shows the password. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "locks.h"
#include "wait.h"

static struct test_server *const server = &test_the_server;

#define SECRET "s3cr3t-w0rd"

/* Everything that was logged, to be searched for the password. */
struct pages {
	pthread_mutex_t mutex;
	size_t len;
	char text[65536];
};

static void write_down(void *ctx, sneck_log_level level, const char *text) {
	struct pages *pages = ctx;
	(void)level;
	pthread_mutex_lock(&pages->mutex);
	int n = snprintf(pages->text + pages->len, sizeof(pages->text) - pages->len, "%s\n", text);
	if (n > 0 && pages->len + (size_t)n < sizeof(pages->text))
		pages->len += (size_t)n;
	pthread_mutex_unlock(&pages->mutex);
}

/* Open and connect; the result, and whatever it opened is closed again. */
static int connect_to(const char *url, const sneck_client_options *with, sneck_error *error) {
	static struct pages pages = { .mutex = PTHREAD_MUTEX_INITIALIZER };
	sneck_client_options options = SNECK_CLIENT_OPTIONS_INIT;
	if (with)
		options = *with;
	options.flags |= SNECK_OPEN_CONNECT;
	options.log_fn = write_down;
	options.log_ctx = &pages;
	options.log_level = SNECK_LOG_DEBUG;
	sneck_client *client = NULL;
	memset(error, 0, sizeof(*error));
	int r = sneck_open(url, &options, &client, error);
	assert_true((r == 0) == (client != NULL));
	if (r == 0) {
		test_release(test_take(client, "door", SNECK_WRITE, 0));
		sneck_close(client);
	} else {
		assert_int_equal(error->code, r);
		if (strlen(error->text) < 20)
			fail_msg("'%s' helps nobody", error->text);
	}
	assert_null(strstr(error->text, SECRET));
	pages.text[sizeof(pages.text) - 1] = '\0';
	assert_null(strstr(pages.text, SECRET));
	return r;
}

static void malformed_addresses(void **state) {
	(void)state;
	const char *urls[] = { "", "redis", "redis:", "redis:/", "redis://", "http://localhost", "redis://:0",
		"redis://host:0", "redis://host:65536", "redis://host:port", "redis://host:-1",
		"redis://host:6379/notadb", "redis://host:6379/-1", "redis://host:6379/0/1",
		"redis://:" SECRET "@", "redis://u:" SECRET "@host:99999", "unix://", "unix:///tmp/s?db=x",
		"unix:///tmp/s?what=1", "redis://[::1", "redis://ho st", "redis://host:6379/0#x" };
	for (size_t i = 0; i < sizeof(urls) / sizeof(*urls); i++) {
		sneck_error error;
		int r = connect_to(urls[i], NULL, &error);
		if (r != SNECK_EINVAL)
			fail_msg("'%s': %s", urls[i], r ? sneck_err_name(r) : "opened");
	}
	char long_path[300] = "unix:///";
	memset(long_path + 8, 'p', sizeof(long_path) - 9);
	long_path[sizeof(long_path) - 1] = '\0';
	sneck_error error;
	assert_result(SNECK_EINVAL, connect_to(long_path, NULL, &error), &error);
}

static void nobody_there(void **state) {
	(void)state;
	sneck_error error;
	int64_t start_ms = test_now_ms();
	assert_result(SNECK_ECONN, connect_to("unix:///tmp/sneck-no-such-socket", NULL, &error), &error);
	/* Port 1 of this machine: refused at once. */
	assert_result(SNECK_ECONN, connect_to("redis://127.0.0.1:1", NULL, &error), &error);
	assert_non_null(strstr(error.text, "127.0.0.1"));
	assert_result(SNECK_ECONN, connect_to("redis://no-such-host.invalid", NULL, &error), &error);
	assert_true(test_now_ms() - start_ms <= 1000 + TEST_SLACK_MS);
	/* Without CONNECT the open succeeds, and the first call says it. */
	sneck_client *client = test_open("redis://127.0.0.1:1");
	sneck_hold *hold = NULL;
	start_ms = test_now_ms();
	assert_result(SNECK_ECONN, sneck_acquire(client, "door", SNECK_WRITE, NULL, &hold, &error), &error);
	assert_non_null(strstr(error.text, "127.0.0.1"));
	assert_true(test_now_ms() - start_ms <= TEST_SLACK_MS);
	sneck_close(client);
}

/* A listener that never answers: the connection succeeds and then nothing comes. */
static void somebody_who_says_nothing(void **state) {
	(void)state;
	struct sockaddr_un here = { .sun_family = AF_UNIX };
	char url[128];
	snprintf(here.sun_path, sizeof(here.sun_path), "%s/mute.sock", server->dir);
	snprintf(url, sizeof(url), "unix://%s", here.sun_path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&here, sizeof(here)), 0);
	assert_int_equal(listen(fd, 16), 0);
	sneck_client_options options = SNECK_CLIENT_OPTIONS_INIT;
	options.connect_ms = 200;
	options.command_ms = 200;
	sneck_error error;
	int64_t start_ms = test_now_ms();
	assert_result(SNECK_ECONN, connect_to(url, &options, &error), &error);
	assert_true(test_now_ms() - start_ms <= 400 + TEST_SLACK_MS);
	close(fd);
}

static void somebody_who_speaks_something_else(void **state) {
	(void)state;
	struct sockaddr_un here = { .sun_family = AF_UNIX };
	char url[128];
	snprintf(here.sun_path, sizeof(here.sun_path), "%s/mail.sock", server->dir);
	snprintf(url, sizeof(url), "unix://%s", here.sun_path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&here, sizeof(here)), 0);
	assert_int_equal(listen(fd, 16), 0);
	sneck_client_options options = SNECK_CLIENT_OPTIONS_INIT;
	options.command_ms = 500;
	sneck_client *client = NULL;
	assert_result(0, sneck_open(url, &options, &client, NULL), NULL);
	struct test_call call;
	test_call_start(&call, client, "door", SNECK_WRITE, NULL);
	int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
	assert_true(peer >= 0);
	const char greeting[] = "220 mail.example ready\r\n";
	assert_true(send(peer, greeting, strlen(greeting), MSG_NOSIGNAL) > 0);
	assert_true(test_readable(peer, 2000));
	close(fd);
	close(peer);
	assert_result(SNECK_ECONN, test_call_join(&call), &call.error);
	sneck_close(client);
}

/* A right that is missing only inside the scripts: said at once, and not asked for again and again. */
static void a_right_inside_the_scripts(void **state) {
	(void)state;
	struct test_server guarded;
	assert_int_equal(test_server_start(&guarded, NULL), 0);
	test_redis_ok(&guarded, "ACL SETUSER weak on >%s ~* &* +@all -zadd", SECRET);
	sneck_client_options options = SNECK_CLIENT_OPTIONS_INIT;
	options.user = "weak";
	options.password = SECRET;
	sneck_error error;
	sneck_client *client = NULL;
	assert_result(0, sneck_open(guarded.url, &options, &client, &error), &error);
	sneck_acquire_options waiting = test_waiting(SNECK_WAIT_FOREVER);
	sneck_hold *hold = NULL;
	assert_result(
	        SNECK_EACCES, sneck_acquire(client, "door", SNECK_WRITE, &waiting, &hold, &error), &error);
	assert_null(hold);
	assert_true(test_stats(client).commands <= 20);
	sneck_close(client);
	test_server_stop(&guarded);
}

static void passwords(void **state) {
	(void)state;
	struct test_server guarded;
	/* The helpers talk to it without a password, so that one is set last. */
	assert_int_equal(test_server_start(&guarded, NULL), 0);
	test_redis_ok(&guarded, "ACL SETUSER weak on >%s ~* &* +@all -eval -evalsha", SECRET);
	test_redis_ok(&guarded, "CONFIG SET requirepass %s", SECRET);
	sneck_error error;
	int64_t start_ms = test_now_ms();
	assert_result(SNECK_EACCES, connect_to(guarded.url, NULL, &error), &error);
	assert_string_equal(error.server, "NOAUTH");
	sneck_client_options options = SNECK_CLIENT_OPTIONS_INIT;
	options.password = SECRET "x";
	assert_result(SNECK_EACCES, connect_to(guarded.url, &options, &error), &error);
	assert_string_equal(error.server, "WRONGPASS");
	assert_true(test_now_ms() - start_ms <= TEST_SLACK_MS);
	options.password = SECRET;
	assert_result(0, connect_to(guarded.url, &options, &error), &error);
	options.user = "nobody";
	assert_result(SNECK_EACCES, connect_to(guarded.url, &options, &error), &error);
	/* Let in, but not to run scripts: the call says which permission is missing. */
	options.user = "weak";
	sneck_client *client = NULL;
	sneck_hold *hold = NULL;
	assert_result(0, sneck_open(guarded.url, &options, &client, &error), &error);
	assert_result(SNECK_EACCES, sneck_acquire(client, "door", SNECK_WRITE, NULL, &hold, &error), &error);
	assert_string_equal(error.server, "NOPERM");
	assert_null(strstr(error.text, SECRET));
	sneck_close(client);
	test_server_stop(&guarded);
}

static void other_databases_are_other_places(void **state) {
	(void)state;
	char url[TEST_URL_MAX];
	sneck_client *a = test_open(test_url_with(server, url, "db=3"));
	sneck_client *b = test_open(server->url);
	sneck_hold *there = test_take(a, "door", SNECK_WRITE, 0);
	sneck_hold *here = test_take(b, "door", SNECK_WRITE, 0);
	test_release(there);
	test_release(here);
	sneck_close(a);
	sneck_close(b);
	sneck_error error;
	int r = connect_to(test_url_with(server, url, "db=9999"), NULL, &error);
	assert_true(r == SNECK_ESERVER || r == SNECK_EINVAL);
}

static void keys_that_are_no_locks(void **state) {
	(void)state;
	sneck_client *client = test_open(server->url);
	const char *makers[] = { "SET %s value", "HSET %s owner me", "RPUSH %s one", "SADD %s one",
		"ZADD %s 1 somebody", "ZADD %s 1800000000000000 #2", "XADD %s * field value" };
	for (size_t i = 0; i < sizeof(makers) / sizeof(*makers); i++) {
		char key[160];
		test_key("door", key);
		test_redis_ok(server, "DEL %s", key);
		test_redis_ok(server, makers[i], key);
		redisReply *before = test_redis(server, "DUMP %s", key);
		for (int mode = SNECK_READ; mode <= SNECK_WRITE; mode++) {
			sneck_hold *hold = NULL;
			sneck_error error = { 0 };
			assert_result(SNECK_ETYPE,
			        sneck_acquire(client, "door", (sneck_mode)mode, NULL, &hold, &error), &error);
			assert_true(strlen(error.text) > 20);
		}
		redisReply *after = test_redis(server, "DUMP %s", key);
		assert_int_equal(after->len, before->len);
		assert_memory_equal(after->str, before->str, before->len);
		assert_int_equal(test_redis_int(server, "PTTL %s", key), -1);
		freeReplyObject(before);
		freeReplyObject(after);
	}
	sneck_close(client);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(malformed_addresses),
		TEST(nobody_there),
		TEST(somebody_who_says_nothing),
		TEST(somebody_who_speaks_something_else),
		TEST(passwords),
		TEST(a_right_inside_the_scripts),
		TEST(other_databases_are_other_places),
		TEST(keys_that_are_no_locks),
	};
	return cmocka_run_group_tests(tests, test_server_up, test_server_down);
}
