/* SPDX-License-Identifier: MIT */
/* Everything that runs: starting it, seeing what it does, ending it. Workers are processes of this one's
 * own and die with it. All that a rig needs lies in one directory, which is kept when something was found.
 *
 * The driver writes a history, too: what it did and when, so that the checker can tell a hold that was
 * lost with its server from one that was granted twice. */
#include "driver.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "wait.h"
#include "worker.h"

enum {
	DRIVER_RECORDS = 200000,
	START_MS = 10000,
	END_MS = 15000,
	SWITCH_MS = 60000,
	LEFT_MS = 2000,
	STALL_NS = 100000000
};

void rig_pass_time(int64_t ms) {
	int64_t until_ms = test_now_ms() + ms;
	while (test_wait_step(until_ms))
		;
}

void rig_mark(struct rig *rig, unsigned op, pid_t pid, int64_t begin_ns) {
	struct history_record form = {
		.op = (uint8_t)op, .lock = HISTORY_ALL, .token = (uint64_t)pid, .invoke_ns = begin_ns
	};
	history_mark(rig->history, &form);
}

void rig_wiped(struct rig *rig, int64_t begin_ns, bool tokens) {
	struct history_record form = {
		.op = HISTORY_WIPE, .lock = HISTORY_ALL, .detail = tokens ? 1 : 2, .invoke_ns = begin_ns
	};
	history_mark(rig->history, &form);
}

void rig_failed_over(struct rig *rig, int64_t begin_ns, uint32_t lock) {
	struct history_record form = { .op = HISTORY_WIPE,
		.lock = lock,
		.detail = begin_ns < rig->ahead_until_ns ? 1 : 2,
		.flags = HISTORY_FAILOVER,
		.invoke_ns = begin_ns };
	history_mark(rig->history, &form);
}

void rig_note_stalls(struct rig *rig) {
	int64_t stalled_ns = site_stalled_ns(&rig->site);
	struct history_record form = { .op = HISTORY_FAULT,
		.lock = HISTORY_ALL,
		.flags = HISTORY_STOPPED,
		.detail = WORKER_STALL,
		.result = 1,
		.invoke_ns = history_now() - stalled_ns };
	if (rig->shape.site != SITE_SINGLE && stalled_ns >= STALL_NS)
		history_mark(rig->history, &form);
}

void rig_look_at_primary(struct rig *rig) {
	int primary = -1;
	(void)WAIT_UNTIL((primary = site_look(&rig->site)) >= 0, SWITCH_MS);
	if (primary == rig->site.primary) {
		rig->site.seen_ns = history_now();
		return;
	}
	driver_say("a failover that nobody asked for");
	rig_pass_time(LEFT_MS);
	rig_failed_over(rig, rig->site.seen_ns, HISTORY_ALL);
	site_seen(&rig->site);
}

void rig_tokens_ahead(struct rig *rig, int64_t ms) {
	int64_t until_ns = history_now() + (ms + 200) * 1000000;
	if (until_ns > rig->ahead_until_ns)
		rig->ahead_until_ns = until_ns;
}

/* ---- Starting -----------------------------------------------------------------------------------*/

static void *map_file(const char *path, size_t size) {
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	void *page = MAP_FAILED;
	if (fd >= 0 && ftruncate(fd, (off_t)size) == 0)
		page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd >= 0)
		close(fd);
	return page == MAP_FAILED ? NULL : page;
}

/* What is started between these two goes by the rig's clock. */
static void set_clock(struct rig *rig) {
	char path[128];
	snprintf(path, sizeof(path), "%s/clock", rig->dir);
	setenv("TEST_CLOCK_FILE", path, 1);
	setenv("LD_PRELOAD", PROOF_FALSE_CLOCK " " PROOF_NO_SYNC, 1);
}

static void unset_clock(void) {
	unsetenv("LD_PRELOAD");
	unsetenv("TEST_CLOCK_FILE");
}

int rig_restart_server(struct rig *rig) {
	set_clock(rig);
	int r = test_server_restart(&rig->site.single);
	unset_clock();
	return r;
}

static int start_site(struct rig *rig) {
	char path[128];
	snprintf(path, sizeof(path), "%s/clock", rig->dir);
	rig->clock = map_file(path, sizeof(*rig->clock));
	if (!rig->clock)
		return -1;
	set_clock(rig);
	int r = site_start(&rig->site, rig->shape.site);
	unset_clock();
	return r;
}

static uint32_t group_of(const struct rig *rig, uint32_t slot) {
	return rig->shape.group ? slot / rig->shape.group : 0;
}

/* The locks of one group. */
static uint32_t locks_each(const struct rig *rig) {
	return rig->shape.races ? rig->shape.threads : rig->shape.fast_locks + rig->shape.slow_locks;
}

