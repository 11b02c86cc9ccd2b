/* SPDX-License-Identifier: MIT */
/* The command connection's turn-taking: who reads when, who is woken, and what a break leaves. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <hiredis/hiredis.h>

#include "base/clock.h"
#include "conn_rig.h"
#include "server.h"
#include "wait.h"

/* A caller on a thread of its own. */
struct caller {
	struct rig *rig;
	struct call call;
	int64_t ms;
	bool answered;
	int64_t took_ms;
	pthread_t thread;
};

static void *run_caller(void *arg) {
	struct caller *caller = arg;
	int64_t before_ms = test_now_ms();
	caller->answered = call_run(caller->rig, &caller->call, caller->ms);
	caller->took_ms = test_now_ms() - before_ms;
	return NULL;
}

static void caller_start(struct caller *caller, struct rig *rig, const char *line, int64_t ms) {
	memset(caller, 0, sizeof(*caller));
	caller->rig = rig;
	caller->ms = ms;
	call_init(&caller->call, line);
	assert_int_equal(pthread_create(&caller->thread, NULL, run_caller, caller), 0);
}

static bool is_polling(struct caller *caller) {
	bool polling = atomic_load(&caller->call.parker.state) & PARKER_POLLING;
	return polling;
}

static bool is_parked(struct caller *caller) {
	bool parked = atomic_load(&caller->call.parker.state) & (PARKER_PARKED | PARKER_TOGETHER);
	return parked;
}

/* The leader runs out of time while another waits: that one leads and gets its answer. */
static void test_role_is_passed_on(void **state) {
	struct test_server *server = *state;
	struct rig rig;
	struct caller leader, follower;
	rig_start(&rig, server->url, &(struct rig_options){ .command_ms = 20000 });
	rig_integer(&rig, "INCR pass");
	test_server_stopcont(server, true);
	caller_start(&leader, &rig, "INCRBY pass 10", 100);
	assert_true(WAIT_UNTIL(is_polling(&leader), 5000));
	caller_start(&follower, &rig, "INCRBY pass 100", 20000);
	assert_true(WAIT_UNTIL(is_parked(&follower), 5000));
	pthread_join(leader.thread, NULL);
	assert_false(leader.answered);
	assert_in_range(leader.took_ms, 95, 5000);
	assert_true(WAIT_UNTIL(is_polling(&follower), 5000));
	test_server_stopcont(server, false);
	pthread_join(follower.thread, NULL);
	assert_true(follower.answered);
	assert_int_equal(follower.call.integer, 111);
	assert_true(atomic_load(&leader.call.finished));
	assert_int_equal(leader.call.integer, 11);
	call_done(&leader.call);
	call_done(&follower.call);
	rig_stop(&rig);
}

/* What the leader waits for comes from elsewhere (a message): its poll ends at once, and the one who
 * followed reads on. */
static void test_wake_ends_the_poll(void **state) {
	struct test_server *server = *state;
	struct rig rig;
	struct caller leader, follower;
	rig_start(&rig, server->url, &(struct rig_options){ .command_ms = 20000 });
	rig_integer(&rig, "INCR wake");
	test_server_stopcont(server, true);
	caller_start(&leader, &rig, "INCRBY wake 10", 20000);
	assert_true(WAIT_UNTIL(is_polling(&leader), 5000));
	caller_start(&follower, &rig, "INCRBY wake 100", 20000);
	assert_true(WAIT_UNTIL(is_parked(&follower), 5000));
	snecki_parker_wake(&leader.call.parker);
	pthread_join(leader.thread, NULL);
	assert_true(leader.answered);
	assert_false(atomic_load(&leader.call.finished));
	assert_true(leader.took_ms < 10000);
	/* The parker goes away, its request stays. */
	assert_true(snecki_conn_orphan(rig.conn, &leader.call.req));
	assert_true(WAIT_UNTIL(is_polling(&follower), 5000));
	test_server_stopcont(server, false);
	pthread_join(follower.thread, NULL);
	assert_int_equal(follower.call.integer, 111);
	assert_true(atomic_load(&leader.call.finished));
	/* Completed: too late to give it up. */
	assert_false(snecki_conn_orphan(rig.conn, &leader.call.req));
	call_done(&leader.call);
	call_done(&follower.call);
	rig_stop(&rig);
}

