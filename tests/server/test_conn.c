/* SPDX-License-Identifier: MIT */
/* The command connection against real servers: order, sharing by many threads, breaks, silence. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <hiredis/hiredis.h>

#include "base/clock.h"
#include "conn_rig.h"
#include "server.h"
#include "wait.h"

static int last_code(struct rig *rig) {
	pthread_mutex_lock(&rig->mutex);
	int code = rig->why.code;
	pthread_mutex_unlock(&rig->mutex);
	return code;
}

static void test_lone_caller(void **state) {
	struct test_server *server = *state;
	struct rig rig;
	rig_start(&rig, server->url, NULL);
	for (int i = 1; i <= 1000; i++)
		assert_int_equal(rig_integer(&rig, "INCR lone"), i);
	assert_true(snecki_conn_is_up(rig.conn));
	assert_true(WAIT_UNTIL(atomic_load(&rig.ups) == 1, 2000));
	struct conn_counters counters;
	snecki_conn_counters(rig.conn, &counters);
	assert_int_equal(counters.commands, 1000);
	assert_int_equal(counters.connects, 1);
	assert_int_equal(counters.disconnects, 0);
	rig_stop(&rig);
}

/* Whoever hears of the connection can tell what was sent over it, however late that is heard. */
static void test_requests_are_not_older_than_their_connection(void **state) {
	struct test_server *server = *state;
	struct rig rig;
	struct call call;
	int64_t before_ns = snecki_now_ns();
	rig_start(&rig, server->url, NULL);
	call_init(&call, "INCR age");
	assert_true(call_run(&rig, &call, 10000));
	assert_true(WAIT_UNTIL(atomic_load(&rig.ups) == 1, 2000));
	assert_true(atomic_load(&rig.since_ns) >= before_ns);
	assert_true(call.req.sent_ns >= atomic_load(&rig.since_ns));
	call_done(&call);
	rig_stop(&rig);
}

/* A lone caller's traffic must not wake the background thread. */
static void test_lone_caller_leaves_background_asleep(void **state) {
	struct test_server *server = *state;
	struct rig rig;
	rig_start(&rig, server->url, NULL);
	rig_integer(&rig, "INCR asleep");
	assert_true(WAIT_UNTIL(atomic_load(&rig.ups) == 1, 2000));
	int before = atomic_load(&rig.rounds);
	for (int i = 0; i < 500; i++)
		rig_integer(&rig, "INCR asleep");
	assert_in_range(atomic_load(&rig.rounds) - before, 0, 5);
	rig_stop(&rig);
}

enum { THREADS = 64, PER_THREAD = 1000 };

struct worker {
	struct rig *rig;
	pthread_t thread;
	char line[32];
	long long seen[PER_THREAD];
};

static void *run_worker(void *arg) {
	struct worker *worker = arg;
	for (int i = 0; i < PER_THREAD; i++) {
		struct call call;
		call_init(&call, worker->line);
		worker->seen[i] = -1;
		if (call_run(worker->rig, &call, 20000) && call.status == REQ_REPLY)
			worker->seen[i] = call.integer;
		call_done(&call);
		if (worker->seen[i] < 0)
			break;
	}
	return NULL;
}

/* Each reply must reach its own caller: the values of a thread's own counter are 1, 2, 3… and those
 * of the shared one are each given out once and grow for each thread. */
static void many_threads(struct test_server *server, bool shared) {
	struct rig rig;
	struct worker *workers = calloc(THREADS, sizeof(*workers));
	bool *given = calloc(THREADS * PER_THREAD + 1, sizeof(*given));
	rig_start(&rig, server->url, NULL);
	for (int t = 0; t < THREADS; t++) {
		workers[t].rig = &rig;
		snprintf(workers[t].line, sizeof(workers[t].line), shared ? "INCR all" : "INCR own%d", t);
		assert_int_equal(pthread_create(&workers[t].thread, NULL, run_worker, &workers[t]), 0);
	}
	for (int t = 0; t < THREADS; t++)
		pthread_join(workers[t].thread, NULL);
	for (int t = 0; t < THREADS; t++) {
		long long last = 0;
		for (int i = 0; i < PER_THREAD; i++) {
			long long value = workers[t].seen[i];
			if (shared) {
				assert_in_range(value, last + 1, THREADS * PER_THREAD);
				assert_false(given[value]);
				given[value] = true;
			} else {
				assert_int_equal(value, last + 1);
			}
			last = value;
		}
	}
	struct conn_counters counters;
	snecki_conn_counters(rig.conn, &counters);
	assert_int_equal(counters.connects, 1);
	rig_stop(&rig);
	free(workers);
	free(given);
}

