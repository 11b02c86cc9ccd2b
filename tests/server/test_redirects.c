/* SPDX-License-Identifier: MIT */
/* What a cluster may answer instead of doing what it was asked: redirections that are wrong, that never end,
 * or that name strangers; "not now"; and silence. One real node has all slots, behind a proxy that it
 * announces as its own address, so that everything passes there. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "locks.h"
#include "proxy.h"
#include "server.h"
#include "wait.h"

static struct test_server server;
static struct test_proxy proxy;
static char url[128];

static bool serves(void) {
	redisReply *reply = test_redis(&server, "CLUSTER INFO");
	bool ok = reply && reply->str && strstr(reply->str, "cluster_state:ok");

	if (reply)
		freeReplyObject(reply);
	return ok;
}

static int up(void **state) {
	char bus[16];
	const char *const args[] = { "--cluster-enabled", "yes", "--cluster-port", bus, NULL };
	(void)state;

	snprintf(bus, sizeof bus, "%d", test_free_port());

	if (test_server_start_tcp(&server, args) < 0)
		return -1;
	test_redis_ok(&server, "ACL SETUSER locks on >secret ~* &* +@all");
	test_proxy_start_tcp(&proxy, server.socket_path);
	test_redis_ok(&server, "CONFIG SET cluster-announce-ip 127.0.0.1");
	test_redis_ok(&server, "CONFIG SET cluster-announce-port %d", proxy.port);
	test_redis_ok(&server, "CLUSTER ADDSLOTSRANGE 0 16383");
	snprintf(url, sizeof url, "redis+cluster://locks:secret@127.0.0.1:%d", proxy.port);
	return WAIT_UNTIL(serves(), 10000) ? 0 : -1;
}

static int down(void **state) {
	(void)state;
	test_proxy_stop(&proxy);
	test_server_stop(&server);
	return 0;
}

static int calm(void **state) {
	(void)state;
	test_proxy_calm(&proxy);
	return 0;
}

static void answer_scripts(unsigned nth, const char *line) {
	const struct proxy_rule rule = {
		.action = PROXY_ANSWER, .class = PROXY_SCRIPT, .nth = nth, .line = line
	};
	test_proxy_arm(&proxy, &rule);
}

/* Somebody who must never be spoken to. */
static int strange_listener(int *ret_port) {
	struct sockaddr_in here = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof here;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&here, len), 0);
	assert_int_equal(listen(fd, 8), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&here, &len), 0);
	*ret_port = ntohs(here.sin_port);
	return fd;
}

static void a_stranger_gets_no_password(void **state) {
	static const char *const words[] = { "MOVED", "ASK" };
	(void)state;

	for (size_t i = 0; i < 2; i++) {
		int port, fd = strange_listener(&port);
		char line[80];
		sneck_hold *hold = NULL;
		sneck_error error;
		sneck_acquire_options options = test_waiting(0);
		sneck_client *client = test_open(url);

		test_release(test_take(client, "door", SNECK_WRITE, 0));
		snprintf(line, sizeof line, "-%s 8632 127.0.0.1:%d", words[i], port);
		answer_scripts(0, line); /* every time */
		assert_result(SNECK_ESERVER,
		        sneck_acquire(client, "door", SNECK_WRITE, &options, &hold, &error), &error);
		assert_non_null(strstr(error.text, "a place that none of them"));
		struct pollfd pfd = { .fd = fd, .events = POLLIN };
		assert_int_equal(poll(&pfd, 1, 0), 0); /* nobody has knocked */
		test_proxy_calm(&proxy);
		test_release(test_take(client, "door", SNECK_WRITE, 5000));
		sneck_close(client);
		close(fd);
	}
}

/* The node sends everybody to itself, for ever: the call ends, by its deadline, with the reason. */
static void a_circle_ends(void **state) {
	char line[80];
	sneck_hold *hold = NULL;
	sneck_error error;
	sneck_acquire_options options = test_waiting(0);
	sneck_client *client = test_open(url);
	(void)state;

	test_release(test_take(client, "door", SNECK_WRITE, 0));
	snprintf(line, sizeof line, "-MOVED 8632 127.0.0.1:%d", proxy.port);
	answer_scripts(0, line);
	uint64_t before = test_stats(client).commands;
	int64_t began = test_now_ms();
	int r = sneck_acquire(client, "door", SNECK_WRITE, &options, &hold, &error);
	assert_true(r == SNECK_ESERVER || r == SNECK_ECONN);
	assert_true(test_now_ms() - began < 4000);
	assert_true(test_stats(client).commands - before < 60); /* no storm */
	test_proxy_calm(&proxy);
	test_release(test_take(client, "door", SNECK_WRITE, 5000));
	sneck_close(client);
}

