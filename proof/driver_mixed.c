/* SPDX-License-Identifier: MIT */
/* Faults of all kinds, one after the other, on workers of all kinds. The plan follows from the seed: every
 * kind once in random order, then again, so that no kind is left out. The run goes in rounds with a rig
 * each, because histories grow: after each round the checker judges.
 *
 * A fault counts only if locks were being granted before it and again after it, and if it was seen to
 * touch something. What did not count is said, and is not in the figures. */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fault.h"
#include "wait.h"

enum {
	FAULTS_PER_ROUND = 30,
	RATE_WINDOW_MS = 200,
	/* Grants in a second: below that a fault is struck into silence. Sanitizers cost a factor of ten. */
	RATE_MIN = PROOF_CAN_FAIL_MEMORY ? 200 : 20,
	ASLEEP_MS = 1000, /* while a slot moves */
	FLOW_MS = 10000   /* how long to wait for it */
};

static const struct rig_shape usual_shape = { .workers = 4,
	.threads = 6,
	.fast_locks = 6,
	.slow_locks = 8,
	.holding_ms = 700,
	.command_ms = 300,
	.proxies = true,
	.commands = true,
	.failing_memory = PROOF_CAN_FAIL_MEMORY };

struct tally {
	uint32_t injected, bit, counted;
};

struct plan {
	const struct fault_kind *kinds[FAULT_KINDS_MAX];
	size_t kinds_n;
	struct tally tallies[FAULT_KINDS_MAX];
	size_t order[FAULT_KINDS_MAX]; /* of this turn through all kinds */
	size_t at;
	struct rng rng;
};

/* The next kind, and the seed of its strike. */
static size_t next_fault(struct plan *plan, uint64_t *ret_seed) {
	if (plan->at == 0)
		for (size_t i = 0; i < plan->kinds_n; i++)
			plan->order[i] = i;
	size_t left = plan->kinds_n - plan->at;
	size_t pick = plan->at + rng_below(&plan->rng, (uint32_t)left);
	size_t kind = plan->order[pick];
	plan->order[pick] = plan->order[plan->at];
	plan->at = (plan->at + 1) % plan->kinds_n;
	*ret_seed = rng_next(&plan->rng);
	return kind;
}

static void print_plan(struct plan *plan, uint32_t count) {
	for (uint32_t i = 0; i < count; i++) {
		uint64_t seed;
		size_t kind = next_fault(plan, &seed);
		printf("%4u %-20s %016llx  %s\n", i + 1, plan->kinds[kind]->name, (unsigned long long)seed,
		        plan->kinds[kind]->what);
	}
}

/* Are locks granted at a decent rate? Waits until they are. */
static bool flows(struct rig *rig) {
	int64_t until_ms = test_now_ms() + FLOW_MS;
	do {
		uint64_t before = rig_grants(rig);
		int64_t from_ms = test_now_ms();
		rig_pass_time(RATE_WINDOW_MS);
		rig_reap(rig);
		rig_note_stalls(rig);
		int64_t ms = test_now_ms() - from_ms;
		if ((rig_grants(rig) - before) * 1000 >= (uint64_t)(RATE_MIN * ms))
			return true;
	} while (test_now_ms() < until_ms);
	return false;
}

static void one_fault(struct rig *rig, struct plan *plan, uint32_t number, uint32_t count) {
	uint64_t seed;
	size_t kind = next_fault(plan, &seed);
	struct tally *tally = &plan->tallies[kind];
	struct strike strike = { .rig = rig, .kind = plan->kinds[kind], .rng = { seed } };
	bool before = flows(rig);
	uint64_t failures = rig_failures(rig);
	int64_t begin_ms = test_now_ms();
	fault_strike(&strike);
	int64_t took_ms = test_now_ms() - begin_ms;
	rig_note_stalls(rig);
	rig_mark(rig, HISTORY_CALM, 0, 0);
	bool after = flows(rig);
	tally->injected++;
	tally->bit += strike.bite > 0;
	tally->counted += before && after && strike.bite > 0;
	driver_say("%4u/%u %-20s %5lld ms, bit %llu%s%s; %llu grants, %llu calls disturbed", number + 1,
	        count, strike.kind->name, (long long)took_ms, (unsigned long long)strike.bite,
	        before ? "" : ", no traffic before", after ? "" : ", no traffic after",
	        (unsigned long long)rig_grants(rig), (unsigned long long)(rig_failures(rig) - failures));
}

static void print_tally(const struct plan *plan) {
	printf("%-20s %8s %8s %8s\n", "fault", "injected", "bit", "counted");
	for (size_t i = 0; i < plan->kinds_n; i++)
		if (plan->tallies[i].injected)
			printf("%-20s %8u %8u %8u\n", plan->kinds[i]->name, plan->tallies[i].injected,
			        plan->tallies[i].bit, plan->tallies[i].counted);
}

struct totals {
	uint32_t done;
	uint64_t commands;
	struct verdict verdict;
};

/* What a move may not cost; how many times it did. */
static uint64_t cost_of_moves(const struct verdict *verdict) {
	return verdict->all_lost + verdict->unrenewed + (verdict->sleep_ns / 1000000 > ASLEEP_MS);
}