static void test_many_threads_own_counters(void **state) {
	many_threads(*state, false);
}

static void test_many_threads_one_counter(void **state) {
	many_threads(*state, true);
}

/* Requests that no thread waits for: the background thread reads them, in order. */
static void test_background_reads(void **state) {
	struct test_server *server = *state;
	enum { N = 300 };
	struct rig rig;
	struct call *calls = calloc(N, sizeof(*calls));
	rig_start(&rig, server->url, NULL);
	for (int i = 0; i < N; i++) {
		call_init(&calls[i], "INCR background");
		snecki_conn_submit(rig.conn, &calls[i].req);
	}
	assert_true(WAIT_UNTIL(atomic_load(&calls[N - 1].finished), 5000));
	for (int i = 0; i < N; i++) {
		assert_true(atomic_load(&calls[i].finished));
		assert_int_equal(calls[i].integer, i + 1);
		assert_int_equal(calls[i].order, calls[0].order + i);
		assert_true(calls[i].req.sent_ns > 0);
		call_done(&calls[i]);
	}
	rig_stop(&rig);
	free(calls);
}

/* A caller comes while the background thread reads: it takes the role over, nothing is lost. */
static void test_callers_and_background_together(void **state) {
	struct test_server *server = *state;
	enum { ROUNDS = 200, N = 8 };
	struct rig rig;
	struct call calls[N];
	rig_start(&rig, server->url, NULL);
	for (int round = 0; round < ROUNDS; round++) {
		for (int i = 0; i < N; i++) {
			call_init(&calls[i], "INCR mixed");
			snecki_conn_submit(rig.conn, &calls[i].req);
		}
		long long mine = rig_integer(&rig, "INCR mixed");
		assert_int_equal(mine, (round + 1) * (N + 1));
		for (int i = 0; i < N; i++) {
			assert_true(WAIT_UNTIL(atomic_load(&calls[i].finished), 5000));
			assert_int_equal(calls[i].integer, round * (N + 1) + i + 1);
			call_done(&calls[i]);
		}
	}
	rig_stop(&rig);
}

/* Replies larger than the socket's buffers, requests too: partial writes and reads. */
static void test_large_requests(void **state) {
	struct test_server *server = *state;
	enum { N = 40, SIZE = 700000 };
	struct rig rig;
	struct call *calls = calloc(N, sizeof(*calls));
	char *data = malloc(SIZE);
	memset(data, 'x', SIZE);
	rig_start(&rig, server->url, NULL);
	for (int i = 0; i < N; i++) {
		call_init(&calls[i], "");
		snecki_buf_clear(&calls[i].req.bytes);
		snecki_buf_resp_array(&calls[i].req.bytes, 3);
		snecki_buf_resp_str(&calls[i].req.bytes, "APPEND");
		snecki_buf_resp_str(&calls[i].req.bytes, "large");
		snecki_buf_resp_bulk(&calls[i].req.bytes, data, SIZE);
		snecki_conn_submit(rig.conn, &calls[i].req);
	}
	for (int i = 0; i < N; i++) {
		assert_true(WAIT_UNTIL(atomic_load(&calls[i].finished), 10000));
		assert_int_equal(calls[i].status, REQ_REPLY);
		assert_int_equal(calls[i].integer, (long long)SIZE * (i + 1));
	}
	/* 28 MB in one reply is no lock's: the connection is closed for it. */
	struct call get;
	call_init(&get, "GET large");
	assert_true(call_run(&rig, &get, 10000));
	assert_int_equal(get.status, REQ_UNKNOWN);
	assert_int_equal(get.code, SNECK_ECONN);
	call_done(&get);
	for (int i = 0; i < N; i++)
		call_done(&calls[i]);
	test_redis_ok(server, "DEL large");
	assert_int_equal(rig_integer(&rig, "INCR after-large"), 1);
	rig_stop(&rig);
	free(calls);
	free(data);
}