/* "Not now", a few times: nobody notices. */
static void not_now_is_asked_again(void **state) {
	static const char *const lines[] = { "-TRYAGAIN Multiple keys request during rehashing of slot",
		"-CLUSTERDOWN The cluster is down" };
	sneck_client *client = test_open(url);
	(void)state;

	test_release(test_take(client, "door", SNECK_WRITE, 0));
	for (size_t i = 0; i < 2; i++) {
		for (unsigned nth = 1; nth <= 3; nth++)
			answer_scripts(nth, lines[i]);
		sneck_hold *hold = test_take(client, "door", SNECK_WRITE, 0);
		for (unsigned nth = 1; nth <= 3; nth++)
			answer_scripts(nth, lines[i]);
		assert_int_equal(sneck_renew(hold, 0, NULL), 0);
		for (unsigned nth = 1; nth <= 3; nth++)
			answer_scripts(nth, lines[i]);
		test_release(hold);
	}
	assert_int_equal(test_stats(client).losses, 0);
	sneck_close(client);
}

/* A request that is to be sent again, and is withdrawn meanwhile, must not come to life behind its own
 * withdrawal. */
static void who_gives_up_on_the_way_leaves_nothing(void **state) {
	sneck_client *client = test_open(url), *other = test_open(url);
	struct proxy_counts counts;
	(void)state;

	test_release(test_take(client, "door", SNECK_WRITE, 0));
	for (int i = 0; i < 5; i++) {
		struct test_call call;
		sneck_acquire_options options = test_waiting(20000);
		options.tag = 7;
		test_proxy_counts(&proxy, &counts);
		answer_scripts(1, "-TRYAGAIN Multiple keys request during rehashing of slot");
		test_call_start(&call, client, "door", SNECK_WRITE, &options);
		assert_true(test_proxy_wait_fired(&proxy, counts.fired + 1, 5000));
		sneck_cancel(client, 7);
		if (test_call_join(&call) == 0)
			test_release(call.hold);
		/* For longer than the pause after which it would be sent again. */
		for (int64_t began = test_now_ms(); test_now_ms() - began < 150;)
			test_release(test_take(other, "door", SNECK_WRITE, 2000));
	}
	assert_true(WAIT_UNTIL(test_redis_int(&server, "ZCARD sneck:{door}") <= 1, 5000));
	sneck_close(other);
	sneck_close(client);
}

/* A slot that is nobody's any more, and comes back. */
static void a_slot_that_nobody_serves_is_named(void **state) {
	sneck_hold *hold = NULL;
	sneck_error error;
	sneck_acquire_options options = test_waiting(0);
	sneck_client *client = test_open(url);
	(void)state;

	test_release(test_take(client, "door", SNECK_WRITE, 0));
	test_redis_ok(&server, "CONFIG SET cluster-require-full-coverage no");
	test_redis_ok(&server, "DEL sneck:{door}");
	test_redis_ok(&server, "CLUSTER DELSLOTS 8632");
	int r = sneck_acquire(client, "door", SNECK_WRITE, &options, &hold, &error);
	assert_true(r == SNECK_ESERVER || r == SNECK_ECONN);
	assert_non_null(strstr(error.text, "CLUSTER INFO"));
	test_redis_ok(&server, "CLUSTER ADDSLOTS 8632");
	test_redis_ok(&server, "CONFIG SET cluster-require-full-coverage yes");
	assert_true(WAIT_UNTIL(serves(), 10000));
	test_release(test_take(client, "door", SNECK_WRITE, 5000));
	sneck_close(client);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(a_stranger_gets_no_password, calm),
		cmocka_unit_test_teardown(a_circle_ends, calm),
		cmocka_unit_test_teardown(not_now_is_asked_again, calm),
		cmocka_unit_test_teardown(who_gives_up_on_the_way_leaves_nothing, calm),
		cmocka_unit_test_teardown(a_slot_that_nobody_serves_is_named, calm),
	};
	return cmocka_run_group_tests(tests, up, down);
}
