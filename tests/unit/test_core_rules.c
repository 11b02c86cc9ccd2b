/* SPDX-License-Identifier: MIT */
/* Rules of the lock core that need a clock of their own: how often and how long a wanted lock is passed
 * on within the session, which numbers may be used for that, what a jump of the server's clock does,
 * and what becomes of an answer that took longer than the lease. The test is the server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <sneck/error.h>

#include "base/clock.h"
#include "lock/core.h"

enum { CALLS_MAX = 128, WISHES = 48, LEASE = 30000 };

#define MS (NS_PER_MS)
#define START_NS (INT64_C(1000000) * MS)
#define SERVER_US INT64_C(1700000000000000)

static struct rig {
	struct lock_core *core;
	struct lock_call *calls[CALLS_MAX]; /* sent, not answered */
	int calls_n;
	int64_t now_ns;
	struct lock_wish wishes[WISHES];
	struct lock_hold holds[WISHES];
	struct lock_wish releases[WISHES];
} rig;

static void on_send(void *ctx, struct lock_call *call, const char *name, size_t name_len) {
	(void)ctx;
	(void)name;
	(void)name_len;
	assert_true(rig.calls_n < CALLS_MAX);
	rig.calls[rig.calls_n++] = call;
}

static void on_complete(void *ctx, struct lock_wish *wish) {
	(void)ctx;
	(void)wish;
}

static void on_state(void *ctx, struct lock_hold *hold) {
	(void)ctx;
	(void)hold;
}

static void on_own_id(void *ctx, char mode, uint64_t attempt, char ret_id[LOCK_ID_MAX]) {
	(void)ctx;
	(void)attempt;
	memset(ret_id, 0, LOCK_ID_MAX);
	ret_id[0] = mode;
}

static const struct lock_hooks hooks = { on_send, on_complete, on_state, on_own_id };

static int set_up(void **state) {
	(void)state;
	const struct lock_core_config config = {
		.hooks = &hooks,
		.session = "me",
		.wait_lease_ms = 3000,
		.beat_ms = 1000,
		.seed = 1,
	};
	memset(&rig, 0, sizeof rig);
	rig.now_ns = START_NS;
	return snecki_core_new(&config, &rig.core);
}

static int tear_down(void **state) {
	(void)state;
	snecki_core_close(rig.core, rig.now_ns);
	while (rig.calls_n > 0) {
		struct lock_outcome outcome = { .status = LOCK_DONE };
		snecki_core_reply(rig.core, rig.calls[--rig.calls_n], &outcome, NULL, 0, rig.now_ns);
	}
	assert_true(snecki_core_idle(rig.core));
	snecki_core_free(rig.core);
	return 0;
}

/* ---- The server's part ------------------------------------------------------------------------*/

/* Its clock shows this now, if it has not jumped. */
static int64_t server_us(void) {
	return SERVER_US + (rig.now_ns - START_NS) / 1000;
}

/* The oldest unanswered call, which must be of this kind. */
static struct lock_call *take_call(enum lock_op_kind kind) {
	assert_true(rig.calls_n > 0);
	struct lock_call *call = rig.calls[0];
	assert_int_equal(call->op.kind, kind);
	memmove(rig.calls, rig.calls + 1, (size_t)--rig.calls_n * sizeof rig.calls[0]);
	return call;
}

/* It is released on the server; the last number that was used here. */
static uint64_t take_release(void) {
	struct lock_call *call = take_call(OP_RELEASE);
	struct lock_outcome outcome = { .status = LOCK_DONE, .server_us = server_us() };
	uint64_t used = call->op.last_token;
	snecki_core_reply(rig.core, call, &outcome, NULL, rig.now_ns, rig.now_ns);
	return used;
}

static void grant_at(struct lock_call *call, uint64_t token, int64_t ahead_us, int64_t sent_ns) {
	int64_t us = server_us() + ahead_us;
	struct lock_outcome outcome = {
		.status = LOCK_GRANTED,
		.token = token,
		.server_us = us,
		.deadline_ms = us / 1000 + call->op.lease_ms,
	};
	snecki_core_reply(rig.core, call, &outcome, NULL, sent_ns, rig.now_ns);
}

static void grant(struct lock_call *call, uint64_t token) {
	grant_at(call, token, 0, rig.now_ns);
}

/* ---- The program's part -----------------------------------------------------------------------*/

static struct lock_wish *wish_for(int i, const char *name) {
	rig.wishes[i] = (struct lock_wish){
		.kind = WISH_ACQUIRE,
		.mode = 'W',
		.owner = (uint64_t)i + 1,
		.lease_ms = LEASE,
		.hold = &rig.holds[i],
	};
	snecki_core_acquire(rig.core, name, strlen(name), &rig.wishes[i], rig.now_ns);
	return &rig.wishes[i];
}

static void release(int i) {
	rig.releases[i] = (struct lock_wish){ .kind = WISH_RELEASE, .hold = &rig.holds[i] };
	snecki_core_release(rig.core, &rig.releases[i], rig.now_ns);
}

static bool has(int i) {
	return rig.wishes[i].done && rig.wishes[i].code == 0;
}

/* The first of the wishes holds, the others wait for it. Returns the attempt. */
static uint64_t hold_and_line_up(uint64_t token) {
	wish_for(0, "door");
	struct lock_call *call = take_call(OP_ACQUIRE);
	uint64_t attempt = call->op.attempt;
	grant(call, token);
	assert_true(has(0));
	for (int i = 1; i < WISHES; i++)
		assert_false(wish_for(i, "door")->done);
	assert_int_equal(rig.calls_n, 0); /* they wait for their own session */
	return attempt;
}

