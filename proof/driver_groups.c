/* SPDX-License-Identifier: MIT */
/* One kind of harm, many times, to many small groups at once: processes killed, stopped beyond their lease,
 * or cut off, while they hold or wait. A group has locks of its own, and is struck again only when each of
 * them has been granted since: so how long a lock stays away after one death is measured, and a lock that
 * stays away for longer than lease, waiter's lease and two seconds is stuck. */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stall.h"
#include "wait.h"

enum {
	GROUPS_MAX = 64,
	LEASE_MS = 500,
	STUCK_MS = LEASE_MS + 3000 + 2000,
	PROGRESS_MS = 5000,
	LOOK_MS = 50,
	STALL_MS = 10,
	NS_PER_MS = 1000000
};

struct harm {
	const char *name;
	const char *unit; /* what is counted, for people */
	uint32_t count;   /* unless the options say another */
	struct rig_shape shape;
	bool waiters_too; /* strike those who wait as well as those who hold */
	int64_t held_ms;  /* a holder must mean to stay for this long */
	int64_t low_ms, high_ms;
	void (*begin)(struct rig *rig, uint32_t slot);
	void (*after)(struct rig *rig, uint32_t slot); /* at once behind it */
	void (*end)(struct rig *rig, uint32_t slot);   /* when the time is over */
};

static void start_again(struct rig *rig, uint32_t slot) {
	(void)rig_spawn(rig, slot);
}

static void silence(struct rig *rig, uint32_t slot) {
	test_proxy_silence(&rig->workers[slot].proxy, true, true);
}

static void heal(struct rig *rig, uint32_t slot) {
	test_proxy_calm(&rig->workers[slot].proxy);
}

static const struct harm harms[] = {
	{ "kill", "kill -9", 2000,
	        { .workers = 72, .group = 3, .threads = 3, .slow_locks = 3, .holding_ms = 80 }, true, 0, 0, 0,
	        rig_kill, start_again, NULL },
	{ "stop", "SIGSTOP beyond the lease", 300,
	        { .workers = 36, .group = 3, .threads = 2, .slow_locks = 2, .holding_ms = 400 }, false, 50,
	        LEASE_MS + 200, LEASE_MS + 900, rig_freeze, NULL, rig_thaw },
	{ "silence", "silences", 300,
	        { .workers = 32,
	                .group = 2,
	                .threads = 2,
	                .slow_locks = 2,
	                .holding_ms = 1600,
	                .proxies = true },
	        false, LEASE_MS + 150, LEASE_MS + 100, LEASE_MS + 400, silence, NULL, heal },
};

struct group {
	uint32_t first_slot, first_lock;
	uint32_t victim;
	bool struck;      /* the harm is at work */
	bool counts;      /* the victim held (or waited) when it was struck */
	bool recovering;  /* not every lock has been granted since */
	int64_t until_ms; /* when it ends */
	int64_t since_ns; /* when it began */
	int64_t stall_ns; /* of its processes and the machine until then */
	struct history_record *record;
};

struct siege {
	const struct harm *harm;
	struct rig *rig;
	struct rng rng;
	struct group groups[GROUPS_MAX];
	uint32_t groups_n, locks; /* locks of each */
	uint32_t done, count;
	uint64_t stuck;
	int64_t worst_ms; /* the longest that a lock was away */
	struct stall_watch server, self;
	int64_t stall_ns; /* for how long in all the server, or this process, was ready and did not run */
};

/* Does a thread of the worker hold, and mean to for another `ms`, or wait? */
static bool is_engaged(struct siege *siege, uint32_t slot, enum board_phase phase, int64_t ms) {
	for (uint32_t i = 0; i < siege->harm->shape.threads; i++) {
		struct board_thread *place = &siege->rig->board->workers[slot].threads[i];
		if (atomic_load(&place->phase) != phase)
			continue;
		if (phase != BOARD_HOLDING || ms == 0 ||
		        atomic_load(&place->until_ns) - history_now() >= ms * NS_PER_MS)
			return true;
	}
	return false;
}

/* Somebody in the group who holds (or waits), chosen at random; false: nobody at this moment. */
static bool choose_victim(struct siege *siege, struct group *group) {
	uint32_t size = siege->harm->shape.group, start = rng_below(&siege->rng, size);
	bool waiter = siege->harm->waiters_too && rng_below(&siege->rng, 2);
	for (uint32_t i = 0; i < size; i++) {
		uint32_t slot = group->first_slot + (start + i) % size;
		if (siege->rig->workers[slot].pid > 0 &&
		        atomic_load(&siege->rig->board->workers[slot].ready) &&
		        is_engaged(
		                siege, slot, waiter ? BOARD_WAITING : BOARD_HOLDING, siege->harm->held_ms)) {
			group->victim = slot;
			return true;
		}
	}
	return false;
}

