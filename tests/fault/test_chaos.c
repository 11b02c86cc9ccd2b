/* SPDX-License-Identifier: MIT */
/* Everything at once: sessions with several threads each take, convert and release two locks while
 * their lines are cut, silenced, slowed, and their server is stopped and made to forget. At no instant
 * may two holds that exclude each other both be valid by their own account; tokens must grow; calls
 * must return when they said; and when all is over nothing may be left.
 *
 * SNECK_CHAOS_SEED and SNECK_CHAOS_MS repeat a run, or make it longer. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "layouts.h"
#include "locks.h"
#include "proxy.h"
#include "wait.h"

static struct test_server *const server = &test_the_server;

enum { SESSIONS = 4, THREADS = 3, LOCKS = 2, COMMAND_MS = 300, LATE_MS = TEST_SANITIZED ? 3000 : 1000 };

static const char *const names[LOCKS] = { "chaos-0", "chaos-1" };

/* Who is inside, by their own account. A hold stays listed while its thread is inside, so it may be
 * looked at under the mutex. */
struct witness {
	pthread_mutex_t mutex;
	sneck_hold *inside[SESSIONS * THREADS];
	sneck_mode modes[SESSIONS * THREADS];
	uint64_t last_token;
	uint64_t last_write_token;
};

struct worker {
	sneck_client *client;
	int number;
	unsigned seed;
	long taken, converted, refused, lost;
	char failure[256];
};

static struct witness witnesses[LOCKS];
static atomic_bool stop;

