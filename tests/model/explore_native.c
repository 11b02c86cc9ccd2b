/* SPDX-License-Identifier: MIT */
/* Explores what can happen to the native protocol: the real scripts on a real server, simulated
 * sessions and network, virtual time.
 *
 *   explore_native [--seconds N | --steps N] [--seed S] [--round R] [--trace]
 *       random walks, each ended by a drain; --round repeats one of them alone
 *   explore_native --exhaustive [--only NAME]
 *       every order of events within small bounds
 *   explore_native --mutants [--seconds N] [--only PART-OF-NAME]
 *       puts faults into the scripts, one at a time; each must be found (N: time for each)
 *
 * A violation is printed with the command that repeats it. Exit status 0: none (or, for mutants: all
 * found). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "native_mutants.h"
#include "native_world.h"

static const struct world_times TIMES = {
	.lease_ms = 1000, .wait_lease_ms = 300, .margin_ms = 20, .keep_ms = 500, .bury_ms = 4000
};

/* ---- Random numbers: the same everywhere for the same seed ------------------------------------*/

static uint64_t random_state;

static uint64_t next_random(void) {
	uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

static unsigned choose(unsigned n) {
	return n ? (unsigned)(next_random() % n) : 0;
}

/* ---- Random walks ---------------------------------------------------------------------------*/

static double now_seconds(void) {
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static bool is_kind(const struct world *world, const struct move *move, unsigned kind) {
	bool request = move->type == MOVE_DELIVER && world->messages[move->which].type == REQUEST;
	return kind == 0   ? move->type == MOVE_STEP
	       : kind == 1 ? request
	       : kind == 2 ? move->type == MOVE_DELIVER && !request
	       : kind == 3 ? move->type == MOVE_LOSE
	       : kind == 4 ? move->type == MOVE_CRASH
	                   : move->type == MOVE_BREAK;
}

/* Tokens survive steps of less than the time that an idle key is kept, one at a time. */
static bool may_step_back(const struct world *world) {
	return world->budget.steps_back > 0 && world->now_us - world->stepped_us > 2 * TIMES.keep_ms * 1000;
}

/* The network is mostly quick, sometimes slow, seldom lossy; crashes, steps of the clock and breaks are rare.
 */
static void random_move(struct world *world, struct move *ret) {
	static const unsigned weights[] = { 300, 300, 280, 12, 2, 6 };
	static const int64_t ticks[] = { 1, 1, 5, 5, 20, 60, 150, 400 };
	struct move moves[MOVES_MAX], fitting[MOVES_MAX];
	int n = world_moves(world, moves);
	unsigned roll = choose(1000), kind = 0;
	while (kind < 6 && roll >= weights[kind])
		roll -= weights[kind++];
	unsigned m = 0;
	for (int i = 0; i < n; i++) {
		if (is_kind(world, &moves[i], kind))
			fitting[m++] = moves[i];
	}
	if (m > 0) {
		*ret = fitting[choose(m)];
	} else if (choose(20) == 0 && may_step_back(world)) {
		*ret = (struct move){ MOVE_STEP_BACK, 0, 0, 1 + choose(400) };
	} else {
		*ret = (struct move){ MOVE_TICK, 0, 0, ticks[choose(8)] };
	}
}

static uint64_t steps_done;

/* One walk and its drain; false: a violation. */
static bool walk(uint64_t seed, uint64_t round, char violation[200]) {
	static const struct budget plenty = { 1 << 30, 1 << 30, 1 << 30, 1 << 30, 1 << 30, 1 << 30, 1 << 30,
		1 << 30, 1 << 30, 1 << 30, 1 << 30, 1 << 30, 1 << 30, 0 };
	struct world world;
	random_state = seed * UINT64_C(0x100000001b3) + round;
	(void)next_random();
	world_init(&world, 2 + (int)choose(4), &plenty);
	/* Some walks are plain, so that deep states of the queue are reached often. */
	unsigned flavour = choose(4);
	world.budget.extras = flavour == 1 ? plenty.extras : 0;
	world.budget.detaches = flavour == 2 ? plenty.detaches : 0;
	world.budget.breaks = flavour == 3 ? plenty.breaks : 0;
	world.budget.crashes = choose(2) ? plenty.crashes : 0;
	world.budget.steps_back = choose(2) ? plenty.steps_back : 0;
	unsigned length = 100 + choose(700);
	for (unsigned i = 0; i < length && !world.violation[0]; i++, steps_done++) {
		struct move move;
		random_move(&world, &move);
		world_apply(&world, &move);
	}
	if (!world.violation[0])
		world_drain(&world, choose);
	memcpy(violation, world.violation, sizeof(world.violation));
	return !world.violation[0];
}

struct options {
	double seconds;
	uint64_t steps, seed, round;
	bool one_round, exhaustive, mutants;
	const char *name;
};

/* Walk until the time or the steps are over; false: a violation in `ret_round`. */
static bool walk_for(const struct options *options, uint64_t *ret_round, char violation[200]) {
	double end = now_seconds() + options->seconds;
	uint64_t limit = steps_done + options->steps;
	for (uint64_t round = 0; options->steps ? steps_done < limit : now_seconds() < end; round++) {
		*ret_round = round;
		if (!walk(options->seed, round, violation))
			return false;
	}
	return true;
}

static int run_random(const struct options *options) {
	char violation[200] = "";
	uint64_t round = options->round;
	bool ok = options->one_round ? walk(options->seed, round, violation)
	                             : walk_for(options, &round, violation);
	if (ok) {
		printf("%" PRIu64 " steps, %" PRIu64 " walks, seed %" PRIu64 ": no violation\n", steps_done,
		        round + 1, options->seed);
		return 0;
	}
	printf("VIOLATION: %s\nrepeat: explore_native --seed %" PRIu64 " --round %" PRIu64 " --trace\n",
	        violation, options->seed, round);
	return 1;
}

/* ---- Every order of events ------------------------------------------------------------------*/

static const struct config {
	const char *name;
	int actors;
	struct budget budget;
} configs[] = {
	{ "late-copies", 2, { .starts = 2, .resends = 1, .abandons = 1 } },
	{ "lost-replies", 2, { .starts = 2, .resends = 1, .losses = 1, .beats = 1 } },
	{ "leases", 2, { .starts = 2, .beats = 2, .ticks = 3 } },
	{ "crash", 2, { .starts = 2, .beats = 2, .crashes = 1, .ticks = 2 } },
	{ "three", 3, { .starts = 3, .beats = 1 } },
	{ "upgrade", 2, { .starts = 2, .conversions = 2, .beats = 1 } },
	{ "late-upgrade", 2, { .starts = 2, .conversions = 1, .resends = 1, .abandons = 1 } },
	{ "downgrade", 2, { .starts = 2, .conversions = 1, .resends = 1, .beats = 1 } },
	{ "break", 2, { .starts = 2, .breaks = 1, .renewals = 1, .ticks = 1 } },
	{ "late-break", 2, { .starts = 1, .breaks = 1, .resends = 1, .abandons = 1 } },
	{ "late-messages", 2, { .starts = 3, .beats = 1, .resends = 1, .ticks = 1 } },
};

static struct {
	uint64_t *slots;
	size_t size, used;
} visited;

static bool insert_hash(uint64_t hash) {
	size_t at = hash & (visited.size - 1);
	while (visited.slots[at] && visited.slots[at] != hash)
		at = (at + 1) & (visited.size - 1);
	if (visited.slots[at])
		return false;
	visited.slots[at] = hash;
	visited.used++;
	return true;
}

/* True when this world has not been seen. */
static bool visit(const struct world *world) {
	uint64_t hash = UINT64_C(0xcbf29ce484222325), word;
	_Static_assert(sizeof(*world) % sizeof(word) == 0, "whole words");
	for (size_t i = 0; i < sizeof(*world); i += sizeof(word)) {
		memcpy(&word, (const char *)world + i, sizeof(word));
		hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
		hash ^= hash >> 29;
	}
	if (visited.used * 2 >= visited.size) {
		uint64_t *old = visited.slots;
		size_t old_size = visited.size;
		visited.size = old_size ? old_size * 2 : 1 << 16;
		visited.slots = calloc(visited.size, sizeof(*old));
		visited.used = 0;
		for (size_t i = 0; i < old_size; i++) {
			if (old[i])
				insert_hash(old[i]);
		}
		free(old);
	}
	return insert_hash(hash | 1);
}

static unsigned choose_first(unsigned n) {
	return n ? n - 1 : 0; /* also as a number of deliveries */
}

static bool explore(const struct world *world, char violation[200]) {
	struct move moves[MOVES_MAX];
	int n = world_moves(world, moves);
	if (world->budget.ticks > 0)
		moves[n++] = (struct move){ MOVE_TICK, 0, 0, 350 };
	struct world *next = malloc(sizeof(*next));
	bool ok = true;
	if (n == 0) {
		*next = *world;
		world_drain(next, choose_first);
		ok = !next->violation[0];
	}
	for (int i = 0; i < n && ok; i++) {
		*next = *world;
		world_apply(next, &moves[i]);
		steps_done++;
		ok = !next->violation[0] && (!visit(next) || explore(next, violation));
	}
	if (!ok && !violation[0])
		memcpy(violation, next->violation, sizeof(next->violation));
	free(next);
	return ok;
}

/* True: no violation, or no such configuration. */
static bool explore_config(const char *name, char violation[200]) {
	bool ok = true;
	for (size_t i = 0; i < sizeof(configs) / sizeof(configs[0]); i++) {
		struct world world;
		if (strcmp(name, configs[i].name) != 0)
			continue;
		free(visited.slots);
		memset(&visited, 0, sizeof(visited));
		steps_done = 0;
		world_init(&world, configs[i].actors, &configs[i].budget);
		ok = explore(&world, violation);
	}
	return ok;
}

static int run_exhaustive(const char *name) {
	int failed = 0;
	for (size_t i = 0; i < sizeof(configs) / sizeof(configs[0]); i++) {
		const struct config *config = &configs[i];
		char violation[200] = "";
		if (name && strcmp(name, config->name) != 0)
			continue;
		double start = now_seconds();
		bool ok = explore_config(config->name, violation);
		printf("%-18s %9zu states, %9" PRIu64 " steps, %5.1f s: %s\n", config->name, visited.used,
		        steps_done, now_seconds() - start, ok ? "no violation" : violation);
		fflush(stdout);
		failed += !ok;
	}
	return failed ? 1 : 0;
}

/* ---- Faults ---------------------------------------------------------------------------------*/

/* Also where they are not tried: their texts must still stand in the scripts. */
static bool load_each_mutant(void) {
	for (const struct mutant *mutant = mutants; mutant->name; mutant++) {
		if (!native_server_load(mutant->faults))
			return false;
	}
	return true;
}

static int run_mutants(const struct options *options) {
	int missed = 0;
	for (const struct mutant *mutant = mutants; mutant->name; mutant++) {
		char violation[200] = "";
		uint64_t round = 0;
		if (options->name && !strstr(mutant->name, options->name))
			continue;
		if (!native_server_load(mutant->faults))
			return 2;
		steps_done = 0;
		world_careless = mutant->careless;
		bool survived = mutant->config ? explore_config(mutant->config, violation)
		                               : walk_for(options, &round, violation);
		printf("%-46s %s%s (walk %" PRIu64 ", %" PRIu64 " steps)\n", mutant->name,
		        survived ? "NOT FOUND" : "found: ", violation, round, steps_done);
		fflush(stdout);
		missed += survived;
	}
	world_careless = CAREFUL;
	return missed ? 1 : 0;
}

/* ---- Command line ---------------------------------------------------------------------------*/

static bool read_options(int argc, char **argv, struct options *options) {
	for (int i = 1; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : NULL;
		bool takes_value = true;
		if (strcmp(argv[i], "--seconds") == 0 && value)
			options->seconds = strtod(value, NULL);
		else if (strcmp(argv[i], "--steps") == 0 && value)
			options->steps = strtoull(value, NULL, 10);
		else if (strcmp(argv[i], "--seed") == 0 && value)
			options->seed = strtoull(value, NULL, 10);
		else if (strcmp(argv[i], "--round") == 0 && value)
			options->round = strtoull(value, NULL, 10), options->one_round = true;
		else if (strcmp(argv[i], "--exhaustive") == 0)
			options->exhaustive = true, takes_value = false;
		else if (strcmp(argv[i], "--mutants") == 0)
			options->mutants = true, takes_value = false;
		else if (strcmp(argv[i], "--only") == 0 && value)
			options->name = value;
		else if (strcmp(argv[i], "--trace") == 0)
			world_trace = true, takes_value = false;
		else
			return false;
		i += takes_value;
	}
	return true;
}

int main(int argc, char **argv) {
	struct options options = { .seconds = 15, .seed = (uint64_t)time(NULL) };
	if (!read_options(argc, argv, &options)) {
		fprintf(stderr, "usage: see the top of explore_native.c\n");
		return 2;
	}
	world_times = TIMES;
	if (!native_server_up() || !load_each_mutant() || !native_server_load(NULL))
		return 2;
	int status = options.mutants      ? run_mutants(&options)
	             : options.exhaustive ? run_exhaustive(options.name)
	                                  : run_random(&options);
	native_server_down();
	return status;
}
