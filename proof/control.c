/* SPDX-License-Identifier: MIT */
/* The negative controls: the harness turned on locks that are known to be wrong. A checker that finds nothing
 * proves something only if it does find what is there; so here it must, and with libsneck in their place,
 * under the same faults, it must not.
 *
 * The faults are arranged rather than random, because a control that fails once in a hundred runs is none. A
 * late reply: everybody but one is stopped, so that one is granted the lock for certain, and its reply
 * arrives after the lease. A long pause: a holder is stopped beyond its lease, and goes on afterwards. A lost
 * reply. And work that takes longer than the lease, which needs no fault at all. */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "wait.h"

enum {
	LEASE_MS = 500,
	LATE_MS = 700,
	GRANTED_MS = 1500,
	LONG_MS = 800,
	BETWEEN_MS = 200,
	ROUNDS = 1,
	ATTEMPTS = 4,
	PAUSE_ATTEMPTS = 10,
	HEARD_MS = 350,
	SUCCESSOR_MS = 4000 /* a worker watches the end of a hold for three seconds */
};

static const struct rig_shape control_shape = { .workers = 4,
	.threads = 1,
	.slow_locks = 1,
	.holding_ms = LEASE_MS + 60,
	.command_ms = 6000,
	.proxies = true,
	.plain = true };

/* What the checker must find in each, because the arrangement leaves no other way; what else it finds depends
 * on the moment. */
static const struct {
	const char *subject;
	uint32_t broken; /* bits of enum check_invariant */
} controls[] = {
	{ "naive", 1u << CHECK_EXCLUSION | 1u << CHECK_RELEASE },
	{ "redispy", 1u << CHECK_EXCLUSION },
};

static struct history_record *begin_fault(struct rig *rig, uint32_t slot, unsigned kind, bool stopped) {
	struct history_record form = { .op = HISTORY_FAULT,
		.lock = HISTORY_ALL,
		.token = (uint64_t)rig->workers[slot].pid,
		.flags = stopped ? HISTORY_STOPPED : 0,
		.detail = (uint8_t)kind };

	return history_begin(rig->history, &form);
}

/* What the lock's key holds: only the one that was granted it last can have written it. */
static void read_owner(struct rig *rig, char *out, size_t size) {
	redisReply *reply = test_redis(&rig->site.single, "GET fault-0");

	snprintf(out, size, "%s", reply && reply->type == REDIS_REPLY_STRING ? reply->str : "");
	if (reply)
		freeReplyObject(reply);
}

static bool granted_anew(struct rig *rig, bool *gone) {
	char owner[128];

	read_owner(rig, owner, sizeof owner);
	if (!owner[0])
		*gone = true;
	return *gone && owner[0];
}

static bool holds_since(struct rig *rig, uint32_t slot, int64_t since_ns) {
	const struct board_thread *place = &rig->board->workers[slot].threads[0];

	return atomic_load(&place->phase) == BOARD_HOLDING && atomic_load(&place->since_ns) > since_ns;
}

/* Somebody but `slot` who has been granted the lock since, stopped while it holds; -1: nobody. */
static int stop_successor(
        struct rig *rig, uint32_t slot, int64_t since_ns, struct history_record **ret_record) {
	int64_t until_ms = test_now_ms() + SUCCESSOR_MS;

	do {
		for (uint32_t i = 0; i < rig->shape.workers; i++) {
			if (i == slot || !holds_since(rig, i, since_ns))
				continue;
			*ret_record = begin_fault(rig, i, 5, true);
			rig_freeze(rig, i);
			if (holds_since(rig, i, since_ns))
				return (int)i;
			rig_thaw(rig, i);
			history_end(*ret_record, 0);
		}
	} while (test_wait_step(until_ms));
	return -1;
}

/* The reply that `slot` waits for stays in the proxy until another has been granted the lock: it cannot
 * release it before `slot` has heard of its own grant. */
static bool deliver_late(struct rig *rig, uint32_t slot, int64_t since_ns) {
	struct history_record *record;
	int successor = stop_successor(rig, slot, since_ns, &record);
	bool heard;

	test_proxy_calm(&rig->workers[slot].proxy);
	test_proxy_deliver(&rig->workers[slot].proxy);
	if (successor < 0)
		return false;
	heard = WAIT_UNTIL(holds_since(rig, slot, since_ns), HEARD_MS);
	rig_thaw(rig, (uint32_t)successor);
	history_end(record, heard);
	return heard;
}

/* With everybody else stopped, `slot` is granted the lock, and hears of it when its lease is over and another
 * has it. True: all of that was seen. */
static bool late_reply(struct rig *rig, uint32_t slot) {
	struct history_record *records[BOARD_WORKERS] = { 0 };
	struct proxy_rule rule = { .action = PROXY_HOLD_REPLY, .class = PROXY_ANY, .hold_ms = LATE_MS };
	bool gone = false, late = false;
	int64_t since_ns;

	for (uint32_t i = 0; i < rig->shape.workers; i++) {
		if (i == slot)
			continue;
		records[i] = begin_fault(rig, i, 1, true);
		rig_freeze(rig, i);
	}
	records[slot] = begin_fault(rig, slot, 2, false);
	test_proxy_arm(&rig->workers[slot].proxy, &rule);
	/* Until the lock has been free and is held again. */
	bool granted = WAIT_UNTIL(granted_anew(rig, &gone), GRANTED_MS);
	since_ns = history_now();
	if (granted)
		test_proxy_silence(&rig->workers[slot].proxy, false, true);
	for (uint32_t i = 0; i < rig->shape.workers; i++) {
		if (i == slot)
			continue;
		rig_thaw(rig, i);
		history_end(records[i], 1);
	}
	if (granted)
		late = deliver_late(rig, slot, since_ns);
	else
		rig_pass_time(LATE_MS * 2);
	test_proxy_calm(&rig->workers[slot].proxy);
	history_end(records[slot], late || !granted);
	return late;
}