static void note(struct worker *worker, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void note(struct worker *worker, const char *format, ...) {
	if (worker->failure[0])
		return;
	va_list args;
	va_start(args, format);
	vsnprintf(worker->failure, sizeof(worker->failure), format, args);
	va_end(args);
	atomic_store(&stop, true);
}

/* The fault tests elsewhere wait for events; here it is time itself that must pass. */
static void pass_time(int64_t ms) {
	int64_t until_ms = test_now_ms() + ms;
	while (test_wait_step(until_ms))
		;
}

/* Two holds are both valid at one instant: mine before and after, the other's in between. */
static bool both_valid(sneck_hold *mine, sneck_hold *other) {
	return sneck_check(mine, 0) && sneck_check(other, 0) && sneck_check(mine, 0);
}

static void check_tokens(struct worker *worker, struct witness *witness, sneck_hold *hold, sneck_mode mode) {
	uint64_t token = sneck_hold_token(hold);
	if (test_dialect()) {
		if (token != 0)
			note(worker, "a token where the layout has none");
		return;
	}
	bool stale = mode == SNECK_WRITE ? token <= witness->last_token : token <= witness->last_write_token;
	if (stale && sneck_check(hold, 0))
		note(worker, "token %llu of %s after %llu (write %llu)", (unsigned long long)token,
		        mode == SNECK_WRITE ? "WRITE" : "READ", (unsigned long long)witness->last_token,
		        (unsigned long long)witness->last_write_token);
	if (token > witness->last_token)
		witness->last_token = token;
	if (mode == SNECK_WRITE && token > witness->last_write_token)
		witness->last_write_token = token;
}

/* Go inside, look around, do nothing for a moment, look around again, leave. `fresh`: with a token that
 * was not shown before. */
static void visit(struct worker *worker, int lock, sneck_hold *hold, bool fresh) {
	struct witness *witness = &witnesses[lock];
	sneck_mode mode = sneck_hold_mode(hold);
	for (int round = 0; round < 2; round++) {
		pthread_mutex_lock(&witness->mutex);
		if (round == 0 && fresh && sneck_check(hold, 0))
			check_tokens(worker, witness, hold, mode);
		witness->inside[worker->number] = hold;
		witness->modes[worker->number] = mode;
		for (int i = 0; i < SESSIONS * THREADS; i++) {
			if (i == worker->number || !witness->inside[i])
				continue;
			if (mode == SNECK_READ && witness->modes[i] == SNECK_READ)
				continue;
			if (both_valid(hold, witness->inside[i]))
				note(worker, "two hold %s: worker %d %s and worker %d %s", names[lock],
				        worker->number, mode == SNECK_WRITE ? "WRITE" : "READ", i,
				        witness->modes[i] == SNECK_WRITE ? "WRITE" : "READ");
		}
		pthread_mutex_unlock(&witness->mutex);
		if (round == 0)
			pass_time(rand_r(&worker->seed) % 25 ? rand_r(&worker->seed) % 3 : 900);
	}
	pthread_mutex_lock(&witness->mutex);
	witness->inside[worker->number] = NULL;
	pthread_mutex_unlock(&witness->mutex);
}

/* The longest time for which this machine has let a thread wait that had nothing to wait for. */
static atomic_llong stall_ms;

static void *watch_the_machine(void *arg) {
	(void)arg;
	while (!atomic_load(&stop)) {
		int64_t start_ms = test_now_ms();
		(void)test_wait_step(start_ms + 1);
		int64_t took_ms = test_now_ms() - start_ms;
		if (took_ms > atomic_load(&stall_ms))
			atomic_store(&stall_ms, took_ms);
	}
	return NULL;
}

static void check_time(struct worker *worker, const char *what, int r, int64_t start_ms, int64_t wait_ms) {
	int64_t limit_ms = (wait_ms > COMMAND_MS ? wait_ms : COMMAND_MS) + LATE_MS;
	int64_t took_ms = test_now_ms() - start_ms;
	if (took_ms > limit_ms + 4 * atomic_load(&stall_ms))
		note(worker, "%s for %lld ms took %lld ms and gave %s; the machine stalls %lld ms", what,
		        (long long)wait_ms, (long long)took_ms, sneck_err_name(r),
		        (long long)atomic_load(&stall_ms));
}

static void convert(struct worker *worker, int lock, sneck_hold *hold) {
	int64_t start_ms = test_now_ms();
	int r;
	if (sneck_hold_mode(hold) == SNECK_READ) {
		sneck_acquire_options options = test_waiting(rand_r(&worker->seed) % 200);
		r = sneck_upgrade(hold, &options, NULL);
		check_time(worker, "upgrade", r, start_ms, options.wait_ms);
	} else {
		r = sneck_downgrade(hold, NULL);
		check_time(worker, "downgrade", r, start_ms, 0);
	}
	worker->converted += r == 0;
	if (sneck_check(hold, 0))
		visit(worker, lock, hold, r == 0);
}

static void turn(struct worker *worker) {
	unsigned *seed = &worker->seed;
	int lock = rand_r(seed) % LOCKS;
	sneck_acquire_options options = test_waiting(rand_r(seed) % 3 ? rand_r(seed) % 600 : 0);
	options.fixed = rand_r(seed) % 5 == 0;
	options.lease_ms = (options.fixed ? 200 : 600) + rand_r(seed) % 800;
	options.policy = rand_r(seed) % 2 ? SNECK_POLICY_FAIR : SNECK_POLICY_PREFER_WRITERS;
	sneck_mode mode = rand_r(seed) % 2 ? SNECK_WRITE : SNECK_READ;
	sneck_hold *hold = NULL;
	int64_t start_ms = test_now_ms();
	int r = sneck_acquire(worker->client, names[lock], mode, &options, &hold, NULL);
	check_time(worker, "acquire", r, start_ms, options.wait_ms);
	if (r != 0) {
		worker->refused++;
		return;
	}
	worker->taken++;
	visit(worker, lock, hold, true);
	if (rand_r(seed) % 4 == 0)
		convert(worker, lock, hold);
	if (rand_r(seed) % 8 == 0) {
		start_ms = test_now_ms();
		r = sneck_renew(hold, 0, NULL);
		check_time(worker, "renew", r, start_ms, 0);
		visit(worker, lock, hold, false);
	}
	start_ms = test_now_ms();
	r = sneck_release(hold);
	check_time(worker, "release", r, start_ms, 0);
	worker->lost += r == SNECK_ELOST;
	if (r != 0 && r != SNECK_ELOST && r != SNECK_EUNKNOWN)
		note(worker, "release gave %s", sneck_err_name(r));
}

static void *work(void *arg) {
	struct worker *worker = arg;
	while (!atomic_load(&stop))
		turn(worker);
	return NULL;
}

/* ---- Trouble ----------------------------------------------------------------------------------*/

static void strike_line(struct test_proxy *proxy, unsigned *seed) {
	static const enum proxy_action actions[] = { PROXY_CUT_BEFORE, PROXY_HOLD, PROXY_CUT_AFTER,
		PROXY_DROP_CUT, PROXY_DROP_SILENT, PROXY_HOLD_REPLY };
	struct proxy_rule rule = { .class = PROXY_ANY, .nth = 1 + (unsigned)rand_r(seed) % 6 };
	switch (rand_r(seed) % 8) {
	case 0:
		test_proxy_cut_all(proxy);
		return;
	case 1:
		test_proxy_silence(proxy, rand_r(seed) % 2, rand_r(seed) % 2);
		return;
	case 2:
		test_proxy_delay(proxy, rand_r(seed) % 30);
		return;
	case 3:
		rule.action = PROXY_DROP;
		rule.class = PROXY_MESSAGE;
		test_proxy_arm(proxy, &rule);
		return;
	case 4:
		test_proxy_deliver(proxy);
		return;
	default:
		rule.action = actions[rand_r(seed) % (sizeof(actions) / sizeof(*actions))];
		if (rand_r(seed) % 2)
			rule.hold_ms = 50 + rand_r(seed) % 600;
		test_proxy_arm(proxy, &rule);
	}
}

static void strike_server(unsigned *seed) {
	switch (rand_r(seed) % 5) {
	case 0:
		test_redis_ok(server, "SCRIPT FLUSH");
		return;
	case 1:
		test_redis_ok(server, "CLIENT KILL TYPE normal SKIPME yes");
		return;
	case 2:
		test_redis_ok(server, "CLIENT KILL TYPE pubsub");
		return;
	case 3:
		test_redis_ok(server, "CLIENT PAUSE %d ALL", 20 + rand_r(seed) % 200);
		return;
	default:
		test_server_stopcont(server, true);
		pass_time(rand_r(seed) % 4 ? 20 + rand_r(seed) % 300 : 1000);
		test_server_stopcont(server, false);
	}
}

static void make_trouble(struct test_proxy *proxies, unsigned seed, int64_t until_ms) {
	while (!atomic_load(&stop) && test_now_ms() < until_ms) {
		struct test_proxy *proxy = &proxies[rand_r(&seed) % SESSIONS];
		pass_time(10 + rand_r(&seed) % 60);
		if (rand_r(&seed) % 3 == 0)
			test_proxy_calm(proxy);
		else if (rand_r(&seed) % 6 == 0)
			strike_server(&seed);
		else
			strike_line(proxy, &seed);
	}
}

static long env_number(const char *name, long otherwise) {
	const char *text = getenv(name);
	return text ? strtol(text, NULL, 10) : otherwise;
}

static void nobody_is_ever_two(void **state) {
	(void)state;
	unsigned seed = (unsigned)env_number("SNECK_CHAOS_SEED", (long)time(NULL));
	print_message("SNECK_CHAOS_SEED=%u\n", seed);
	struct test_proxy proxies[SESSIONS];
	sneck_client *clients[SESSIONS];
	struct worker workers[SESSIONS * THREADS];
	pthread_t threads[SESSIONS * THREADS], watcher;
	memset(workers, 0, sizeof(workers));
	for (int i = 0; i < LOCKS; i++)
		pthread_mutex_init(&witnesses[i].mutex, NULL);
	for (int i = 0; i < SESSIONS; i++) {
		test_proxy_start(&proxies[i], server->socket_path);
		clients[i] = test_open_command_ms(proxies[i].url, COMMAND_MS);
	}
	for (int i = 0; i < SESSIONS * THREADS; i++) {
		workers[i].client = clients[i % SESSIONS];
		workers[i].number = i;
		workers[i].seed = seed * 31 + (unsigned)i;
		assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
	}
	assert_int_equal(pthread_create(&watcher, NULL, watch_the_machine, NULL), 0);
	make_trouble(proxies, seed, test_now_ms() + env_number("SNECK_CHAOS_MS", 6000));
	atomic_store(&stop, true);
	for (int i = 0; i < SESSIONS; i++) {
		test_proxy_calm(&proxies[i]);
		test_proxy_deliver(&proxies[i]);
	}
	pthread_join(watcher, NULL);
	struct worker sum = { 0 };
	for (int i = 0; i < SESSIONS * THREADS; i++) {
		pthread_join(threads[i], NULL);
		if (workers[i].failure[0])
			print_error("worker %d: %s\n", i, workers[i].failure);
		sum.taken += workers[i].taken;
		sum.converted += workers[i].converted;
		sum.refused += workers[i].refused;
		sum.lost += workers[i].lost;
		if (workers[i].failure[0])
			memcpy(sum.failure, workers[i].failure, sizeof(sum.failure));
	}
	print_message("taken %ld, converted %ld, refused %ld, lost %ld\n", sum.taken, sum.converted,
	        sum.refused, sum.lost);
	for (int i = 0; i < SESSIONS; i++) {
		test_proxy_deliver(&proxies[i]);
		sneck_close(clients[i]);
		test_proxy_stop(&proxies[i]);
	}
	assert_string_equal(sum.failure, "");
	assert_true(sum.taken > 20);
	for (int i = 0; i < LOCKS; i++)
		/* A client that was cut off has left its place in the queue behind: that ends by itself. */
		assert_true(test_await_members(
		                    server, names[i], "RWrwul", 0, SNECK_WAITER_LEASE_MS + TEST_SLACK_MS) &&
		            test_is_idle(server, names[i]));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(nobody_is_ever_two),
	};
	return cmocka_run_group_tests(tests, test_server_up, test_server_down);
}