/* What can make everybody late, one after the other. */
static void look_at_scheduling(struct siege *siege) {
	int64_t now_ns = history_now();
	if (now_ns - siege->self.looked_ns < LOOK_MS * NS_PER_MS)
		return;
	int64_t server_ns = stall_look(&siege->server, now_ns), self_ns = stall_look(&siege->self, now_ns);
	int64_t longer_ns = server_ns > self_ns ? server_ns : self_ns;
	siege->stall_ns += longer_ns >= STALL_MS * NS_PER_MS ? longer_ns : 0;
}

/* Of the group's processes, the server and this one. */
static int64_t stalled_ns(struct siege *siege, const struct group *group) {
	int64_t sum = siege->stall_ns;
	for (uint32_t i = 0; i < siege->harm->shape.group; i++)
		sum += (int64_t)atomic_load(&siege->rig->board->workers[group->first_slot + i].stalled_ns);
	return sum;
}

static void strike(struct siege *siege, struct group *group) {
	const struct harm *harm = siege->harm;
	struct rig *rig = siege->rig;
	struct history_record form = { .op = HISTORY_FAULT,
		.lock = HISTORY_ALL,
		.token = (uint64_t)rig->workers[group->victim].pid,
		.flags = harm->begin == rig_freeze ? HISTORY_STOPPED : 0,
		.detail = 1 };
	group->since_ns = history_now();
	group->stall_ns = stalled_ns(siege, group);
	group->record = history_begin(rig->history, &form);
	harm->begin(rig, group->victim);
	/* What it was doing is seen when it can no longer move: who is stopped or dead stays as it was. */
	group->counts = is_engaged(siege, group->victim, BOARD_HOLDING, 0) ||
	                (harm->waiters_too && is_engaged(siege, group->victim, BOARD_WAITING, 0));
	if (harm->after)
		harm->after(rig, group->victim);
	group->until_ms = test_now_ms() + rng_between(&siege->rng, harm->low_ms, harm->high_ms);
	group->struck = group->recovering = true;
}

static void end_strike(struct siege *siege, struct group *group) {
	if (siege->harm->end)
		siege->harm->end(siege->rig, group->victim);
	siege->done += group->counts;
	history_end(group->record, group->counts);
	group->struck = false;
}

/* For how long somebody who is alive has been waiting for this lock; 0: nobody does. */
static int64_t longest_wait_ms(const struct siege *siege, const struct group *group, uint32_t lock) {
	int64_t now_ns = history_now(), longest_ns = 0;
	for (uint32_t i = 0; i < siege->harm->shape.group; i++) {
		uint32_t slot = group->first_slot + i;
		if (siege->rig->workers[slot].pid <= 0 || (group->struck && slot == group->victim))
			continue;
		for (uint32_t t = 0; t < siege->harm->shape.threads; t++) {
			struct board_thread *place = &siege->rig->board->workers[slot].threads[t];
			int64_t waits_ns = now_ns - atomic_load(&place->since_ns);
			if (atomic_load(&place->phase) == BOARD_WAITING &&
			        atomic_load(&place->lock) == lock && waits_ns > longest_ns)
				longest_ns = waits_ns;
		}
	}
	return (longest_ns + NS_PER_MS - 1) / NS_PER_MS;
}

/* Has every lock of the group been granted since the harm began? One that nobody asks for is not away. */
static void look_after(struct siege *siege, struct group *group) {
	int64_t away_ms = (history_now() - group->since_ns) / NS_PER_MS, waited_ms = 0;
	bool all = true;
	for (uint32_t i = 0; i < siege->locks; i++) {
		uint32_t lock = group->first_lock + i;
		if (atomic_load(&siege->rig->board->locks[lock].last_grant_ns) > group->since_ns)
			continue;
		int64_t ms = longest_wait_ms(siege, group, lock);
		waited_ms = ms > waited_ms ? ms : waited_ms;
		all = false;
	}
	/* On a machine that is busy with other things everybody is late, several one after the other. */
	int64_t stall_ms = (stalled_ns(siege, group) - group->stall_ns) / NS_PER_MS;
	int64_t limit_ms = STUCK_MS + 2 * stall_ms;
	/* Short waits that end in vain one after the other are no better than a long one. */
	bool waits_shortly = waited_ms > 0 && waited_ms <= limit_ms && away_ms <= 3 * limit_ms;
	if (!all && (away_ms <= limit_ms || waits_shortly))
		return;
	if (!all && waited_ms > 0) {
		siege->stuck++;
		fprintf(stderr, "a lock of group %u is stuck for %lld ms after process %llu\n",
		        group->first_lock / siege->locks, (long long)away_ms,
		        (unsigned long long)group->record->token);
	}
	if (away_ms > siege->worst_ms)
		siege->worst_ms = away_ms;
	group->recovering = false;
}