/* A caller that gives up leaves its request in line; the next caller gets its own reply. */
static void test_impatient_caller(void **state) {
	struct test_server *server = *state;
	struct rig rig;
	struct call slow, next;
	rig_start(&rig, server->url, NULL);
	assert_int_equal(rig_integer(&rig, "INCR impatient"), 1);
	call_init(&slow, "INCRBY impatient 10");
	test_server_stopcont(server, true);
	assert_false(call_run(&rig, &slow, 30));
	assert_false(atomic_load(&slow.finished));
	test_server_stopcont(server, false);
	call_init(&next, "INCRBY impatient 100");
	assert_true(call_run(&rig, &next, 5000));
	assert_int_equal(next.status, REQ_REPLY);
	assert_int_equal(next.integer, 111);
	assert_true(atomic_load(&slow.finished));
	assert_int_equal(slow.status, REQ_REPLY);
	assert_int_equal(slow.integer, 11);
	assert_true(slow.order < next.order);
	assert_int_equal(atomic_load(&rig.downs), 0);
	call_done(&slow);
	call_done(&next);
	rig_stop(&rig);
}

/* Nobody comes after the impatient caller: the background thread drops the late reply. */
static void test_orphan_is_read_by_background(void **state) {
	struct test_server *server = *state;
	struct rig rig;
	struct call slow;
	rig_start(&rig, server->url, NULL);
	rig_integer(&rig, "INCR orphan");
	call_init(&slow, "INCRBY orphan 10");
	test_server_stopcont(server, true);
	assert_false(call_run(&rig, &slow, 30));
	test_server_stopcont(server, false);
	assert_true(WAIT_UNTIL(atomic_load(&slow.finished), 5000));
	assert_int_equal(slow.status, REQ_REPLY);
	assert_int_equal(slow.integer, 11);
	call_done(&slow);
	rig_stop(&rig);
}

/* A server that keeps the connection and says nothing: broken after the command time. */
static void silent_server(struct test_server *server, bool with_parker) {
	struct rig rig;
	struct call call;
	rig_start(&rig, server->url, &(struct rig_options){ .command_ms = 200 });
	rig_integer(&rig, "INCR silent");
	call_init(&call, "INCR silent");
	test_server_stopcont(server, true);
	int64_t before_ms = test_now_ms();
	if (with_parker) {
		assert_true(call_run(&rig, &call, 5000));
	} else {
		snecki_conn_submit(rig.conn, &call.req);
		assert_true(WAIT_UNTIL(atomic_load(&call.finished), 5000));
	}
	assert_in_range(test_now_ms() - before_ms, 195, 2500);
	assert_int_equal(call.status, REQ_UNKNOWN);
	assert_int_equal(call.code, SNECK_ECONN);
	assert_non_null(strstr(call.text, "200 ms"));
	assert_true(WAIT_UNTIL(atomic_load(&rig.downs) == 1, 2000));
	assert_int_equal(last_code(&rig), SNECK_ECONN);
	test_server_stopcont(server, false);
	/* On a new connection, at once. */
	assert_true(rig_integer(&rig, "INCR silent") >= 2);
	assert_true(WAIT_UNTIL(atomic_load(&rig.ups) == 2, 2000));
	call_done(&call);
	rig_stop(&rig);
}

static void test_silent_server_noticed_by_leader(void **state) {
	silent_server(*state, true);
}

static void test_silent_server_noticed_by_background(void **state) {
	silent_server(*state, false);
}

/* The leader gives up before the silence is too long: the background thread goes on watching. */
static void test_silence_outlasts_the_leader(void **state) {
	struct test_server *server = *state;
	struct rig rig;
	struct call call;
	rig_start(&rig, server->url, &(struct rig_options){ .command_ms = 200 });
	rig_integer(&rig, "INCR outlast");
	call_init(&call, "INCR outlast");
	test_server_stopcont(server, true);
	assert_false(call_run(&rig, &call, 50));
	assert_true(WAIT_UNTIL(atomic_load(&call.finished), 5000));
	assert_int_equal(call.status, REQ_UNKNOWN);
	test_server_stopcont(server, false);
	call_done(&call);
	rig_stop(&rig);
}

/* The server hangs up on an idle connection: noticed without anybody's asking. */
static void test_client_kill_idle(void **state) {
	struct test_server *server = *state;
	struct rig rig;
	rig_start(&rig, server->url, NULL);
	rig_integer(&rig, "INCR kill");
	test_redis_ok(server, "CLIENT KILL TYPE normal");
	assert_true(WAIT_UNTIL(atomic_load(&rig.downs) == 1, 5000));
	assert_int_equal(last_code(&rig), SNECK_ECONN);
	assert_false(snecki_conn_is_up(rig.conn));
	assert_int_equal(rig_integer(&rig, "INCR kill"), 2);
	rig_stop(&rig);
}