/* 0, or -1: the rig could not be started. */
static int one_round(const struct options *options, struct plan *plan, uint32_t round, uint32_t count,
        int64_t until_ms, struct totals *totals) {
	static struct rig rig;
	struct rig_shape shape = usual_shape;
	shape.subject = options->subject;
	shape.layout = options->layout;
	shape.linger_ms = options->linger_ms;
	shape.ack_replicas = options->ack_replicas;
	shape.commands = !options->no_commands;
	shape.site = options->site;
	if (options->site !=
	        SITE_SINGLE) { /* leases outlast a failover; else every hold would end by itself */
		shape.proxies = false;
		shape.lease_scale = 10;
		shape.holding_ms = 4000; /* many are held when it comes */
	}
	if (options->nothing_lost) { /* leases are renewed while locks are held; the command has no history */
		shape.lease_scale = 3;
		shape.holding_ms = 2500;
		shape.commands = false;
	}
	uint64_t violations = totals->verdict.violations;
	if (rig_start(&rig, &shape, options->seed + round) != 0) {
		rig_drop(&rig, false);
		return -1;
	}
	for (uint32_t i = 0; i < FAULTS_PER_ROUND && test_now_ms() < until_ms &&
	                     (totals->done < count || totals->verdict.acquisitions < options->acquisitions);
	        i++)
		one_fault(&rig, plan, totals->done++, count);
	rig_finish(&rig);
	for (uint32_t i = 0; i < shape.workers; i++)
		totals->commands += atomic_load(&rig.board->workers[i].commands);
	driver_judge(&rig, &totals->verdict);
	bool keep = options->keep || totals->verdict.violations > violations ||
	            (options->nothing_lost && cost_of_moves(&totals->verdict) > 0);
	if (keep)
		driver_kept(&rig, options);
	rig_drop(&rig, keep);
	return 0;
}

static void account_for_failovers(struct result *result, const struct verdict *verdict) {
	int64_t gap_ms = verdict->gap_ns / 1000000;
	printf("lost in failovers, and told: %llu holds; overlaps until then: %llu; readers with the number "
	       "of a "
	       "phase that came back: %llu; longest time without a grant: %lld ms\n",
	        (unsigned long long)verdict->lost, (unsigned long long)verdict->excused,
	        (unsigned long long)verdict->old_numbers, (long long)gap_ms);
	result_number(result, "lost", verdict->lost);
	result_number(result, "old_numbers", verdict->old_numbers);
	result_number(result, "longest_absence_ms", (uint64_t)gap_ms);
}

static uint64_t account_for_moves(struct result *result, const struct verdict *verdict) {
	int64_t sleep_ms = verdict->sleep_ns / 1000000;
	printf("holds lost: %llu; renewals failed: %llu; either because nobody was scheduled: %llu; longest "
	       "that "
	       "somebody waited for a lock that nobody had: %lld ms\n",
	        (unsigned long long)verdict->all_lost, (unsigned long long)verdict->unrenewed,
	        (unsigned long long)verdict->held_up, (long long)sleep_ms);
	result_number(result, "excused_by_stop", verdict->held_up);
	result_number(result, "renewals_failed", verdict->unrenewed);
	result_number(result, "longest_sleep_ms", (uint64_t)sleep_ms);
	return cost_of_moves(verdict);
}

int campaign_mixed(const struct options *options) {
	static struct plan plan;
	struct totals totals = { 0 };
	uint32_t count = options->count ? options->count : 500;
	int64_t until_ms =
	        options->minutes > 0 ? test_now_ms() + (int64_t)(options->minutes * 60000) : INT64_MAX;
	plan.kinds_n = fault_list(options->site, options->only, plan.kinds);
	plan.rng = rng_of(options->seed, 0);
	if (plan.kinds_n == 0) {
		fprintf(stderr, "no fault is called %s; see --list\n", options->only);
		return 64;
	}
	if (options->plan_only) {
		print_plan(&plan, count);
		return 0;
	}
	if (options->minutes > 0 && !options->count)
		count = UINT32_MAX;
	struct result *result = result_open(options);
	for (uint32_t round = 0; test_now_ms() < until_ms &&
	                         (totals.done < count || totals.verdict.acquisitions < options->acquisitions);
	        round++)
		if (one_round(options, &plan, round, count, until_ms, &totals) != 0)
			return 1;
	print_tally(&plan);
	struct tally sum = { 0 };
	uint32_t kinds = 0;
	for (size_t i = 0; i < plan.kinds_n; i++) {
		sum.injected += plan.tallies[i].injected;
		sum.bit += plan.tallies[i].bit;
		sum.counted += plan.tallies[i].counted;
		kinds += plan.tallies[i].counted > 0;
	}
	printf("%u faults, %u bit, %u counted, of %u kinds; %llu runs of the command\n", sum.injected,
	        sum.bit, sum.counted, kinds, (unsigned long long)totals.commands);
	result_number(result, "injected", sum.injected);
	result_number(result, "bit", sum.bit);
	result_number(result, "counted", sum.counted);
	result_number(result, "kinds", kinds);
	result_number(result, "commands", totals.commands);
	result_number(result, "excused_by_wipe", totals.verdict.excused);
	if (options->site != SITE_SINGLE)
		account_for_failovers(result, &totals.verdict);
	uint64_t more = options->nothing_lost ? account_for_moves(result, &totals.verdict) : 0;
	return result_close(result, &totals.verdict, more);
}

int campaign_failover(const struct options *options) {
	struct options failovers = *options;
	failovers.only = options->only ? options->only : "failover";
	failovers.count = options->count ? options->count : 50;
	return campaign_mixed(&failovers);
}

int campaign_slots(const struct options *options) {
	struct options moves = *options;
	moves.only = "slot";
	moves.count = options->count ? options->count : 50;
	moves.nothing_lost = true;
	return campaign_mixed(&moves);
}