static void attend(struct siege *siege, struct group *group) {
	if (group->struck) {
		if (test_now_ms() >= group->until_ms)
			end_strike(siege, group);
	} else if (group->recovering) {
		look_after(siege, group);
	} else if (siege->done < siege->count && choose_victim(siege, group)) {
		strike(siege, group);
	}
}

static bool at_peace(const struct siege *siege) {
	for (uint32_t i = 0; i < siege->groups_n; i++)
		if (siege->groups[i].struck || siege->groups[i].recovering)
			return false;
	return siege->done >= siege->count;
}

static void besiege(struct siege *siege, int64_t until_ms) {
	int64_t said_ms = 0;
	while (!at_peace(siege)) {
		if (test_now_ms() >= until_ms)
			siege->count = siege->done; /* no new strikes */
		for (uint32_t i = 0; i < siege->groups_n; i++)
			attend(siege, &siege->groups[i]);
		rig_reap(siege->rig);
		rig_pass_time(1);
		look_at_scheduling(siege);
		if (test_now_ms() - said_ms >= PROGRESS_MS) {
			said_ms = test_now_ms();
			driver_say("%s: %u of %u; %llu grants, longest absence of a lock %lld ms",
			        siege->harm->name, siege->done, siege->count,
			        (unsigned long long)rig_grants(siege->rig), (long long)siege->worst_ms);
		}
	}
}

static const struct harm *find_harm(const char *name) {
	for (size_t i = 0; i < sizeof(harms) / sizeof(*harms); i++)
		if (strcmp(harms[i].name, name) == 0)
			return &harms[i];
	return NULL;
}

int campaign_groups(const struct options *options) {
	static struct rig rig;
	static struct siege siege;
	struct verdict verdict = { 0 };
	siege.harm = find_harm(options->campaign);
	struct rig_shape shape = siege.harm->shape;
	shape.subject = options->subject;
	shape.layout = options->layout;
	shape.linger_ms = options->linger_ms;
	shape.plain = true;
	shape.command_ms = 300;
	siege.rig = &rig;
	siege.rng = rng_of(options->seed, 1);
	siege.count = options->count ? options->count : siege.harm->count;
	siege.groups_n = shape.workers / shape.group;
	siege.locks = shape.fast_locks + shape.slow_locks;
	for (uint32_t i = 0; i < siege.groups_n; i++)
		siege.groups[i] =
		        (struct group){ .first_slot = i * shape.group, .first_lock = i * siege.locks };
	struct result *result = result_open(options);
	if (rig_start(&rig, &shape, options->seed) != 0) {
		rig_drop(&rig, false);
		return 1;
	}
	siege.server.pid = rig.site.single.pid;
	siege.self.pid = getpid();
	besiege(&siege,
	        options->minutes > 0 ? test_now_ms() + (int64_t)(options->minutes * 60000) : INT64_MAX);
	rig_finish(&rig);
	driver_judge(&rig, &verdict);
	bool keep = options->keep || verdict.violations + siege.stuck > 0;
	if (keep)
		driver_kept(&rig, options);
	rig_drop(&rig, keep);
	printf("%u %s; stuck locks: %llu; longest absence of a lock: %lld ms\n", siege.done, siege.harm->unit,
	        (unsigned long long)siege.stuck, (long long)siege.worst_ms);
	printf("stale writes: refused by the store that checks %llu, taken by the other %llu; notices "
	       "checked "
	       "%llu\n",
	        (unsigned long long)verdict.stale_refused, (unsigned long long)verdict.stale_taken,
	        (unsigned long long)verdict.notices);
	result_number(result, "counted", siege.done);
	result_number(result, "stuck", siege.stuck);
	result_number(result, "longest_absence_ms", (uint64_t)siege.worst_ms);
	result_number(result, "stale_refused", verdict.stale_refused);
	result_number(result, "stale_taken", verdict.stale_taken);
	result_number(result, "notices", verdict.notices);
	return result_close(result, &verdict, siege.stuck);
}