static uint32_t first_lock_of(const struct rig *rig, uint32_t slot) {
	return group_of(rig, slot) * locks_each(rig);
}

uint32_t rig_locks(const struct rig *rig) {
	return (group_of(rig, rig->shape.workers - 1) + 1) * locks_each(rig);
}

struct arguments {
	char *argv[40];
	int argc;
	char text[20][32];
	int texts;
	char url[RIG_URL_MAX];
};

static void add(struct arguments *arguments, const char *name, const char *value) {
	arguments->argv[arguments->argc++] = (char *)(uintptr_t)name;
	if (value)
		arguments->argv[arguments->argc++] = (char *)(uintptr_t)value;
}

static void add_number(struct arguments *arguments, const char *name, uint64_t value) {
	char *text = arguments->text[arguments->texts++];
	snprintf(text, sizeof(arguments->text[0]), "%llu", (unsigned long long)value);
	add(arguments, name, text);
}

static void list_arguments(struct rig *rig, uint32_t slot, struct arguments *arguments) {
	const struct rig_shape *shape = &rig->shape;
	struct rig_worker *worker = &rig->workers[slot];
	add(arguments, PROOF_WORKER, NULL);
	proof_layout_url(shape->layout, shape->proxies ? worker->proxy.url : rig->site.url, arguments->url,
	        sizeof(arguments->url));
	add(arguments, "--url", arguments->url);
	add(arguments, "--dialect", shape->layout->dialect);
	add(arguments, "--dir", rig->dir);
	add(arguments, "--subject", shape->subject);
	add_number(arguments, "--seed", rig->seed + (uint64_t)worker->spawned * 1000003);
	add_number(arguments, "--slot", slot);
	add_number(arguments, "--threads", shape->threads);
	add_number(arguments, "--first-lock", first_lock_of(rig, slot));
	add_number(arguments, "--fast-locks", shape->fast_locks);
	add_number(arguments, "--slow-locks", shape->slow_locks);
	add_number(arguments, "--holding-ms", shape->holding_ms);
	add_number(arguments, "--command-ms", shape->command_ms);
	if (shape->ack_replicas)
		add_number(arguments, "--ack-replicas", shape->ack_replicas);
	if (shape->linger_ms)
		add_number(arguments, "--linger-ms", shape->linger_ms);
	if (shape->lease_scale)
		add_number(arguments, "--lease-scale", shape->lease_scale);
	if (shape->races)
		add_number(arguments, "--races", shape->races);
	if (shape->commands)
		add(arguments, "--commands", NULL);
	if (shape->plain)
		add(arguments, "--plain", NULL);
	arguments->argv[arguments->argc] = NULL;
}

int rig_spawn(struct rig *rig, uint32_t slot) {
	struct rig_worker *worker = &rig->workers[slot];
	struct arguments arguments = { .argc = 0 };
	char alloc_path[128];
	list_arguments(rig, slot, &arguments);
	snprintf(alloc_path, sizeof(alloc_path), "%s/alloc-%u", rig->dir, slot);
	struct board_worker *place = &rig->board->workers[slot];
	atomic_store(&place->ready, 0);
	for (int i = 0; i < BOARD_THREADS; i++)
		atomic_store(&place->threads[i].phase, BOARD_AWAY);
	if (rig->shape.failing_memory) {
		setenv("LD_PRELOAD", PROOF_FAULT_ALLOC, 1);
		setenv("PROOF_ALLOC_FILE", alloc_path, 1);
	}
	pid_t parent = getpid();
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(126);
		execv(PROOF_WORKER, arguments.argv);
		_exit(127);
	}
	unsetenv("LD_PRELOAD");
	if (pid < 0)
		return -1;
	worker->pid = pid;
	worker->stopped = worker->may_be_dead = false;
	worker->spawned++;
	return 0;
}

static bool all_ready(const struct rig *rig) {
	for (uint32_t i = 0; i < rig->shape.workers; i++)
		if (!atomic_load(&rig->board->workers[i].ready))
			return false;
	return true;
}

