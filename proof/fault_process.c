/* SPDX-License-Identifier: MIT */
/* Faults on processes: killed or stopped while a thread of theirs holds or waits. The board says who does
 * what; whom the fault finds in that moment may have moved on, so what it bit is asked again after the
 * stop, and a strike that found nobody bit nothing. */
#include "fault.h"

#include "wait.h"

enum { LEASE_MS = 900, WAITER_LEASE_MS = 3000, SEARCH_MS = 2000 };

enum part { PART_HOLDER, PART_WAITER, PART_HEAD };

static int find(struct strike *strike, enum part part) {
	switch (part) {
	case PART_HOLDER:
		return rig_find(strike->rig, &strike->rng, BOARD_HOLDING, 20, NULL);
	case PART_WAITER:
		return rig_find(strike->rig, &strike->rng, BOARD_WAITING, 0, NULL);
	default:
		return rig_find_head_waiter(strike->rig, &strike->rng, NULL);
	}
}

static int choose(struct strike *strike, enum part part) {
	int slot = -1;
	(void)WAIT_UNTIL((slot = find(strike, part)) >= 0, SEARCH_MS);
	if (slot >= 0)
		strike->victim_pid = strike->rig->workers[slot].pid;
	return slot;
}

/* Threads of the worker that hold or wait. */
static uint64_t engaged(struct strike *strike, int slot, enum part part) {
	enum board_phase phase = part == PART_HOLDER ? BOARD_HOLDING : BOARD_WAITING;
	uint64_t n = 0;
	for (uint32_t i = 0; i < strike->rig->shape.threads; i++)
		n += atomic_load(&strike->rig->board->workers[slot].threads[i].phase) == phase;
	return n;
}

static void kill_one(struct strike *strike) {
	int slot = choose(strike, (enum part)strike->kind->number);
	if (slot < 0)
		return;
	rig_kill(strike->rig, (uint32_t)slot);
	strike->bite = engaged(strike, slot, (enum part)strike->kind->number);
	(void)rig_spawn(strike->rig, (uint32_t)slot);
}

static void stop_for(struct strike *strike, enum part part, int64_t ms) {
	int slot = choose(strike, part);
	if (slot < 0)
		return;
	strike->stopped = true;
	rig_freeze(strike->rig, (uint32_t)slot);
	strike->bite = engaged(strike, slot, part);
	rig_pass_time(ms);
	rig_thaw(strike->rig, (uint32_t)slot);
}

static void stop_below_lease(struct strike *strike) {
	stop_for(strike, (enum part)strike->kind->number, rng_between(&strike->rng, 50, 300));
}

static void stop_beyond_lease(struct strike *strike) {
	int64_t lease_ms = LEASE_MS * (strike->rig->shape.lease_scale ? strike->rig->shape.lease_scale : 1);
	stop_for(
	        strike, (enum part)strike->kind->number, lease_ms + rng_between(&strike->rng, 100, LEASE_MS));
}

static void stop_beyond_waiter_lease(struct strike *strike) {
	stop_for(strike, (enum part)strike->kind->number,
	        WAITER_LEASE_MS + rng_between(&strike->rng, 100, 600));
}

const struct fault_kind fault_process_kinds[] = {
	{ "kill-holder", "kill -9 of a process that holds", kill_one, PART_HOLDER, NULL },
	{ "kill-waiter", "kill -9 of a process that waits", kill_one, PART_WAITER, NULL },
	{ "kill-head", "kill -9 of the process that has waited longest", kill_one, PART_HEAD, NULL },
	{ "stop-holder", "SIGSTOP of a holder for less than the lease", stop_below_lease, PART_HOLDER, NULL },
	{ "stop-holder-long", "SIGSTOP of a holder beyond the lease", stop_beyond_lease, PART_HOLDER, NULL },
	{ "stop-waiter", "SIGSTOP of a waiter for less than its lease", stop_below_lease, PART_WAITER, NULL },
	{ "stop-head-long", "SIGSTOP of the first waiter beyond the waiter's lease", stop_beyond_waiter_lease,
	        PART_HEAD, NULL },
	{ NULL, NULL, NULL, 0, NULL },
};