static void want(uint64_t attempt) {
	struct lock_note note = { .kind = LOCK_NOTE_WANTED, .attempt = attempt };
	snecki_core_note(rig.core, &note, rig.now_ns);
}

/* ---- Passing on -------------------------------------------------------------------------------*/

static void unwanted_it_is_passed_on_to_the_last(void **state) {
	(void)state;
	hold_and_line_up((uint64_t)SERVER_US);
	for (int i = 0; i < WISHES - 1; i++) {
		release(i);
		assert_true(has(i + 1));
		assert_true(rig.holds[i + 1].token == (uint64_t)SERVER_US + (uint64_t)i + 1);
		rig.now_ns += MS;
	}
	assert_int_equal(rig.calls_n, 0);
	release(WISHES - 1);
	assert_true(take_release() == (uint64_t)SERVER_US + WISHES - 1);
}

static void wanted_it_is_passed_on_sixteen_times(void **state) {
	(void)state;
	want(hold_and_line_up((uint64_t)SERVER_US));
	int passed = 0;
	while (passed < WISHES - 1 && rig.calls_n == 0) {
		release(passed);
		passed += has(passed + 1);
	}
	assert_int_equal(passed, 16);
	take_release();
	assert_int_equal(rig.calls_n, 1); /* the next one here queues like everybody */
	assert_int_equal(rig.calls[0]->op.kind, OP_ACQUIRE);
}

static void wanted_it_is_passed_on_for_five_milliseconds(void **state) {
	(void)state;
	want(hold_and_line_up((uint64_t)SERVER_US));
	rig.now_ns += 4 * MS;
	release(0);
	assert_true(has(1));
	assert_int_equal(rig.calls_n, 0);
	rig.now_ns += MS;
	release(1);
	assert_false(has(2));
	take_release();
}

/* A number that the server could give out itself after this lease must not be used here. */
static void numbers_end_where_the_servers_begin(void **state) {
	(void)state;
	uint64_t end = (uint64_t)(SERVER_US / 1000 + LEASE) * 1000; /* the lease's end, in its numbers */
	hold_and_line_up(end - 2);
	release(0);
	assert_true(has(1));
	assert_true(rig.holds[1].token == end - 1);
	rig.now_ns += MS;
	release(1);
	assert_false(has(2));
	struct lock_call *call = take_call(OP_RENEW); /* it is told what was used, and the end moves on */
	assert_true(call->op.last_token == end - 1);
	grant(call, end - 1);
	assert_true(has(2));
	assert_true(rig.holds[2].token == end);
}

/* ---- Time -------------------------------------------------------------------------------------*/

static void jump(int64_t ahead_ms) {
	rig.now_ns += 1000 * MS;
	wish_for(1, "window");
	grant_at(take_call(OP_ACQUIRE), (uint64_t)SERVER_US, ahead_ms * 1000, rig.now_ns);
	release(1);
	take_release();
}

static void a_jump_of_the_servers_clock_is_suspect(void **state) {
	(void)state;
	wish_for(0, "door");
	grant(take_call(OP_ACQUIRE), (uint64_t)SERVER_US);
	int64_t valid_ns = snecki_hold_valid_until(&rig.holds[0]);
	assert_int_equal(valid_ns - START_NS, (LEASE - LEASE / 100) * MS);
	jump(200); /* within the margin, which is 300 ms */
	assert_int_equal(rig.holds[0].state, HOLD_HELD);
	assert_true(snecki_hold_valid_until(&rig.holds[0]) == valid_ns);
	jump(200 + 2000);
	assert_int_equal(rig.holds[0].state, HOLD_SUSPECT);
	/* Its lease on the server ends sooner by that much, and so does what is believed of it. */
	int64_t cut_ns = valid_ns - snecki_hold_valid_until(&rig.holds[0]);
	assert_true(cut_ns >= 2000 * MS && cut_ns <= 3000 * MS);
	assert_true(snecki_core_next_due(rig.core) <= rig.now_ns);
	snecki_core_run(rig.core, rig.now_ns);
	struct lock_call *call = take_call(OP_RENEW);
	grant_at(call, (uint64_t)SERVER_US, 2200 * 1000, rig.now_ns);
	assert_int_equal(rig.holds[0].state, HOLD_HELD);
	assert_int_equal(snecki_hold_valid_until(&rig.holds[0]) - rig.now_ns, (LEASE - LEASE / 100) * MS);
}

static void an_answer_after_the_lease_is_no_hold(void **state) {
	(void)state;
	wish_for(0, "door");
	struct lock_call *call = take_call(OP_ACQUIRE);
	uint64_t attempt = call->op.attempt;
	int64_t sent_ns = rig.now_ns;
	rig.now_ns += LEASE * MS;
	grant_at(call, (uint64_t)SERVER_US, -(int64_t)LEASE * 1000, sent_ns);
	assert_false(rig.wishes[0].done);
	/* Given back, and asked for anew under another name. */
	bool released = false, asked = false;
	for (int i = 0; i < rig.calls_n; i++) {
		const struct lock_op *op = &rig.calls[i]->op;
		released = released || (op->kind == OP_RELEASE && op->attempt == attempt);
		asked = asked || (op->kind == OP_ACQUIRE && op->attempt != attempt);
	}
	assert_true(released && asked);
}

#define RULE(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void) {
	const struct CMUnitTest tests[] = {
		RULE(unwanted_it_is_passed_on_to_the_last),
		RULE(wanted_it_is_passed_on_sixteen_times),
		RULE(wanted_it_is_passed_on_for_five_milliseconds),
		RULE(numbers_end_where_the_servers_begin),
		RULE(a_jump_of_the_servers_clock_is_suspect),
		RULE(an_answer_after_the_lease_is_no_hold),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