/* The victim must be waiting: one that holds has its release delayed as well, and is not granted the lock
 * again in time. It may be granted it just before everybody else has been stopped, hence more than one
 * attempt. What is tried again is the arrangement; what the checker says of it is not looked at here. */
static bool arrange_late_reply(struct rig *rig, struct rng *rng, uint32_t attempts) {
	for (uint32_t i = 0; i < attempts; i++) {
		int slot = -1;

		if (WAIT_UNTIL((slot = rig_find(rig, rng, BOARD_WAITING, 0, NULL)) >= 0, GRANTED_MS) &&
		        late_reply(rig, (uint32_t)slot))
			return true;
	}
	return false;
}

/* The slot of a holder that was stopped beyond its lease; -1: none was found. What it does is known when it
 * can no longer move: one that has left meanwhile goes on, and another is tried. */
static int long_pause(struct rig *rig, struct rng *rng) {
	for (int i = 0; i < PAUSE_ATTEMPTS; i++) {
		int slot = -1;
		struct history_record *record;
		bool holds;

		if (!WAIT_UNTIL((slot = rig_find(rig, rng, BOARD_HOLDING, 0, NULL)) >= 0, GRANTED_MS))
			return -1;
		record = begin_fault(rig, (uint32_t)slot, 3, true);
		rig_freeze(rig, (uint32_t)slot);
		holds = atomic_load(&rig->board->workers[slot].threads[0].phase) == BOARD_HOLDING;
		if (holds)
			rig_pass_time(LONG_MS);
		rig_thaw(rig, (uint32_t)slot);
		history_end(record, holds);
		if (holds)
			return slot;
	}
	return -1;
}

static void lost_reply(struct rig *rig, uint32_t slot) {
	struct proxy_rule rule = { .action = PROXY_DROP_CUT, .class = PROXY_ANY, .nth = 1 };
	struct history_record *record = begin_fault(rig, slot, 4, false);
	struct proxy_counts counts;

	test_proxy_counts(&rig->workers[slot].proxy, &counts);
	test_proxy_arm(&rig->workers[slot].proxy, &rule);
	history_end(record, test_proxy_wait_fired(&rig->workers[slot].proxy, counts.fired + 1, GRANTED_MS));
}

/* How many rounds were as they should be. */
static uint32_t trouble(struct rig *rig, struct rng *rng, uint32_t rounds, uint32_t attempts) {
	uint32_t arranged = 0, workers = rig->shape.workers;

	for (uint32_t i = 0; i < rounds; i++) {
		bool late = arrange_late_reply(rig, rng, attempts);
		int paused;

		rig_pass_time(BETWEEN_MS);
		paused = long_pause(rig, rng);
		rig_pass_time(BETWEEN_MS);
		/* Never of the one that was paused: its release must be answered, because the answer is what
		 * is wrong. */
		if (paused >= 0)
			lost_reply(rig, ((uint32_t)paused + 1 + rng_below(rng, workers - 1)) % workers);
		rig_pass_time(BETWEEN_MS);
		arranged += late && paused >= 0;
	}
	return arranged;
}

static uint32_t wanted_of(const char *subject) {
	for (size_t i = 0; i < sizeof controls / sizeof controls[0]; i++)
		if (strcmp(controls[i].subject, subject) == 0)
			return controls[i].broken;
	return 0;
}

/* 0: as it must be. */
static int compare(const char *subject, const struct verdict *verdict) {
	uint32_t wanted = wanted_of(subject), missing;

	printf("%s breaks:", subject);
	for (unsigned i = 0; i < CHECK_INVARIANTS; i++)
		if (verdict->broken & 1u << i)
			printf(" %s (%s)", check_id((enum check_invariant)i),
			        check_title((enum check_invariant)i));
	printf("%s\n", verdict->broken ? "" : " nothing");
	missing = wanted & ~verdict->broken;
	for (unsigned i = 0; i < CHECK_INVARIANTS; i++)
		if (missing & 1u << i)
			printf("but %s was not found\n", check_id((enum check_invariant)i));
	if (!wanted)
		return verdict->violations != 0;
	return missing != 0;
}

int campaign_control(const struct options *options) {
	static struct rig rig;
	struct rig_shape shape = control_shape;
	struct verdict verdict = { 0 };
	struct rng rng = rng_of(options->seed, 0);
	uint32_t rounds, arranged;
	int status;

	shape.subject = options->subject;
	shape.layout = options->layout;
	if (rig_start(&rig, &shape, options->seed) != 0) {
		rig_drop(&rig, false);
		return 1;
	}
	rounds = options->count ? options->count : ROUNDS;
	/* Where its grant lies on the server is known of the wrong locks alone: for others once is enough. */
	arranged = trouble(&rig, &rng, rounds, wanted_of(options->subject) ? ATTEMPTS : 1);
	rig_finish(&rig);
	driver_judge(&rig, &verdict);
	status = compare(options->subject, &verdict);
	/* What was found is found; what was not may be the arrangement's fault rather than the checker's. */
	if (status && wanted_of(options->subject))
		printf("the faults were %s\n",
		        arranged ? "as arranged" : "not as arranged: the miss says nothing");
	rig_drop(&rig, options->keep || status);
	if (options->keep || status)
		printf("histories kept in %s\n", rig.dir);
	return status;
}
