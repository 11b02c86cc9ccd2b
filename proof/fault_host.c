/* SPDX-License-Identifier: MIT */
/* Faults of the machine: no processor time, no descriptors, no memory; and the operator, who breaks a
 * lock. */
#include "fault.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sneck/sneck.h>

enum { HOGS = 6 };

static void hog(struct strike *strike) {
	pid_t hogs[HOGS], parent = getpid();
	struct rusage used = { 0 };
	for (int i = 0; i < HOGS; i++) {
		hogs[i] = fork();
		if (hogs[i] == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (volatile uint64_t n = 0; getppid() == parent; n++)
				;
			_exit(0);
		}
	}
	rig_pass_time(rng_between(&strike->rng, 400, 1500));
	for (int i = 0; i < HOGS; i++) {
		if (hogs[i] <= 0)
			continue;
		kill(hogs[i], SIGKILL);
		wait4(hogs[i], NULL, 0, &used);
		/* Of this much time the others were deprived. */
		strike->bite +=
		        (uint64_t)used.ru_utime.tv_sec * 1000 + (uint64_t)used.ru_utime.tv_usec / 1000;
	}
}

static unsigned open_descriptors(pid_t pid) {
	char path[32];
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	DIR *dir = opendir(path);
	unsigned highest = 0;
	for (struct dirent *entry; dir && (entry = readdir(dir));)
		highest += entry->d_name[0] != '.';
	if (dir)
		closedir(dir);
	return highest;
}

/* No descriptor below the limit is free, and the connections are cut: it must connect again. */
static void exhaust_descriptors(struct strike *strike) {
	struct rig *rig = strike->rig;
	uint32_t slot = rng_below(&strike->rng, rig->shape.workers);
	struct rig_worker *worker = &rig->workers[slot];
	struct board_worker *place = &rig->board->workers[slot];
	struct rlimit old, low;
	if (worker->pid <= 0 || prlimit(worker->pid, RLIMIT_NOFILE, NULL, &old) != 0)
		return;
	low = old;
	low.rlim_cur = 3;
	strike->victim_pid = worker->pid;
	uint64_t failed = atomic_load(&place->failed) + atomic_load(&place->unknown);
	if (open_descriptors(worker->pid) == 0 || prlimit(worker->pid, RLIMIT_NOFILE, &low, NULL) != 0)
		return;
	rig_cut_clients(rig, slot);
	rig_pass_time(rng_between(&strike->rng, 200, 1500));
	(void)prlimit(worker->pid, RLIMIT_NOFILE, &old, NULL);
	strike->bite = atomic_load(&place->failed) + atomic_load(&place->unknown) - failed;
}

/* One allocation in so many fails, in one worker. */
static void fail_allocations(struct strike *strike) {
	struct rig *rig = strike->rig;
	uint32_t slot = rng_below(&strike->rng, rig->shape.workers);
	struct alloc_page *page = rig->workers[slot].alloc;
	if (!page)
		return;
	strike->victim_pid = rig->workers[slot].pid;
	int64_t before = atomic_load(&page->failed);
	for (int i = 0; i < 10; i++) {
		int64_t every = rng_between(&strike->rng, 1, 60);
		atomic_store(&page->every, rng_below(&strike->rng, 2) ? every : 0);
		atomic_store(&page->countdown, every);
		rig_pass_time(rng_between(&strike->rng, 10, 80));
	}
	atomic_store(&page->every, 0);
	atomic_store(&page->countdown, 0);
	strike->bite = (uint64_t)(atomic_load(&page->failed) - before);
}

static void break_one(struct strike *strike, sneck_client *client, uint32_t lock) {
	char name[24];
	sneck_lock_info *info = NULL;
	snprintf(name, sizeof(name), "fault-%u", lock);
	if (sneck_inspect(client, name, strlen(name), 0, &info, NULL) != 0)
		return;
	if (info->holder_n > 0 && info->party_n >= info->holder_n) {
		struct history_record form = { .op = HISTORY_BREAK, .lock = lock };
		struct history_record *record = history_begin(strike->rig->history, &form);
		int r = sneck_break(client, name, strlen(name),
		        info->parties[rng_below(&strike->rng, (uint32_t)info->holder_n)].id, "nemesis", 0,
		        NULL);
		record->deadline_ns = history_now();
		/* The victim may have used numbers up to the end of its lease: theirs begin there. */
		rig_tokens_ahead(strike->rig, SNECK_WAITER_LEASE_MS);
		history_end(record, r);
		strike->bite += r == 0;
	}
	sneck_lock_info_free(info);
}

static void break_locks(struct strike *strike) {
	sneck_client *client = NULL;
	if (rig_open(strike->rig, &client) != 0)
		return;
	for (int i = 0; i < 8; i++)
		break_one(strike, client, rng_below(&strike->rng, rig_locks(strike->rig)));
	sneck_close(client);
}

const struct fault_kind fault_host_kinds[] = {
	{ "cpu-hog", "other processes take the processors", hog, 0, NULL },
	{ "no-descriptors", "no descriptor is free, and the connections are cut", exhaust_descriptors, 0,
	        NULL },
	{ "no-memory", "allocations fail now and then", fail_allocations, 0, NULL },
	{ "break", "an operator breaks holds", break_locks, 0, NULL },
	{ NULL, NULL, NULL, 0, NULL },
};