int rig_start(struct rig *rig, const struct rig_shape *shape, uint64_t seed) {
	memset(rig, 0, sizeof(*rig));
	rig->shape = *shape;
	rig->seed = seed;
	snprintf(rig->dir, sizeof(rig->dir), "/tmp/sneck-fault-XXXXXX");
	if (!mkdtemp(rig->dir)) {
		fprintf(stderr, "mkdtemp: %s\n", strerror(errno));
		rig->dir[0] = '\0';
		return -1;
	}
	char path[128];
	snprintf(path, sizeof(path), "%s/driver.history", rig->dir);
	rig->board = board_create(rig->dir);
	rig->history = history_create(path, DRIVER_RECORDS);
	if (!rig->board || !rig->history || start_site(rig) != 0) {
		fprintf(stderr, "the rig does not start: %s\n", strerror(errno));
		return -1;
	}
	for (uint32_t i = 0; i < shape->workers; i++) {
		snprintf(path, sizeof(path), "%s/alloc-%u", rig->dir, i);
		if (shape->failing_memory)
			rig->workers[i].alloc = map_file(path, sizeof(struct alloc_page));
		if (shape->proxies)
			test_proxy_start(&rig->workers[i].proxy, rig->site.single.socket_path);
		if (rig_spawn(rig, i) != 0)
			return -1;
	}
	if (!WAIT_UNTIL(all_ready(rig), START_MS)) {
		fprintf(stderr, "not every worker came up\n");
		return -1;
	}
	return 0;
}

/* ---- Deaths -------------------------------------------------------------------------------------*/

