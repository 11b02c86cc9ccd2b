/* SPDX-License-Identifier: MIT */
/* See bench.h. Requests are kept in the order they were made; each is answered by the test, later than any
 * event that made it. What is left at the end is freed, so that a leak is the core's. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>

#include "lock/private.h"

#define SERVER_EPOCH_US INT64_C(1700000000000000)

struct sent {
	struct list node;
	struct lock_call *call;
	int64_t sent_ns;
};

struct kept {
	struct deed *deed;
	struct kept *next;
};

struct whole {
	struct bench bench;
	struct kept *kept;
	struct list taken; /* looked at, not answered yet */
};

static const char *const kinds[OP_KINDS] = { "acquire", "beat", "release", "renew", "upgrade", "downgrade",
	"cancel", "advance", "rename", "linger" };

/* ---- Hooks --------------------------------------------------------------------------------------*/

static void on_send(void *ctx, struct lock_call *call, const char *name, size_t name_len) {
	struct bench *bench = ctx;
	struct sent *sent = calloc(1, sizeof *sent);

	(void)name;
	assert_true(name_len > 0);
	sent->call = call;
	sent->sent_ns = bench->now_ns;
	snecki_list_append(&bench->sent, &sent->node);
	bench->sent_n++;
}

static void on_complete(void *ctx, struct lock_wish *wish) {
	(void)ctx;
	assert_true(wish->done);
}

static void on_state(void *ctx, struct lock_hold *hold) {
	struct deed *deed = LIST_ITEM(hold, struct deed, hold);

	(void)ctx;
	deed->states++;
	deed->told = hold->state;
}

static void on_own_id(
        void *ctx, const struct lock_traits *layout, char mode, uint64_t attempt, char ret_id[LOCK_ID_MAX]) {
	(void)ctx;
	(void)layout;
	snprintf(ret_id, LOCK_ID_MAX, "%cme.%llu%s", mode, (unsigned long long)(attempt & ~LOCK_DETACHED),
	        attempt & LOCK_DETACHED ? "~" : "");
}

static void on_listen(void *ctx, const struct lock_traits *layout, const char *name, size_t name_len,
        uint64_t attempt, bool on) {
	struct bench *bench = ctx;
	(void)layout;
	(void)name;
	(void)name_len;
	(void)attempt;
	bench->listening += on ? 1 : -1;
}

static const struct lock_hooks hooks = { on_send, on_complete, on_state, on_own_id, on_listen };

/* ---- Set-up -------------------------------------------------------------------------------------*/

int bench_setup(void **state) {
	static const struct lock_traits everything = { 0 };

	return bench_setup_layout(state, &everything);
}

int bench_setup_layout(void **state, const struct lock_traits *traits) {
	struct whole *whole = calloc(1, sizeof *whole);
	struct lock_core_config config = { .hooks = &hooks,
		.ctx = &whole->bench,
		.session = "me",
		.wait_lease_ms = BENCH_WAIT_LEASE_MS,
		.beat_ms = BENCH_BEAT_MS,
		.handover_max = 16,
		.handover_ns = 5 * NS_PER_MS,
		.layout = traits };

	*state = whole;
	snecki_list_init(&whole->bench.sent);
	snecki_list_init(&whole->taken);
	whole->bench.now_ns = INT64_C(5000000000000);
	whole->bench.token = 100;
	return snecki_core_new(&config, &whole->bench.core);
}

static void free_sent(struct list *list) {
	LIST_EACH (at, list) {
		struct sent *sent = LIST_ITEM(at, struct sent, node);
		free(sent->call);
		free(sent);
	}
}

int bench_teardown(void **state) {
	struct whole *whole = *state;

	snecki_core_free(whole->bench.core);
	free_sent(&whole->bench.sent);
	free_sent(&whole->taken);
	while (whole->kept) {
		struct kept *next = whole->kept->next;
		free(whole->kept->deed);
		free(whole->kept);
		whole->kept = next;
	}
	free(whole);
	return 0;
}

struct bench *bench_of(void **state) {
	return &((struct whole *)*state)->bench;
}

static struct whole *whole_of(struct bench *bench) {
	return LIST_ITEM(bench, struct whole, bench);
}

/* ---- The program --------------------------------------------------------------------------------*/