/* The same when the one that is woken only follows. */
static void test_wake_of_a_follower(void **state) {
	struct test_server *server = *state;
	struct rig rig;
	struct caller leader, follower;
	rig_start(&rig, server->url, &(struct rig_options){ .command_ms = 20000 });
	rig_integer(&rig, "INCR wake2");
	test_server_stopcont(server, true);
	caller_start(&leader, &rig, "INCRBY wake2 10", 20000);
	assert_true(WAIT_UNTIL(is_polling(&leader), 5000));
	caller_start(&follower, &rig, "INCRBY wake2 100", 20000);
	assert_true(WAIT_UNTIL(is_parked(&follower), 5000));
	snecki_parker_wake(&follower.call.parker);
	pthread_join(follower.thread, NULL);
	assert_true(follower.answered);
	snecki_conn_orphan_all(rig.conn, &follower.call.parker);
	assert_int_equal(follower.call.parker.inflight, 0);
	test_server_stopcont(server, false);
	pthread_join(leader.thread, NULL);
	assert_int_equal(leader.call.integer, 11);
	assert_true(WAIT_UNTIL(atomic_load(&follower.call.finished), 5000));
	call_done(&leader.call);
	call_done(&follower.call);
	rig_stop(&rig);
}

/* A request in the name of a thread that is parked without one: it leads although it submitted
 * nothing itself. */
static void *run_parked(void *arg) {
	struct caller *caller = arg;
	caller->answered = snecki_conn_park(
	        caller->rig->conn, &caller->call.parker, snecki_after_ms(snecki_now_ns(), caller->ms));
	return NULL;
}

static void test_submit_for_a_parked_thread(void **state) {
	struct test_server *server = *state;
	struct rig rig;
	rig_start(&rig, server->url, NULL);
	rig_integer(&rig, "INCR other");
	for (int i = 0; i < 100; i++) {
		struct caller caller = { .rig = &rig, .ms = 10000 };
		call_init(&caller.call, "INCR other");
		assert_int_equal(pthread_create(&caller.thread, NULL, run_parked, &caller), 0);
		if (i % 2)
			assert_true(WAIT_UNTIL(is_parked(&caller), 5000));
		caller.call.req.parker = &caller.call.parker;
		snecki_conn_submit(rig.conn, &caller.call.req);
		pthread_join(caller.thread, NULL);
		assert_true(caller.answered);
		assert_int_equal(caller.call.integer, i + 2);
		call_done(&caller.call);
	}
	rig_stop(&rig);
}

/* done() submits the next request, many times over, from whichever thread reads. */
struct chain {
	struct req req;
	struct rig *rig;
	struct parker *waits; /* woken at the end */
	int left;
	long long last;
	atomic_bool finished;
};

static void chain_next(struct req *req, enum req_status status, const struct redisReply *reply,
        const struct sneck_error *error) {
	struct chain *chain = (struct chain *)(void *)((char *)req - offsetof(struct chain, req));
	(void)error;
	if (status != REQ_REPLY || reply->integer != chain->last + 1)
		chain->left = 0;
	else
		chain->last++;
	if (chain->left-- > 0) {
		snecki_conn_submit(chain->rig->conn, req);
		return;
	}
	struct parker *waits = chain->waits;
	atomic_store(&chain->finished, true);
	if (waits)
		snecki_parker_wake(waits);
}

static void run_chain(struct rig *rig, const char *key, bool with_parker) {
	struct parker parker;
	struct chain chain = { .rig = rig, .left = 500 };
	snecki_parker_init(&parker);
	snecki_buf_resp_array(&chain.req.bytes, 2);
	snecki_buf_resp_str(&chain.req.bytes, "INCR");
	snecki_buf_resp_str(&chain.req.bytes, key);
	chain.req.done = chain_next;
	if (with_parker)
		chain.req.parker = chain.waits = &parker;
	snecki_conn_submit(rig->conn, &chain.req);
	if (with_parker)
		assert_true(snecki_conn_park(rig->conn, &parker, snecki_after_ms(snecki_now_ns(), 20000)));
	else
		assert_true(WAIT_UNTIL(atomic_load(&chain.finished), 20000));
	assert_int_equal(chain.last, 501);
	snecki_buf_done(&chain.req.bytes);
	snecki_parker_done(&parker);
}

static void test_submit_from_done(void **state) {
	struct test_server *server = *state;
	struct rig rig;
	rig_start(&rig, server->url, NULL);
	run_chain(&rig, "chain1", true);
	run_chain(&rig, "chain2", false);
	rig_stop(&rig);
}

/* A server that says more than it was asked: the connection cannot be trusted any more. */
static void test_unasked_reply(void **state) {
	struct test_server *server = *state;
	struct rig rig;
	struct call call;
	rig_start(&rig, server->url, NULL);
	call_init(&call, "SUBSCRIBE one two"); /* two replies to one request */
	assert_true(call_run(&rig, &call, 5000));
	call_done(&call);
	/* The next request may be matched with the reply that is too many, or not be sent at all; the
	 * connection is given up in either case. */
	call_init(&call, "PING");
	assert_true(call_run(&rig, &call, 5000));
	call_done(&call);
	assert_true(WAIT_UNTIL(atomic_load(&rig.downs) >= 1, 5000));
	assert_int_equal(rig_integer(&rig, "INCR unasked"), 1);
	rig_stop(&rig);
}

