/* SPDX-License-Identifier: MIT */
/* Random sequences of events against the lock core, with a reference server and a bad network.
 *
 *   test_core_random [--seed N] [--sequences M] [--trace]
 *
 * Each sequence has a seed of its own, which a failure prints. First everything happens in any
 * order; then the network heals, programs give back what they have, and everything must come to
 * its end: every wish is done, every waiter was served, nothing is left. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim_world.h"

#include "lock/private.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

enum { QUIET_TURNS = 4000 };
#define QUIET_NS (INT64_C(200) * 1000 * NS_PER_MS)

/* ---- Time ---------------------------------------------------------------------------------------*/

static int64_t next_due(const struct world *world) {
	int64_t due = NS_NEVER;

	for (int i = 0; i < world->sessions_n; i++)
		if (world->sessions[i].core && snecki_core_next_due(world->sessions[i].core) < due)
			due = snecki_core_next_due(world->sessions[i].core);
	return due;
}

static void run_due(struct world *world) {
	for (int i = 0; i < world->sessions_n; i++) {
		struct session *session = &world->sessions[i];
		if (session->core && snecki_core_next_due(session->core) <= world->now_ns)
			session_run(session);
	}
}

/* Time goes on to `until`; on the way timers run when they are due, unless everybody is slow. */
static void pass_time(struct world *world, int64_t until_ns) {
	while (world->punctual && next_due(world) < until_ns) {
		if (next_due(world) > world->now_ns)
			world->now_ns = next_due(world);
		run_due(world);
	}
	world->now_ns = until_ns;
	if (world->punctual || world_chance(world, 500))
		run_due(world);
	world_settle(world);
}

static void some_time(struct world *world) {
	static const int scale_us[] = { 10, 1000, 20000, 400000, 3000000 };
	int64_t us = world_below(world, scale_us[world_below(world, 5)]);

	world_trace(world, "%" PRId64 " us pass", us);
	pass_time(world, world->now_ns + us * 1000);
}

static void to_next_timer(struct world *world) {
	int64_t due = next_due(world);

	if (due != NS_NEVER && due > world->now_ns) {
		world_trace(world, "until the next timer");
		world->now_ns = due;
	}
	run_due(world);
}

/* ---- One sequence -------------------------------------------------------------------------------*/

static void trouble(struct world *world, struct session *session) {
	int choice = world_below(world, 10);

	if (!session->link_up)
		session_link_up(session);
	else if (choice < 7)
		session_break(session, world_chance(world, 350));
	else if (choice < 9)
		session_sub(session, !session->sub_up);
	else if (world_chance(world, 300)) {
		session_crash(session);
		session_start(world, session);
	}
}

static void reopen_if_closed(struct world *world, struct session *session) {
	if (!session->closing || !snecki_core_idle(session->core))
		return;
	session_crash(session); /* idle: nothing is under way */
	session_start(world, session);
}

static void step(struct world *world) {
	struct session *session = &world->sessions[world_below(world, world->sessions_n)];
	int choice = world_below(world, 1000);

	reopen_if_closed(world, session);
	if (choice < world->loss)
		trouble(world, session);
	else if (choice < world->busy)
		program_step(session);
	else if (choice < world->busy + (800 - world->busy) / 2)
		session_execute(session);
	else if (choice < 800)
		session_deliver(session);
	else if (choice < 860)
		world_note(world, world_chance(world, 150), world_chance(world, 100));
	else if (choice < 865)
		world_break(world);
	else if (choice < 890)
		world_straggle(world, world_chance(world, 200));
	else if (choice < 960)
		some_time(world);
	else
		to_next_timer(world);
}

static void heal(struct world *world) {
	world->quiet = true;
	world->punctual = true;
	while (!snecki_list_empty(&world->stragglers))
		world_straggle(world, false);
	for (int i = 0; i < world->sessions_n; i++) {
		if (!world->sessions[i].link_up)
			session_link_up(&world->sessions[i]);
		if (!world->sessions[i].sub_up)
			session_sub(&world->sessions[i], true);
	}
}

static bool at_rest(const struct world *world) {
	for (int i = 0; i < world->sessions_n; i++) {
		const struct session *session = &world->sessions[i];
		if (session->wishes_n || session->handles_n || !snecki_list_empty(&session->transits) ||
		        snecki_map_count(&session->core->realms[0].entries))
			return false;
	}
	return true;
}

