/* SPDX-License-Identifier: MIT */
/* Sentinels that are wrong: one that names a replica, one that is cut off from the others and names a server
 * that goes on as a primary, one that names a server which nobody reaches. The wrong ones are real sentinels
 * that cannot learn: the commands by which they would hear of the others have names that no server knows. */
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "locks.h"
#include "sentinels.h"
#include "wait.h"

enum { URL_BYTES = 256 };

static struct test_sentinels all;

static int up(void **state) {
	(void)state;
	return test_sentinels_start(&all, NULL, NULL);
}

static int down(void **state) {
	(void)state;
	test_sentinels_stop(&all);
	return 0;
}

/* A sentinel that takes what listens on `port` for the primary, and never hears otherwise. */
static void start_deaf_sentinel(struct test_server *sentinel, int port) {
	static const char *const commands[] = { "INFO", "SUBSCRIBE", "PUBLISH" };
	char config[1024];
	int len = snprintf(config, sizeof config,
	        "sentinel monitor " SENTINELS_SERVICE " 127.0.0.1 %d 2\n"
	        "sentinel down-after-milliseconds " SENTINELS_SERVICE " 60000\n",
	        port);

	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
		len += snprintf(config + len, sizeof config - (size_t)len,
		        "sentinel rename-command " SENTINELS_SERVICE " %s NO%s\n", commands[i], commands[i]);
	assert_int_equal(test_server_start_sentinel(sentinel, config), 0);
}

static const char *url_of(const struct test_server *first, const struct test_server *second) {
	static char url[URL_BYTES];

	snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:%d,127.0.0.1:%d/" SENTINELS_SERVICE,
	        first->port, second->port);
	return url;
}

/* By its role it is known to be none, and the next sentinel is asked. */
static void a_replica_that_is_named_is_not_used(void **state) {
	int primary = test_sentinels_primary(&all);
	struct test_server deaf;
	(void)state;

	start_deaf_sentinel(&deaf, all.ports[(primary + 1) % SENTINELS_SERVERS]);
	sneck_client *client = test_open(url_of(&deaf, &all.sentinels[0]));
	sneck_hold *hold = test_take(client, "door", SNECK_WRITE, 5000);
	assert_int_equal(test_redis_int(&all.servers[primary], "EXISTS sneck:{door}"), 1);
	test_release(hold);
	sneck_close(client);
	test_server_stop(&deaf);
}

static long connections(redisContext *admin) {
	redisReply *reply = redisCommand(admin, "INFO stats");
	const char *at = reply ? strstr(reply->str, "total_connections_received:") : NULL;
	long n = at ? strtol(at + strlen("total_connections_received:"), NULL, 10) : -1;

	freeReplyObject(reply);
	return n;
}

/* One that is cut off names a server which takes itself for the primary. Another one has a higher epoch: it
 * is heard within a while, what was held on the wrong server is lost and told, and the one that is behind
 * is not believed again. */
static void the_highest_epoch_counts(void **state) {
	struct test_server deaf, alone;
	(void)state;

	test_sentinels_settle(&all);
	test_sentinels_fail_over(&all); /* an epoch above 0 */
	assert_int_equal(test_server_start_tcp(&alone, NULL), 0);
	start_deaf_sentinel(&deaf, alone.port);
	redisContext *admin = test_server_connect(&deaf);
	sneck_client *client = test_open(url_of(&deaf, &all.sentinels[0]));
	sneck_hold *hold = test_take(client, "door", SNECK_WRITE, 0);
	assert_int_equal(test_redis_int(&alone, "EXISTS sneck:{door}"), 1);
	assert_true(WAIT_UNTIL(sneck_hold_state(hold) == SNECK_LOST, 20000));
	assert_result(SNECK_ELOST, sneck_release(hold), NULL);
	hold = test_take(client, "gate", SNECK_WRITE, 5000);
	long before = connections(admin);
	assert_true(WAIT_UNTIL(connections(admin) > before, 20000)); /* it is asked again, in turn */
	assert_result(0, sneck_renew(hold, 0, NULL), NULL);
	assert_int_equal(test_redis_int(&alone, "EXISTS sneck:{gate}"), 0);
	assert_int_equal(sneck_hold_state(hold), SNECK_HELD);
	test_release(hold);
	sneck_close(client);
	redisFree(admin);
	test_server_stop(&deaf);
	test_server_stop(&alone);
}

/* When nobody else can be asked, the one that is behind is better than none. */
static void one_that_is_behind_is_better_than_none(void **state) {
	struct test_server deaf, alone;
	(void)state;

	assert_int_equal(test_server_start_tcp(&alone, NULL), 0);
	start_deaf_sentinel(&deaf, alone.port);
	sneck_client *client = test_open(url_of(&all.sentinels[0], &deaf));
	test_release(test_take(client, "door", SNECK_WRITE, 5000));
	int primary = test_sentinels_primary(&all);
	test_server_stopcont(&all.sentinels[0], true);
	test_server_kill9(&all.servers[primary]);
	sneck_hold *hold = test_take(client, "door", SNECK_WRITE, 20000);
	assert_int_equal(test_redis_int(&alone, "EXISTS sneck:{door}"), 1);
	test_release(hold);
	sneck_close(client);
	test_server_stopcont(&all.sentinels[0], false);
	test_sentinels_bring_back(&all, primary, test_sentinels_wait_switch(&all, primary));
	test_server_stop(&deaf);
	test_server_stop(&alone);
}

static int listen_silently(int *ret_port) {
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof addr;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof addr), 0);
	assert_int_equal(listen(fd, 64), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
	*ret_port = ntohs(addr.sin_port);
	return fd;
}

/* Half of a partition: the sentinels are reached, the primary is not. Calls end when they said, and say
 * which of the two it was. */
static void the_primary_is_out_of_reach(void **state) {
	sneck_client_options options = SNECK_CLIENT_OPTIONS_INIT;
	sneck_acquire_options patient = test_waiting(1500);
	struct test_server deaf;
	sneck_client *client;
	sneck_hold *hold;
	sneck_error error = { 0 };
	char url[URL_BYTES], words[64];
	int port, fd = listen_silently(&port);
	(void)state;

	start_deaf_sentinel(&deaf, port);
	snprintf(url, sizeof url, "redis+sentinel://127.0.0.1:%d/" SENTINELS_SERVICE, deaf.port);
	snprintf(words, sizeof words, "redis://127.0.0.1:%d", port);
	options.flags = SNECK_OPEN_CONNECT;
	int64_t before = test_now_ms();
	assert_result(SNECK_ECONN, sneck_open(url, &options, &client, &error), &error);
	assert_true(test_now_ms() - before < 1000 + TEST_SLACK_MS);
	if (!strstr(error.text, words))
		fail_msg("%s", error.text);
	options.flags = 0;
	assert_result(0, sneck_open(url, &options, &client, &error), &error);
	before = test_now_ms();
	int r = sneck_acquire(client, "door", SNECK_WRITE, &patient, &hold, &error);
	assert_true(r == SNECK_ECONN || r == SNECK_ETIMEDOUT);
	assert_true(test_now_ms() - before < 1500 + TEST_SLACK_MS);
	sneck_close(client);
	test_server_stop(&deaf);
	close(fd);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_replica_that_is_named_is_not_used),
		cmocka_unit_test(the_highest_epoch_counts),
		cmocka_unit_test(one_that_is_behind_is_better_than_none),
		cmocka_unit_test(the_primary_is_out_of_reach),
	};
	return cmocka_run_group_tests(tests, up, down);
}