struct storm {
	struct rig *rig;
	atomic_bool stop;
	atomic_int replies, unknown, not_sent;
	pthread_t thread;
};

static void *run_storm(void *arg) {
	struct storm *storm = arg;
	while (!atomic_load(&storm->stop)) {
		struct call call;
		call_init(&call, "INCR storm");
		if (call_run(storm->rig, &call, 20000)) {
			atomic_int *counter = call.status == REQ_REPLY     ? &storm->replies
			                      : call.status == REQ_UNKNOWN ? &storm->unknown
			                                                   : &storm->not_sent;
			atomic_fetch_add(counter, 1);
		}
		call_done(&call);
	}
	return NULL;
}

static int sum(struct storm *storms, int n, size_t offset) {
	int total = 0;
	for (int i = 0; i < n; i++)
		total += atomic_load((atomic_int *)(void *)((char *)&storms[i] + offset));
	return total;
}
#define SUM(storms, n, field) sum(storms, n, offsetof(struct storm, field))

/* Connections killed under load, again and again: everybody gets an end, and the counter lies between
 * what was answered and what may have been executed. */
static void test_client_kill_under_load(void **state) {
	struct test_server *server = *state;
	enum { N = 16, KILLS = 20 };
	struct rig rig;
	struct storm storms[N] = { 0 };
	test_redis_ok(server, "DEL storm");
	rig_start(&rig, server->url, NULL);
	for (int i = 0; i < N; i++) {
		storms[i].rig = &rig;
		assert_int_equal(pthread_create(&storms[i].thread, NULL, run_storm, &storms[i]), 0);
	}
	for (int k = 0; k < KILLS; k++) {
		int seen = SUM(storms, N, replies);
		assert_true(WAIT_UNTIL(SUM(storms, N, replies) > seen + 200, 10000));
		test_redis_ok(server, "CLIENT KILL TYPE normal");
	}
	for (int i = 0; i < N; i++)
		atomic_store(&storms[i].stop, true);
	for (int i = 0; i < N; i++)
		pthread_join(storms[i].thread, NULL);
	long long value = test_redis_int(server, "GET storm");
	int replies = SUM(storms, N, replies), unknown = SUM(storms, N, unknown);
	assert_in_range(value, replies, replies + unknown);
	struct conn_counters counters;
	snecki_conn_counters(rig.conn, &counters);
	assert_in_range(counters.disconnects, 2, KILLS);
	rig_stop(&rig);
}

/* kill -9 with requests in flight, then a new server. */
static void test_server_killed_mid_flight(void **state) {
	struct test_server *server = *state;
	struct rig rig;
	struct call call, later;
	rig_start(&rig, server->url, NULL);
	rig_integer(&rig, "INCR killed");
	test_server_stopcont(server, true);
	call_init(&call, "INCR killed");
	snecki_conn_submit(rig.conn, &call.req);
	test_server_kill9(server);
	assert_true(WAIT_UNTIL(atomic_load(&call.finished), 5000));
	assert_int_equal(call.status, REQ_UNKNOWN);
	/* Nobody listens: a request that waits for a connection fails with it. */
	call_init(&later, "INCR killed");
	assert_true(call_run(&rig, &later, 5000));
	assert_int_equal(later.status, REQ_NOT_SENT);
	assert_int_equal(later.code, SNECK_ECONN);
	assert_int_equal(later.req.sent_ns, 0);
	assert_int_equal(test_server_restart(server), 0);
	assert_int_equal(rig_integer(&rig, "INCR killed"), 1);
	call_done(&call);
	call_done(&later);
	rig_stop(&rig);
}

static void test_refused_fails_fast(void **state) {
	struct test_server *server = *state;
	enum { N = 10 };
	struct rig rig;
	struct call calls[N];
	char url[160];
	snprintf(url, sizeof(url), "unix://%s/nobody", server->dir);
	rig_start(&rig, url, NULL);
	int64_t before_ms = test_now_ms();
	for (int i = 0; i < N; i++) {
		call_init(&calls[i], "PING");
		snecki_conn_submit(rig.conn, &calls[i].req);
	}
	for (int i = 0; i < N; i++) {
		assert_true(WAIT_UNTIL(atomic_load(&calls[i].finished), 5000));
		assert_int_equal(calls[i].status, REQ_NOT_SENT);
		assert_int_equal(calls[i].code, SNECK_ECONN);
		assert_non_null(strstr(calls[i].text, "no such file; is the server running?"));
		assert_true(i == 0 || calls[i].order > calls[i - 1].order);
		call_done(&calls[i]);
	}
	assert_true(test_now_ms() - before_ms < 1000);
	rig_stop(&rig);
}

