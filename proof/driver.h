/* SPDX-License-Identifier: MIT */
/* The nemesis: a server, workers in front of it, faults, and the account of it all.
 *
 * A *rig* is everything that runs: what the locks live on (site.h; one server has a clock that can be set,
 * and each worker a proxy of its own before it), a board, workers. A *campaign* builds one or more rigs, does
 * harm to them, has the checker judge their histories, and writes a result. Everything random follows from
 * the seed; what the scheduler makes of it does not, so a seed repeats the plan, not the microsecond. */
#ifndef PROOF_DRIVER_H
#define PROOF_DRIVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <sneck/sneck.h>

#include "false_clock.h"
#include "fault_alloc.h"
#include "history.h"
#include "layout.h"
#include "proxy.h"
#include "rng.h"
#include "server.h"
#include "site.h"
#include "worker_board.h"

enum { RIG_URL_MAX = SITE_URL_MAX };

/* How many of what. Workers come in groups; a group has locks of its own. */
struct rig_shape {
	const char *subject; /* what the workers use: worker_main.c knows the names */
	const struct proof_layout *layout;
	enum site_kind site;
	uint32_t lease_scale; /* leases are so many times as long; 0: once */
	uint32_t workers;
	uint32_t group; /* workers of one group; 0: all are one */
	uint32_t threads;
	uint32_t fast_locks; /* of each group */
	uint32_t slow_locks;
	uint32_t holding_ms;
	uint32_t command_ms;
	uint32_t ack_replicas; /* that must have a grant before it counts */
	uint32_t linger_ms;    /* for how long workers keep what they have released; 0: not */
	uint32_t races;
	bool proxies; /* each worker behind its own; else straight to the server */
	bool commands;
	bool plain;
	bool failing_memory; /* workers run with the allocator that can be made to fail */
};

struct rig_worker {
	pid_t pid; /* 0: not running */
	bool stopped;
	bool may_be_dead; /* a fault has killed it, or may have */
	uint32_t spawned; /* how often it was started */
	struct test_proxy proxy;
	struct alloc_page *alloc;
};

struct rig {
	struct rig_shape shape;
	uint64_t seed;
	char dir[64];
	struct site site;
	struct false_clock_page *clock;
	struct board *board;
	struct history *history;
	struct rig_worker workers[BOARD_WORKERS];
	int64_t ahead_until_ns; /* the last tokens may be ahead of the server's clock until then */
	uint32_t crashed;       /* workers that ended on their own, or in a way that no fault explains */
};

/* 0, or -1 with a message on stderr. */
int rig_start(struct rig *rig, const struct rig_shape *shape, uint64_t seed);
int rig_spawn(struct rig *rig, uint32_t slot);
/* Notice workers that have ended; those that no fault has killed count as crashed. They start again. */
void rig_reap(struct rig *rig);
/* Stop the workers, wait until the server holds nothing of them, and write down what is left. */
void rig_finish(struct rig *rig);
/* Kill what still runs; remove the directory unless it is to be kept. */
void rig_drop(struct rig *rig, bool keep);

/* ---- What lies on the server (driver_left.c) -----------------------------------------------------*/
int rig_open(struct rig *rig, sneck_client **ret_client); /* for the operator */
/* Keys, or holders and waiters, that are there though nobody is; those that may stay are not counted. */
uint64_t rig_left(struct rig *rig);
/* Of a layout that waits for dead waiters: do what its operator would, and empty the queues of these locks.
 * It counts as a fault of everybody's. */
void rig_clear_queues(struct rig *rig, uint32_t first_lock, uint32_t n);

void rig_kill(struct rig *rig, uint32_t slot); /* kill -9, reap, write it down */
void rig_freeze(struct rig *rig, uint32_t slot);
void rig_thaw(struct rig *rig, uint32_t slot);
/* Start the server again after a kill, under the same clock. */
int rig_restart_server(struct rig *rig);

uint64_t rig_grants(const struct rig *rig);
uint64_t rig_engaged(const struct rig *rig);  /* threads that hold or wait */
uint64_t rig_failures(const struct rig *rig); /* calls that failed, are unknown, lost or slow */
uint32_t rig_locks(const struct rig *rig);
void rig_pass_time(int64_t ms);
/* Note what the driver does or sees: to that process (0: to all), from begin_ns (0: now) to now. */
void rig_mark(struct rig *rig, unsigned op, pid_t pid, int64_t begin_ns);

