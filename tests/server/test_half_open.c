/* SPDX-License-Identifier: MIT */
/* Peers that vanish without a packet: no FIN, no RST, nothing. A lock must outlive that when there is a way
 * to the server again in time: the dead connection is noticed so early that two more renewals fit.
 *
 * The server is in a network namespace of its own and we are in another, with two cables (veth) between
 * them. A flow is swallowed by a rule for its port in the server's namespace, while new connections get
 * through (a router that has forgotten a connection); or a cable is unplugged at the far end, and
 * the route is laid over the other. Where no namespaces can be made the program says so and counts as
 * skipped. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "locks.h"
#include "wait.h"

enum { SKIPPED = 77, PORT = 6379 };

#define SERVER "10.77.0.9"
#define URL "redis://" SERVER ":6379"

static struct test_server *const server = &test_the_server;

/* ---- Two networks -------------------------------------------------------------------------------*/

/* Run a command of ip(8), `there`: in the server's namespace. */
static int ip(bool there, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int ip(bool there, const char *format, ...) {
	char words[200], command[300];
	va_list args;

	va_start(args, format);
	vsnprintf(words, sizeof words, format, args);
	va_end(args);
	if (there)
		snprintf(command, sizeof command, "nsenter -t %d -n ip %s", (int)server->pid, words);
	else
		snprintf(command, sizeof command, "ip %s", words);
	return system(command);
}

/* Cable `number`, 10.77.<number>.1 to .2. */
static int lay_cable(int number) {
	return ip(false, "link add here%d type veth peer name there%d", number, number) ||
	       ip(false, "link set there%d netns %d", number, (int)server->pid) ||
	       ip(false, "addr add 10.77.%d.1/24 dev here%d", number, number) ||
	       ip(true, "addr add 10.77.%d.2/24 dev there%d", number, number) ||
	       ip(false, "link set here%d up", number) || ip(true, "link set there%d up", number);
}

static void route_over(int number) {
	assert_int_equal(ip(false, "route replace " SERVER " via 10.77.%d.2 src 10.77.1.1", number), 0);
	assert_int_equal(ip(true, "route replace 10.77.1.1 via 10.77.%d.1", number), 0);
}

static int make_networks(void) {
	static const char *const args[] = { "--port", "6379", "--bind", "0.0.0.0", "--protected-mode", "no",
		NULL };

	if (unshare(CLONE_NEWNET) < 0 || ip(false, "link set lo up") != 0) {
		fprintf(stderr, "no network namespace can be made here (%s): skipped\n", strerror(errno));
		return SKIPPED;
	}
	if (test_server_start(server, args) < 0)
		return 1;
	if (unshare(CLONE_NEWNET) < 0 || ip(false, "link set lo up") != 0 || lay_cable(1) != 0 ||
	        lay_cable(2) != 0 || ip(true, "addr add " SERVER "/32 dev lo") != 0) {
		fprintf(stderr, "no cable can be laid between two namespaces here: skipped\n");
		test_server_stop(server);
		return SKIPPED;
	}
	return 0;
}

static bool reachable(void) {
	struct timeval limit = { 1, 0 };
	redisContext *redis = redisConnectWithTimeout(SERVER, PORT, limit);
	bool connected = redis && !redis->err;

	if (redis)
		redisFree(redis);
	return connected;
}

static int all_is_well(void **state) {
	for (int i = 1; i <= 2; i++) {
		assert_int_equal(ip(true, "link set there%d up", i), 0);
		assert_int_equal(ip(false, "neigh flush dev here%d", i), 0);
	}
	route_over(1);
	assert_true(WAIT_UNTIL(reachable(), 10000));
	return test_server_clean(state);
}

/* ---- Flows --------------------------------------------------------------------------------------*/

/* The port of a client's connection: of the subscribed one, or of that on which scripts were called (one that
 * is about to subscribe is neither). 0: there is none. */
static int port_of(const sneck_client *client, bool subscribed) {
	redisReply *list = test_redis(server, "CLIENT LIST");
	int port = 0;

	assert_non_null(list);
	for (const char *line = strtok(list->str, "\n"); line; line = strtok(NULL, "\n")) {
		const char *addr = strstr(line, " addr=10.77."), *sub = strstr(line, " sub=");
		bool subscribes = sub && atoi(sub + strlen(" sub=")) > 0;
		if (addr && sub && strstr(line, sneck_client_session(client)) &&
		        (subscribed ? subscribes : !subscribes && strstr(line, " cmd=eval")))
			port = atoi(strchr(addr, ':') + 1);
	}
	freeReplyObject(list);
	return port;
}

/* From now on the far end neither hears nor says anything on this flow. */
static void swallow(int port) {
	assert_int_equal(ip(true, "rule add ipproto tcp sport %d blackhole", port), 0);
	assert_int_equal(ip(true, "rule add ipproto tcp dport %d blackhole", port), 0);
}

static void spit_out(int port) {
	assert_int_equal(ip(true, "rule del ipproto tcp sport %d blackhole", port), 0);
	assert_int_equal(ip(true, "rule del ipproto tcp dport %d blackhole", port), 0);
}

static sneck_hold *take_for(sneck_client *client, const char *name, int64_t lease_ms) {
	sneck_acquire_options options = SNECK_ACQUIRE_OPTIONS_INIT;

	options.lease_ms = lease_ms;
	return test_take_opts(client, name, SNECK_WRITE, &options);
}

/* What the server has written down as the end of the lease. */
static int64_t deadline_of(const char *name) {
	return (int64_t)test_score(server, name, "W");
}

/* ---- The command connection ---------------------------------------------------------------------*/

/* The flow dies right after the lock was taken. When that is noticed, a third of the lease has passed for the
 * renewal to be due, and at most a fifth (or the command time) for it to be given up: two more take a fifth
 * each at worst. */
static void a_renewal_finds_a_dead_connection(int64_t lease_ms, int64_t noticed_ms) {
	sneck_client *client = test_open(URL);
	sneck_hold *hold = take_for(client, "door", lease_ms);
	int64_t taken_ms = test_now_ms(), first = deadline_of("door");
	int port = port_of(client, false);

	assert_true(port > 0);
	swallow(port);
	assert_true(WAIT_UNTIL(test_stats(client).disconnects == 1, 2 * (int)lease_ms));
	int64_t after_ms = test_now_ms() - taken_ms;
	if (after_ms > noticed_ms + TEST_SLACK_MS)
		fail_msg(
		        "noticed after %lld ms of a lease of %lld", (long long)after_ms, (long long)lease_ms);
	/* It goes on over a new connection, before the lease ends. */
	assert_true(WAIT_UNTIL(deadline_of("door") > first, (int)(lease_ms - after_ms)));
	/* The answer is still to come, and what was called last on the new connection may be another command.
	 */
	assert_true(WAIT_UNTIL(sneck_hold_state(hold) == SNECK_HELD, 2000));
	assert_true(WAIT_UNTIL(port_of(client, false) != port, (int)lease_ms));
	spit_out(port);
	assert_true(WAIT_UNTIL(test_now_ms() - taken_ms > 2 * lease_ms, 3 * (int)lease_ms));
	assert_int_equal(test_stats(client).losses, 0);
	test_release(hold);
	sneck_close(client);
}

static void a_short_lease_survives_a_dead_connection(void **state) {
	(void)state;
	a_renewal_finds_a_dead_connection(3000, 1000 + 600);
}

static void a_longer_lease_survives_a_dead_connection(void **state) {
	(void)state;
	a_renewal_finds_a_dead_connection(12000, 4000 + 2000);
}

/* A caller who waits for an answer of its own reads for the renewal, too, and must not keep it waiting. */
static void a_renewal_hurries_whoever_reads(void **state) {
	sneck_client *client = test_open(URL);
	sneck_hold *hold = take_for(client, "door", 3000);
	int64_t taken_ms = test_now_ms();
	int port = port_of(client, false);
	struct test_call call;
	(void)state;

	swallow(port);
	/* Just before the renewal is due, which is 800 to 1000 ms after the lock was taken. */
	assert_true(WAIT_UNTIL(test_now_ms() - taken_ms > 700, 5000));
	test_call_start(&call, client, "other", SNECK_WRITE, NULL);
	assert_int_equal(test_call_join(&call), 0);
	assert_true(call.end_ms - taken_ms < 1600 + TEST_SLACK_MS);
	assert_int_equal(sneck_hold_state(hold), SNECK_HELD);
	spit_out(port);
	test_release(call.hold);
	test_release(hold);
	sneck_close(client);
}

/* No request is in flight, and none will be for long: the kernel's probes find out. */
static void an_idle_connection_is_found_dead(void **state) {
	sneck_client *client = test_open(URL);
	sneck_hold *hold = take_for(client, "door", 600000);
	int64_t taken_ms = test_now_ms();
	int port = port_of(client, false);
	(void)state;

	swallow(port);
	assert_true(WAIT_UNTIL(test_stats(client).connects == 2, 20000));
	/* A probe after 5 s of silence, and the command time for its answer. */
	assert_in_range(test_now_ms() - taken_ms, 5000, 5000 + 2 * 2000 + TEST_SLACK_MS);
	spit_out(port);
	test_release(hold);
	sneck_close(client);
}

/* ---- The subscribe connection -------------------------------------------------------------------*/

/* It is asked after 5 s without a word, and given the command time. Messages come again afterwards: a waiter
 * gets the lock sooner than its heartbeat would find out. */
static void a_dead_subscription_is_made_again(void **state) {
	sneck_client *holder = test_open(URL), *waiter = test_open(URL);
	struct test_call call;
	sneck_hold *hold = test_take(holder, "door", SNECK_WRITE, 0);
	(void)state;

	sneck_acquire_options options = test_waiting(60000);
	test_call_start(&call, waiter, "door", SNECK_WRITE, &options);
	assert_true(WAIT_UNTIL(port_of(waiter, true) > 0, 5000));
	int port = port_of(waiter, true);
	int64_t before_ms = test_now_ms();
	swallow(port);
	assert_true(WAIT_UNTIL(port_of(waiter, true) != port && port_of(waiter, true) > 0, 20000));
	assert_in_range(test_now_ms() - before_ms, 0, 5000 + 2000 + TEST_SLACK_MS);
	assert_int_equal(test_stats(waiter).disconnects, 0); /* the other one is well */
	spit_out(port);
	test_release(hold);
	assert_int_equal(test_call_join(&call), 0);
	test_release(call.hold);
	sneck_close(waiter);
	sneck_close(holder);
}

/* ---- Another way --------------------------------------------------------------------------------*/

/* The cable is unplugged at the far end: nothing gets through, no connection can be made. Then there is
 * another way to the same address. */
static void renewals_take_another_way(void **state) {
	enum { LEASE_MS = 9000 };
	sneck_client *client = test_open(URL);
	sneck_hold *hold = take_for(client, "door", LEASE_MS);
	int64_t taken_ms = test_now_ms(), first = deadline_of("door");
	int port = port_of(client, false);
	(void)state;

	assert_int_equal(ip(true, "link set there1 down"), 0);
	assert_true(WAIT_UNTIL(test_stats(client).disconnects == 1, LEASE_MS));
	assert_true(test_now_ms() - taken_ms < LEASE_MS / 3 + LEASE_MS / 5 + TEST_SLACK_MS);
	/* The attempts so far went nowhere. */
	assert_true(WAIT_UNTIL(sneck_hold_state(hold) == SNECK_SUSPECT, LEASE_MS));
	assert_int_equal(deadline_of("door"), first);
	route_over(2);
	assert_true(WAIT_UNTIL(deadline_of("door") > first, LEASE_MS));
	assert_true(WAIT_UNTIL(sneck_hold_state(hold) == SNECK_HELD, LEASE_MS));
	assert_int_not_equal(port_of(client, false), port);
	assert_int_equal(test_stats(client).losses, 0);
	test_release(hold);
	sneck_close(client);
}

/* And if there is none, the program is told before the server can give the lock to another. */
static void no_way_at_all_is_a_loss_in_time(void **state) {
	sneck_client *client = test_open(URL);
	sneck_hold *hold = take_for(client, "door", 3000);
	int64_t first = deadline_of("door");
	(void)state;

	assert_int_equal(ip(true, "link set there1 down"), 0);
	assert_true(WAIT_UNTIL(sneck_hold_state(hold) == SNECK_LOST, 10000));
	assert_true(test_server_ms(server) <= first + TEST_SLACK_MS - 30);
	assert_result(SNECK_ELOST, sneck_release(hold), NULL);
	assert_int_equal(ip(true, "link set there1 up"), 0);
	sneck_close(client);
}

int main(void) {
#define WITH_NETWORK(function) cmocka_unit_test_setup(function, all_is_well)
	const struct CMUnitTest tests[] = {
		WITH_NETWORK(a_short_lease_survives_a_dead_connection),
		WITH_NETWORK(a_longer_lease_survives_a_dead_connection),
		WITH_NETWORK(a_renewal_hurries_whoever_reads),
		WITH_NETWORK(an_idle_connection_is_found_dead),
		WITH_NETWORK(a_dead_subscription_is_made_again),
		WITH_NETWORK(renewals_take_another_way),
		WITH_NETWORK(no_way_at_all_is_a_loss_in_time),
	};
	int r = make_networks();

	if (r == 0)
		r = cmocka_run_group_tests(tests, NULL, NULL);
	test_server_stop(server);
	return r;
}