struct deed *new_deed(struct bench *bench, uint64_t owner, char mode) {
	struct deed *deed = calloc(1, sizeof *deed);
	struct kept *kept = calloc(1, sizeof *kept);

	kept->deed = deed;
	kept->next = whole_of(bench)->kept;
	whole_of(bench)->kept = kept;
	deed->wish.kind = WISH_ACQUIRE;
	deed->wish.mode = mode;
	deed->wish.owner = owner;
	deed->wish.tag = owner;
	deed->wish.lease_ms = LEASE_MS;
	deed->wish.hold = &deed->hold;
	snecki_list_init(&deed->hold.in_grant);
	return deed;
}

void begin(struct bench *bench, struct deed *deed) {
	snecki_core_acquire(bench->core, "name", 4, &deed->wish, bench->now_ns);
}

struct deed *take(struct bench *bench, uint64_t owner, char mode) {
	struct deed *deed = new_deed(bench, owner, mode);

	begin(bench, deed);
	return deed;
}

struct deed *take_fixed(struct bench *bench, uint64_t owner, char mode, int64_t lease_ms) {
	struct deed *deed = new_deed(bench, owner, mode);

	deed->wish.fixed = true;
	deed->wish.lease_ms = lease_ms;
	begin(bench, deed);
	return deed;
}

struct deed *ask(struct bench *bench, enum wish_kind kind, struct deed *held) {
	struct deed *deed = new_deed(bench, held->hold.owner, held->hold.mode);
	static void (*const calls[])(struct lock_core *, struct lock_wish *, int64_t) = {
		[WISH_UPGRADE] = snecki_core_upgrade,
		[WISH_RELEASE] = snecki_core_release,
		[WISH_RENEW] = snecki_core_renew,
		[WISH_DOWNGRADE] = snecki_core_downgrade,
		[WISH_DETACH] = snecki_core_detach,
	};

	deed->wish.kind = kind;
	deed->wish.hold = &held->hold;
	deed->wish.lease_ms = held->hold.lease_ms;
	calls[kind](bench->core, &deed->wish, bench->now_ns);
	return deed;
}

struct deed *adopt(struct bench *bench, uint64_t owner, const char *id) {
	struct deed *deed = new_deed(bench, owner, id[0]);

	deed->wish.kind = WISH_ADOPT;
	strcpy(deed->wish.id, id);
	snecki_core_adopt(bench->core, "name", 4, &deed->wish, bench->now_ns);
	return deed;
}

int code_of(const struct deed *deed) {
	return deed->wish.done ? deed->wish.code : 1;
}

bool has(const struct deed *deed) {
	return code_of(deed) == 0 && snecki_hold_valid_until(deed->wish.hold) > 0;
}

void give_up(struct bench *bench, struct deed *deed, int code) {
	snecki_core_give_up(bench->core, &deed->wish, code, bench->now_ns);
}

/* ---- The server ---------------------------------------------------------------------------------*/

struct lock_call *expect(struct bench *bench, enum lock_op_kind kind) {
	if (snecki_list_empty(&bench->sent))
		fail_msg("no request was sent; expected: %s", kinds[kind]);
	struct sent *sent = LIST_ITEM(bench->sent.next, struct sent, node);
	if (sent->call->op.kind != kind)
		fail_msg("%s was sent; expected: %s", kinds[sent->call->op.kind], kinds[kind]);
	snecki_list_remove(&sent->node);
	snecki_list_append(&whole_of(bench)->taken, &sent->node);
	return sent->call;
}

void expect_silence(const struct bench *bench) {
	if (!snecki_list_empty(&bench->sent))
		fail_msg("%s was sent; nothing was expected",
		        kinds[LIST_ITEM(bench->sent.next, struct sent, node)->call->op.kind]);
}

static int64_t forget_sent(struct bench *bench, struct lock_call *call) {
	LIST_EACH (at, &whole_of(bench)->taken) {
		struct sent *sent = LIST_ITEM(at, struct sent, node);
		if (sent->call != call)
			continue;
		int64_t sent_ns = sent->sent_ns;
		snecki_list_remove(at);
		free(sent);
		return sent_ns;
	}
	fail_msg("answered twice, or never expected");
	return 0;
}

struct lock_outcome outcome_of(const struct bench *bench, enum lock_status status) {
	struct lock_outcome outcome = { .status = status };

