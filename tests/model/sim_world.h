/* SPDX-License-Identifier: MIT */
/* A world without sockets and clocks: some sessions (each a lock core and a program that uses it), one
 * reference server, and a network that loses, delays and repeats. Time is a number.
 *
 *   sim_world.c    sessions, the network, the hooks of the cores
 *   sim_program.c  what programs do: acquire, release, convert, detach, adopt, cancel, end
 *   sim_check.c    what must be true after every event */
#ifndef TESTS_MODEL_SIM_WORLD_H
#define TESTS_MODEL_SIM_WORLD_H

#include "base/clock.h"
#include "base/list.h"
#include "lock/core.h"
#include "sim_server.h"

enum {
	WORLD_LOCKS = 2,
	WORLD_SESSIONS = 4,
	WORLD_OWNERS = 3,
	WORLD_NOTES = 64,
	WORLD_DETACHED = 64,
	WORLD_WAIT_LEASE_MS = 3000,
	WORLD_BEAT_MS = 1000
};
/* The server's clock shows this at time 0 of the world. */
#define WORLD_EPOCH_US INT64_C(1700000000000000)

struct world;

struct session {
	struct world *world;
	struct lock_core *core; /* NULL: there is none at the moment */
	int id;                 /* never used twice */
	bool link_up, sub_up;
	bool closing;
	unsigned owners_gone; /* bit by owner */
	struct list transits; /* requests in the order they were sent */
	struct list handles;
	struct list wishes;
	size_t handles_n, wishes_n;
};

/* A request under way, or its answer. */
struct transit {
	struct list node;
	struct lock_call *call;
	struct lock_op op;
	int lock;
	int64_t sent_ns;
	bool written;        /* it has left */
	bool unknown_script; /* it did not run; it will be sent again with the script's text */
	bool with_text;
	bool answered; /* `outcome` is on its way back */
	struct lock_outcome outcome;
};

/* A request whose connection broke, but which the server will read all the same. */
struct straggler {
	struct list node;
	int session;
	int lock;
	int64_t until_ns; /* nothing is late for longer than attempts are buried */
	struct lock_op op;
};

/* The program's handle of a hold. */
struct handle {
	struct list node;
	struct lock_hold lock;
	struct session *session;
	int lock_index;
	int busy;  /* unfinished wishes about it */
	bool held; /* the acquisition has succeeded */
	bool freed_later;
	bool broken; /* an operator has ended it */
	enum hold_state told;
	/* What check_world saw last. */
	uint64_t attempt, conv_attempt;
	int64_t valid_until_ns;
};

struct wish {
	struct list node;
	struct lock_wish wish;
	struct session *session;
	struct handle *handle; /* NULL once a release has begun */
	bool given_up;         /* by the program, with `asked_code` */
	int64_t began_ns;
};

struct detached {
	bool open; /* somebody may still adopt it */
	int lock;
	int64_t until_ns; /* the server keeps it at least so long; 0: unless it was adopted */
	char id[LOCK_ID_MAX];
};

struct world {
	uint64_t seed, rng;
	int64_t now_ns;
	int64_t step;
	bool trace;
	bool quiet;       /* no more faults, no more new wishes */
	bool punctual;    /* timers run when they are due */
	bool inside_core; /* hooks may not call back */
	bool verify_grants;
	int busy;          /* of 1000 steps, how many are the programs' */
	int loss;          /* of 1000 steps, how many break a connection */
	int forgets;       /* of 1000 requests, how many find that the server has forgotten the script */
	int starved;       /* of 1000 allocations of a core, how many fail */
	int refusals;      /* of 1000 requests, how many the server refuses to run */
	bool breaks_holds; /* an operator does */
	int lingers;       /* of 1000 acquisitions, how many are to linger */
	int acks;          /* of 1000 acquisitions, how many want replicas to have them */
	int budget;
	struct sim_lock locks[WORLD_LOCKS];
	uint64_t token_max[WORLD_LOCKS], write_token_max[WORLD_LOCKS];
	uint64_t writer[WORLD_LOCKS]; /* whose the last WRITE token is */
	struct session sessions[WORLD_SESSIONS];
	int sessions_n;
	int session_counter;
	struct list stragglers;
	size_t notes_n;
	struct sim_note notes[WORLD_NOTES];
	size_t detached_n;
	struct detached detached[WORLD_DETACHED];
	/* What happened, to see that the test is worth its time. */
	uint64_t events, calls, completed[8], succeeded[8], lost, breaks, retakes, recalls;
};

/* sim_world.c */
void world_open(struct world *world, uint64_t seed, bool trace);
void world_close(struct world *world);
uint64_t world_random(struct world *world);
int world_below(struct world *world, int n); /* 0 … n-1 */
bool world_chance(struct world *world, int in_1000);
void world_trace(const struct world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));
void world_fail(const struct world *world, const char *format, ...)
        __attribute__((format(printf, 2, 3), noreturn));
int64_t world_server_us(const struct world *world);
int64_t world_from_server_ms(int64_t server_ms); /* in the world's nanoseconds */

void session_start(struct world *world, struct session *session);
void session_crash(struct session *session);
void session_break(struct session *session, bool down);
void session_link_up(struct session *session);
void session_sub(struct session *session, bool up);
void session_write(struct session *session);   /* what is still in line leaves */
bool session_execute(struct session *session); /* the server reads one request; false: there is none */
bool session_deliver(struct session *session); /* one answer arrives; false: there is none */
void session_run(struct session *session);
void world_straggle(struct world *world, bool lose); /* one straggler arrives, or never does */
void world_break(struct world *world);               /* an operator ends some hold */
void world_note(struct world *world, bool lose, bool twice);
void world_settle(struct world *world); /* after every event */

/* Calls of calloc from inside a core end here; sim_new is for the world's own. */
void *__wrap_calloc(size_t n, size_t size);
void *sim_new(size_t size);

/* sim_program.c */
void program_step(struct session *session);
void program_finish(struct wish *wish); /* the hook: the wish is done */
void program_release(struct session *session, struct handle *handle);
void program_close(struct session *session);
void program_forget(struct session *session); /* frees handles and wishes: the process is gone */
void program_tidy(struct session *session, bool all);

/* sim_check.c */
void check_world(struct world *world);
bool owner_has_more(const struct handle *handle); /* of this lock */
void check_token(struct handle *handle, bool adopted);
void check_loss(const struct handle *handle);
void check_end(struct world *world);

#endif