/* A request that still waits for a connection can be taken back; one that was sent cannot. */
static void test_withdraw(void **state) {
	struct test_server *server = *state;
	struct rig rig;
	struct call first, second, sent;
	char url[160];
	snprintf(url, sizeof(url), "unix://%s/nobody", server->dir);
	rig_start(&rig, url, NULL);
	call_init(&first, "PING");
	assert_true(call_run(&rig, &first, 5000));
	/* A pause follows the failed attempt. */
	call_init(&second, "PING");
	snecki_conn_submit(rig.conn, &second.req);
	assert_true(snecki_conn_withdraw(rig.conn, &second.req));
	assert_false(snecki_conn_withdraw(rig.conn, &second.req));
	rig_stop(&rig);
	assert_false(atomic_load(&second.finished));
	call_done(&first);
	call_done(&second);

	rig_start(&rig, server->url, NULL);
	rig_integer(&rig, "INCR withdraw");
	test_server_stopcont(server, true);
	call_init(&sent, "INCR withdraw");
	snecki_conn_submit(rig.conn, &sent.req);
	assert_false(snecki_conn_withdraw(rig.conn, &sent.req));
	test_server_stopcont(server, false);
	assert_true(WAIT_UNTIL(atomic_load(&sent.finished), 5000));
	assert_int_equal(sent.integer, 2);
	call_done(&sent);
	rig_stop(&rig);
}

static void test_break_by_hand(void **state) {
	struct test_server *server = *state;
	struct rig rig;
	struct call call;
	rig_start(&rig, server->url, NULL);
	rig_integer(&rig, "INCR break");
	test_server_stopcont(server, true);
	call_init(&call, "INCR break");
	snecki_conn_submit(rig.conn, &call.req);
	snecki_conn_break(rig.conn, "the test says so");
	assert_true(WAIT_UNTIL(atomic_load(&call.finished), 5000));
	assert_int_equal(call.status, REQ_UNKNOWN);
	assert_string_equal(call.text, "the test says so");
	test_server_stopcont(server, false);
	call_done(&call);
	rig_stop(&rig);
}

/* Freeing completes what is in line. */
static void test_free_completes(void **state) {
	struct test_server *server = *state;
	struct rig rig;
	struct call sent;
	rig_start(&rig, server->url, NULL);
	rig_integer(&rig, "INCR free");
	test_server_stopcont(server, true);
	call_init(&sent, "INCR free");
	snecki_conn_submit(rig.conn, &sent.req);
	rig_stop(&rig);
	assert_true(atomic_load(&sent.finished));
	assert_int_equal(sent.status, REQ_UNKNOWN);
	assert_int_equal(sent.code, SNECK_ECLOSED);
	call_done(&sent);
	test_server_stopcont(server, false);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lone_caller),
		cmocka_unit_test(test_requests_are_not_older_than_their_connection),
		cmocka_unit_test(test_lone_caller_leaves_background_asleep),
		cmocka_unit_test(test_many_threads_own_counters),
		cmocka_unit_test(test_many_threads_one_counter),
		cmocka_unit_test(test_background_reads),
		cmocka_unit_test(test_callers_and_background_together),
		cmocka_unit_test(test_large_requests),
		cmocka_unit_test(test_impatient_caller),
		cmocka_unit_test(test_orphan_is_read_by_background),
		cmocka_unit_test(test_silent_server_noticed_by_leader),
		cmocka_unit_test(test_silent_server_noticed_by_background),
		cmocka_unit_test(test_silence_outlasts_the_leader),
		cmocka_unit_test(test_client_kill_idle),
		cmocka_unit_test(test_client_kill_under_load),
		cmocka_unit_test(test_refused_fails_fast),
		cmocka_unit_test(test_withdraw),
		cmocka_unit_test(test_break_by_hand),
		cmocka_unit_test(test_free_completes),
		cmocka_unit_test(test_server_killed_mid_flight),
	};
	return cmocka_run_group_tests(tests, rig_server_up_tcp, rig_server_down);
}