	outcome.token = bench->token;
	outcome.server_us = SERVER_EPOCH_US + bench->server_ahead_us + bench->now_ns / 1000;
	return outcome;
}

void answer_outcome(struct bench *bench, struct lock_call *call, const struct lock_outcome *outcome) {
	int64_t sent_ns = forget_sent(bench, call);

	snecki_core_reply(bench->core, call, outcome, NULL, sent_ns, bench->now_ns);
}

void answer(struct bench *bench, struct lock_call *call, enum lock_status status) {
	struct lock_outcome outcome = outcome_of(bench, status);

	if (status == LOCK_UNKNOWN)
		outcome.server_us = 0;
	if (status == LOCK_BUSY || status == LOCK_DEADLOCK || status == LOCK_WAITING) {
		strcpy(outcome.holder, "other");
		outcome.holder_mode = 'W';
	}
	answer_outcome(bench, call, &outcome);
}

void confirm(struct bench *bench, struct lock_call *call) {
	struct lock_outcome outcome = outcome_of(bench, LOCK_GRANTED);

	if (call->op.last_token > bench->token)
		outcome.token = bench->token = call->op.last_token;
	outcome.deadline_ms = outcome.server_us / 1000 + call->op.lease_ms;
	answer_outcome(bench, call, &outcome);
}

void grant(struct bench *bench, struct lock_call *call) {
	bench->token++;
	confirm(bench, call);
}

void queue_up(struct bench *bench, struct lock_call *call) {
	answer(bench, call, LOCK_WAITING);
}

void lose_link(struct bench *bench, struct lock_call *call) {
	struct lock_outcome outcome = { .status = LOCK_FAILED, .code = SNECK_ECONN };

	forget_sent(bench, call);
	snecki_core_reply(bench->core, call, &outcome, "no link", 0, bench->now_ns);
}

void reconnect(struct bench *bench) {
	snecki_core_connected(bench->core, -1, bench->now_ns + 1, bench->now_ns);
}

static struct lock_note grant_note(struct bench *bench, uint64_t attempt) {
	struct lock_outcome outcome = outcome_of(bench, LOCK_GRANTED);
	struct lock_note note = { .kind = LOCK_NOTE_GRANT,
		.attempt = attempt,
		.token = ++bench->token,
		.deadline_ms = outcome.server_us / 1000 + BENCH_WAIT_LEASE_MS,
		.server_us = outcome.server_us };

	return note;
}

void hear_grant(struct bench *bench, uint64_t attempt) {
	struct lock_note note = grant_note(bench, attempt);

	snecki_core_note(bench->core, &note, bench->now_ns);
}

void hear_full_grant(struct bench *bench, uint64_t attempt, bool wanted) {
	struct lock_note note = grant_note(bench, attempt);

	note.tells_wanted = true;
	note.wanted = wanted;
	snecki_core_note(bench->core, &note, bench->now_ns);
}

void hear_wanted(struct bench *bench, uint64_t attempt) {
	struct lock_note note = { .kind = LOCK_NOTE_WANTED, .attempt = attempt };

	snecki_core_note(bench->core, &note, bench->now_ns);
}

void pass_ms(struct bench *bench, int64_t ms) {
	int64_t until_ns = bench->now_ns + ms * NS_PER_MS;

	while (snecki_core_next_due(bench->core) <= until_ns) {
		bench->now_ns = snecki_core_next_due(bench->core) > bench->now_ns
		                        ? snecki_core_next_due(bench->core)
		                        : bench->now_ns;
		snecki_core_run(bench->core, bench->now_ns);
		assert_true(snecki_core_next_due(bench->core) > bench->now_ns);
	}
	bench->now_ns = until_ns;
}

struct deed *hold_it(struct bench *bench, uint64_t owner, char mode) {
	struct deed *deed = take(bench, owner, mode);

	grant(bench, expect(bench, OP_ACQUIRE));
	assert_true(has(deed));
	expect_silence(bench);
	return deed;
}

void release_done(struct bench *bench, struct deed *held) {
	struct deed *release = ask(bench, WISH_RELEASE, held);

	answer(bench, expect(bench, OP_RELEASE), LOCK_DONE);
	assert_int_equal(code_of(release), 0);
}