/* The server has lost its state between begin_ns and now; `tokens`: and its tokens may begin anew. */
void rig_wiped(struct rig *rig, int64_t begin_ns, bool tokens);
/* There was a failover, from begin_ns until everybody has had time to leave the old primary: grants that had
 * not reached the new one are lost, and those who held them have been told. */
void rig_failed_over(struct rig *rig, int64_t begin_ns, uint32_t lock); /* HISTORY_ALL: of all locks */
/* Notice a failover that was not planned. */
void rig_look_at_primary(struct rig *rig);
/* Write down for how long a server was ready and did not run since the last call: a busy machine, not a
 * fault. */
void rig_note_stalls(struct rig *rig);
/* Cut the worker's connections to the servers. */
void rig_cut_clients(struct rig *rig, uint32_t slot);
/* From here on tokens may be ahead of the server's clock by as much. */
void rig_tokens_ahead(struct rig *rig, int64_t ms);

/* A worker with a thread in that phase, by preference one that will stay in it for `ms`; -1: none.
 * `ret_lock` (may be NULL): its lock. */
int rig_find(struct rig *rig, struct rng *rng, enum board_phase phase, int64_t ms, uint32_t *ret_lock);
/* The worker whose thread has waited longest for some lock. */
int rig_find_head_waiter(struct rig *rig, struct rng *rng, uint32_t *ret_lock);

/* ---- Judgement and results ----------------------------------------------------------------------*/
struct options;

struct verdict {
	uint64_t violations;
	uint32_t broken; /* bit i: that invariant (check.h) was violated */
	uint64_t acquisitions;
	uint64_t records;
	uint64_t stale_taken; /* by the store that does not check */
	uint64_t stale_refused;
	uint64_t notices;     /* holds for which the notice was checked */
	uint64_t excused;     /* overlaps that a lost state explains */
	uint64_t lost;        /* holds that were lost in a failover, and told */
	uint64_t old_numbers; /* grants to readers with the number of a phase that a failover brought back */
	uint64_t all_lost;    /* holds that were lost, for whatever reason */
	uint64_t unrenewed;   /* renewals that failed, asked for or in the background */
	uint64_t held_up;     /* as one of these two, on a machine that was busy with other things */
	int64_t sleep_ns;     /* the longest that somebody waited for a lock that nobody had */
	int64_t gap_ns;       /* the longest time in which nothing was granted */
};
/* Run the checker on the rig's histories and print its report; adds to *verdict. */
void driver_judge(struct rig *rig, struct verdict *verdict);

/* Say where the histories are, and how to play the same again. */
void driver_kept(const struct rig *rig, const struct options *options);

/* One line of progress on stderr, over the last one if it is a terminal. */
void driver_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

struct options {
	const char *campaign;
	const char *subject;
	const struct proof_layout *layout;
	enum site_kind site;
	const char *results; /* directory for the result's file; NULL: none */
	const char *only;    /* a fault's name, or the beginning of one */
	uint64_t seed;
	uint32_t count;
	uint64_t acquisitions; /* mixed: not fewer than these, however many faults that takes */
	double minutes;
	uint32_t ack_replicas;
	bool no_commands;  /* nobody runs the command, which does not ask replicas */
	bool nothing_lost; /* a hold that is lost is a violation, whatever the reason */
	uint32_t linger_ms;
	bool plan_only;
	bool keep;
};

/* Results: a file of one object, one line for each field. */
struct result;
struct result *result_open(const struct options *options);
void result_number(struct result *result, const char *name, uint64_t value);
void result_text(struct result *result, const char *name, const char *value);
/* What the checker found counts as violations; `more` are the campaign's own. 0: none. */
int result_close(struct result *result, const struct verdict *verdict, uint64_t more);

/* Campaigns: the exit status, 0 or 1. */
int campaign_mixed(const struct options *options);
int campaign_groups(const struct options *options); /* kill, stop, silence */
int campaign_cancel(const struct options *options);
int campaign_failover(const struct options *options); /* mixed, of the faults that end in one */
int campaign_slots(const struct options *options);    /* mixed, of moving slots: nothing may be lost */
int campaign_control(const struct options *options);  /* of subjects known to be wrong */
int campaign_messages(const struct options *options);

#endif