/* `since_ns`: not before then; 0: seen just now. */
static void has_ended(struct rig *rig, uint32_t slot, int status, int64_t since_ns) {
	struct rig_worker *worker = &rig->workers[slot];
	rig_mark(rig, HISTORY_DEATH, worker->pid, since_ns);
	bool expected = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && worker->may_be_dead;
	bool finished = WIFEXITED(status) && WEXITSTATUS(status) == 0 &&
	                (atomic_load(&rig->board->stop) || rig->shape.races);
	if (!expected && !finished) {
		rig->crashed++;
		fprintf(stderr, "\nworker %u (process %d) ended: %s %d\n", slot, (int)worker->pid,
		        WIFSIGNALED(status) ? "signal" : "status",
		        WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	}
	atomic_store(&rig->board->workers[slot].ready, 0);
	worker->pid = 0;
}

void rig_reap(struct rig *rig) {
	for (uint32_t i = 0; i < rig->shape.workers; i++) {
		int status;
		if (rig->workers[i].pid > 0 && waitpid(rig->workers[i].pid, &status, WNOHANG) > 0) {
			has_ended(rig, i, status, 0);
			if (!atomic_load(&rig->board->stop) && !rig->shape.races)
				(void)rig_spawn(rig, i);
		}
	}
}

void rig_kill(struct rig *rig, uint32_t slot) {
	struct rig_worker *worker = &rig->workers[slot];
	int status = 0;
	if (worker->pid <= 0)
		return;
	worker->may_be_dead = true;
	int64_t since_ns = history_now();
	kill(worker->pid, SIGKILL);
	while (waitpid(worker->pid, &status, 0) < 0 && errno == EINTR)
		;
	has_ended(rig, slot, status, since_ns);
	rig_clear_queues(rig, first_lock_of(rig, slot), locks_each(rig));
}

void rig_cut_clients(struct rig *rig, uint32_t slot) {
	const struct test_server *servers[SITE_PRIMARIES_MAX];
	if (rig->shape.proxies) {
		test_proxy_cut_all(&rig->workers[slot].proxy);
		return;
	}
	/* Those of the others as well: a server does not know which process is whose. */
	size_t n = site_primaries(&rig->site, servers);
	for (size_t i = 0; i < n; i++)
		test_redis_ok(servers[i], "CLIENT KILL TYPE normal");
}

void rig_freeze(struct rig *rig, uint32_t slot) {
	siginfo_t info;
	kill(rig->workers[slot].pid, SIGSTOP);
	while (waitid(P_PID, (id_t)rig->workers[slot].pid, &info, WSTOPPED | WEXITED | WNOWAIT) < 0 &&
	        errno == EINTR)
		;
	rig->workers[slot].stopped = true;
}

void rig_thaw(struct rig *rig, uint32_t slot) {
	kill(rig->workers[slot].pid, SIGCONT);
	rig->workers[slot].stopped = false;
}

/* ---- Ending -------------------------------------------------------------------------------------*/

static bool all_ended(struct rig *rig) {
	rig_reap(rig);
	for (uint32_t i = 0; i < rig->shape.workers; i++)
		if (rig->workers[i].pid > 0)
			return false;
	return true;
}

static void note_left(struct rig *rig, unsigned what, uint64_t how_many) {
	struct history_record form = {
		.op = HISTORY_LEFT, .lock = HISTORY_ALL, .detail = (uint8_t)what, .token = how_many
	};
	history_mark(rig->history, &form);
}

void rig_finish(struct rig *rig) {
	rig_look_at_primary(rig);
	rig_mark(rig, HISTORY_CALM, 0, 0);
	atomic_store(&rig->board->stop, 1);
	if (!WAIT_UNTIL(all_ended(rig), END_MS)) {
		for (uint32_t i = 0; i < rig->shape.workers; i++)
			if (rig->workers[i].pid > 0) {
				rig->crashed++;
				fprintf(stderr, "\nworker %u (process %d) does not end\n", i,
				        (int)rig->workers[i].pid);
			}
	}
	rig_mark(rig, HISTORY_QUIET, 0, 0);
	/* Those that were killed are held until their leases end. */
	int longest_ms = 8000 + 1000 * (int)rig->shape.lease_scale;
	(void)WAIT_UNTIL(rig_left(rig) == 0, longest_ms);
	note_left(rig, BOARD_LEFT_KEYS, rig_left(rig));
}

static int remove_files(const char *dir) {
	char command[160];
	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	return system(command);
}

void rig_drop(struct rig *rig, bool keep) {
	for (uint32_t i = 0; i < rig->shape.workers; i++) {
		struct rig_worker *worker = &rig->workers[i];
		if (worker->pid > 0) {
			kill(worker->pid, SIGKILL);
			waitpid(worker->pid, NULL, 0);
		}
		if (worker->proxy.state)
			test_proxy_stop(&worker->proxy);
		if (worker->alloc)
			munmap(worker->alloc, sizeof(*worker->alloc));
	}
	site_stop(&rig->site);
	if (rig->history)
		history_close(rig->history);
	board_close(rig->board);
	if (rig->clock)
		munmap(rig->clock, sizeof(*rig->clock));
	if (rig->dir[0] && !keep)
		(void)remove_files(rig->dir);
}

/* ---- Seeing -------------------------------------------------------------------------------------*/

uint64_t rig_grants(const struct rig *rig) {
	uint64_t sum = 0;
	for (uint32_t i = 0; i < rig->shape.workers; i++)
		sum += atomic_load(&rig->board->workers[i].grants);
	return sum;
}

uint64_t rig_engaged(const struct rig *rig) {
	uint64_t n = 0;
	for (uint32_t slot = 0; slot < rig->shape.workers; slot++)
		for (uint32_t i = 0; i < rig->shape.threads; i++) {
			uint32_t phase = atomic_load(&rig->board->workers[slot].threads[i].phase);
			n += phase == BOARD_HOLDING || phase == BOARD_WAITING;
		}
	return n;
}

uint64_t rig_failures(const struct rig *rig) {
	uint64_t sum = 0;
	for (uint32_t i = 0; i < rig->shape.workers; i++) {
		const struct board_worker *place = &rig->board->workers[i];
		sum += atomic_load(&place->failed) + atomic_load(&place->unknown) +
		       atomic_load(&place->lost) + atomic_load(&place->slow);
	}
	return sum;
}

static bool suits(struct rig *rig, uint32_t slot, uint32_t thread, enum board_phase phase, int64_t ms) {
	struct board_thread *place = &rig->board->workers[slot].threads[thread];
	if (!atomic_load(&rig->board->workers[slot].ready) || rig->workers[slot].stopped ||
	        atomic_load(&place->phase) != phase)
		return false;
	return ms == 0 || phase != BOARD_HOLDING ||
	       atomic_load(&place->until_ns) - history_now() >= ms * 1000000;
}

int rig_find(struct rig *rig, struct rng *rng, enum board_phase phase, int64_t ms, uint32_t *ret_lock) {
	uint32_t total = rig->shape.workers * rig->shape.threads;
	uint32_t start = rng_below(rng, total);
	for (uint32_t i = 0; i < total; i++) {
		uint32_t at = (start + i) % total, slot = at / rig->shape.threads;
		if (!suits(rig, slot, at % rig->shape.threads, phase, ms))
			continue;
		if (ret_lock)
			*ret_lock =
			        atomic_load(&rig->board->workers[slot].threads[at % rig->shape.threads].lock);
		return (int)slot;
	}
	return -1;
}

int rig_find_head_waiter(struct rig *rig, struct rng *rng, uint32_t *ret_lock) {
	uint32_t lock;
	int best = rig_find(rig, rng, BOARD_WAITING, 0, &lock);
	int64_t best_ns = INT64_MAX;
	for (uint32_t slot = 0; best >= 0 && slot < rig->shape.workers; slot++)
		for (uint32_t i = 0; i < rig->shape.threads; i++) {
			struct board_thread *place = &rig->board->workers[slot].threads[i];
			if (suits(rig, slot, i, BOARD_WAITING, 0) && atomic_load(&place->lock) == lock &&
			        atomic_load(&place->since_ns) < best_ns) {
				best_ns = atomic_load(&place->since_ns);
				best = (int)slot;
			}
		}
	if (best >= 0 && ret_lock)
		*ret_lock = lock;
	return best;
}