/* Broken with a full socket: what had begun to leave is unknown, what had not is not sent. */
static void test_break_with_unsent_requests(void **state) {
	struct test_server *server = *state;
	enum { N = 20, SIZE = 500000 };
	struct rig rig;
	struct call *calls = calloc(N, sizeof(*calls));
	char *data = calloc(1, SIZE);
	rig_start(&rig, server->url, &(struct rig_options){ .command_ms = 20000 });
	rig_integer(&rig, "INCR unsent");
	test_server_stopcont(server, true);
	for (int i = 0; i < N; i++) {
		call_init(&calls[i], "");
		snecki_buf_clear(&calls[i].req.bytes);
		snecki_buf_resp_array(&calls[i].req.bytes, 2);
		snecki_buf_resp_str(&calls[i].req.bytes, "ECHO");
		snecki_buf_resp_bulk(&calls[i].req.bytes, data, SIZE);
		snecki_conn_submit(rig.conn, &calls[i].req);
	}
	snecki_conn_break(rig.conn, "the test says so");
	assert_true(WAIT_UNTIL(atomic_load(&calls[N - 1].finished), 5000));
	assert_int_equal(calls[0].status, REQ_UNKNOWN);
	assert_true(calls[0].req.sent_ns > 0);
	assert_int_equal(calls[N - 1].status, REQ_NOT_SENT);
	for (int i = 0; i < N; i++) {
		assert_true(atomic_load(&calls[i].finished));
		assert_int_equal(calls[i].order, calls[0].order + i);
		if (calls[i].status == REQ_NOT_SENT) {
			assert_int_equal(calls[i].req.sent_ns, 0);
			assert_true(i == N - 1 || calls[i + 1].status == REQ_NOT_SENT);
		}
		call_done(&calls[i]);
	}
	test_server_stopcont(server, false);
	rig_stop(&rig);
	free(calls);
	free(data);
}

static void ignore_signal(int number) {
	(void)number;
}

static void *run_many(void *arg) {
	struct caller *caller = arg;
	for (int i = 0; i < 2000; i++) {
		struct call call;
		call_init(&call, "INCR signals");
		if (!call_run(caller->rig, &call, 20000) || call.status != REQ_REPLY)
			caller->answered = false;
		call_done(&call);
	}
	return NULL;
}

/* System calls are interrupted a thousand times a second. */
static void test_signals(void **state) {
	struct test_server *server = *state;
	struct rig rig;
	struct caller callers[4];
	struct sigaction action = { .sa_handler = ignore_signal }, before;
	struct itimerval timer = { { 0, 1000 }, { 0, 1000 } }, off = { 0 };
	sigaction(SIGALRM, &action, &before);
	rig_start(&rig, server->url, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
	for (int i = 0; i < 4; i++) {
		callers[i] = (struct caller){ .rig = &rig, .answered = true };
		assert_int_equal(pthread_create(&callers[i].thread, NULL, run_many, &callers[i]), 0);
	}
	for (int i = 0; i < 4; i++) {
		pthread_join(callers[i].thread, NULL);
		assert_true(callers[i].answered);
	}
	setitimer(ITIMER_REAL, &off, NULL);
	assert_int_equal(test_redis_int(server, "GET signals"), 8000);
	assert_int_equal(atomic_load(&rig.downs), 0);
	rig_stop(&rig);
	sigaction(SIGALRM, &before, NULL);
}

/* A forked child closes its copies; the parent's connections do not notice. */
static void test_fork(void **state) {
	struct test_server *server = *state;
	struct rig rig;
	rig_start(&rig, server->url, &(struct rig_options){ .channel = "fork" });
	snecki_sub_want(rig.sub);
	assert_true(WAIT_UNTIL(atomic_load(&rig.readies) == 1, 5000));
	assert_int_equal(rig_integer(&rig, "INCR fork"), 1);
	pid_t pid = fork();
	if (pid == 0) {
		snecki_conn_abandon(rig.conn);
		snecki_sub_abandon(rig.sub);
		_exit(0);
	}
	int status = -1;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	for (int i = 2; i < 100; i++)
		assert_int_equal(rig_integer(&rig, "INCR fork"), i);
	assert_int_equal(test_redis_int(server, "PUBLISH fork x"), 1);
	assert_true(WAIT_UNTIL(atomic_load(&rig.messages) == 1, 5000));
	assert_int_equal(atomic_load(&rig.downs), 0);
	assert_int_equal(atomic_load(&rig.sub_downs), 0);
	rig_stop(&rig);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_role_is_passed_on),
		cmocka_unit_test(test_wake_ends_the_poll),
		cmocka_unit_test(test_wake_of_a_follower),
		cmocka_unit_test(test_submit_for_a_parked_thread),
		cmocka_unit_test(test_submit_from_done),
		cmocka_unit_test(test_unasked_reply),
		cmocka_unit_test(test_break_with_unsent_requests),
		cmocka_unit_test(test_signals),
		cmocka_unit_test(test_fork),
	};
	return cmocka_run_group_tests(tests, rig_server_up, rig_server_down);
}