static void say_what_is_left(struct world *world) {
	for (int i = 0; i < world->sessions_n; i++) {
		const struct session *session = &world->sessions[i];
		fprintf(stderr, "s%d: %zu wishes, %zu handles, %zu entries, %zu grants, %zu calls\n",
		        session->id, session->wishes_n, session->handles_n,
		        snecki_map_count(&session->core->realms[0].entries), session->core->grants_n,
		        session->core->calls_n);
	}
}

static bool work_off(struct world *world) {
	bool any = false;

	for (int i = 0; i < world->sessions_n; i++) {
		struct session *session = &world->sessions[i];
		while (session_execute(session))
			any = true;
		while (session_deliver(session))
			any = true;
	}
	while (world->notes_n) {
		world_note(world, false, false);
		any = true;
	}
	return any;
}

static void come_to_rest(struct world *world) {
	int64_t began_ns = world->now_ns;

	for (int turn = 0; !at_rest(world); turn++) {
		world->step++;
		if (turn == QUIET_TURNS || world->now_ns - began_ns > QUIET_NS) {
			say_what_is_left(world);
			world_fail(world, "no rest after %d turns and %.0f s", turn,
			        (double)(world->now_ns - began_ns) / 1e9);
		}
		bool any = work_off(world);
		for (int i = 0; i < world->sessions_n; i++)
			if (world_chance(world, 700))
				program_tidy(&world->sessions[i], false);
		if (!any)
			to_next_timer(world);
		if (next_due(world) == NS_NEVER)
			world->now_ns += NS_PER_MS;
	}
}

static void run_sequence(struct world *world, uint64_t seed, bool trace) {
	world_open(world, seed, trace);
	int steps = 40 + world_below(world, world_chance(world, 100) ? 800 : 250);
	for (world->step = 0; world->step < steps; world->step++)
		step(world);
	heal(world);
	come_to_rest(world);
	world->now_ns += INT64_C(100) * 1000 * NS_PER_MS;
	check_end(world);
	world_close(world);
}

/* ---- Main ---------------------------------------------------------------------------------------*/

static void add_up(struct world *sum, const struct world *world) {
	sum->events += world->events;
	sum->calls += world->calls;
	sum->lost += world->lost;
	sum->breaks += world->breaks;
	sum->retakes += world->retakes;
	sum->recalls += world->recalls;
	for (int i = 0; i < 8; i++) {
		sum->completed[i] += world->completed[i];
		sum->succeeded[i] += world->succeeded[i];
	}
}

/* A test that seldom gets anywhere proves little. */
static bool worthwhile(const struct world *sum, uint64_t sequences) {
	bool enough = sum->lost > 0 && sum->breaks > 0 && sum->retakes * 50 > sequences &&
	              sum->recalls * 50 > sequences;

	for (int kind = WISH_ACQUIRE; kind <= WISH_ADOPT; kind++)
		enough = enough && sum->succeeded[kind] * 50 > sequences;
	return enough || sequences < 1000;
}

int main(int argc, char **argv) {
	static struct world world, sum;
	uint64_t seed = 1, sequences = SANITIZED ? 20000 : 100000;
	bool trace = false;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--trace") == 0)
			trace = true;
		else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
			seed = strtoull(argv[++i], NULL, 10);
		else if (strcmp(argv[i], "--sequences") == 0 && i + 1 < argc)
			sequences = strtoull(argv[++i], NULL, 10);
		else
			return fprintf(stderr, "usage: %s [--seed N] [--sequences M] [--trace]\n", argv[0]),
			       2;
	}
	for (uint64_t i = 0; i < sequences; i++) {
		run_sequence(&world, seed + i, trace);
		add_up(&sum, &world);
	}
	printf("%" PRIu64 " sequences, %" PRIu64 " events, %" PRIu64 " calls, %" PRIu64 " breaks, %" PRIu64
	       " losses, %" PRIu64 " retakes, %" PRIu64 " recalls; succeeded:",
	        sequences, sum.events, sum.calls, sum.breaks, sum.lost, sum.retakes, sum.recalls);
	for (int kind = WISH_ACQUIRE; kind <= WISH_ADOPT; kind++)
		printf(" %" PRIu64 "/%" PRIu64, sum.succeeded[kind], sum.completed[kind]);
	printf(" (acquire, upgrade, release, renew, downgrade, detach, adopt)\n");
	if (!worthwhile(&sum, sequences))
		return fprintf(stderr, "too little succeeded for the test to mean anything\n"), 1;
	return 0;
}
