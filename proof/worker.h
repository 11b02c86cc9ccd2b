/* SPDX-License-Identifier: MIT */
/* A process under test: threads that take, convert and release locks as a seed says, and write down what
 * they saw (history.h). What they talk to is a table of functions, so the same work can be done with
 * another lock library, or with one that is known to be wrong.
 *
 * The driver starts `sneck-worker` with options (worker_main.c) and sees through the board
 * (worker_board.h) what its threads are doing, to strike a holder or a waiter. */
#ifndef PROOF_WORKER_H
#define PROOF_WORKER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "history.h"
#include "layout.h"
#include "rng.h"
#include "witness.h"
#include "worker_board.h"

struct worker_config;

struct worker_wish {
	char mode; /* 'R' or 'W' */
	bool fixed;
	bool prefer_writers;
	int64_t wait_ms;
	int64_t lease_ms;
	uint32_t ack_replicas; /* so many must have the grant, within ack_ms; 0: none is asked */
	uint32_t ack_ms;
	uint64_t tag; /* for cancel; 0: none */
};

enum { WORKER_ID_MAX = 64, WORKER_STALL = 255 /* as the kind of a fault: the machine itself */ };

/* What is under test. Results are 0 or a negative SNECK_E… code; states are those of sneck_state. */
struct worker_subject {
	const char *name;
	int (*open)(const char *url, uint32_t command_ms, uint32_t linger_ms, void **ret_session);
	void (*close)(void *session);
	int (*acquire)(void *session, const char *lock, const struct worker_wish *wish, void **ret_hold);
	int (*release)(void *hold); /* frees the hold whatever it returns */
	int64_t (*left_ms)(void *hold);
	uint64_t (*token)(void *hold);
	int (*state)(void *hold);
	/* What follows may be NULL: the subject cannot do it, and no worker tries. */
	int (*fd)(void *hold); /* readable while the state is not HELD; negative: none */
	int (*renew)(void *hold, int64_t lease_ms);
	int (*upgrade)(void *hold, const struct worker_wish *wish);
	int (*downgrade)(void *hold);
	int (*cancel)(void *session, uint64_t tag);
	int (*detach)(void *hold, int64_t lease_ms, char ret_id[WORKER_ID_MAX]);
	int (*adopt)(void *session, const char *lock, const char *id, const struct worker_wish *wish,
	        void **ret_hold);
	/* The whole worker is another program: this starts it, and all of the above is NULL. */
	int (*run)(const struct worker_config *config);
};

extern const struct worker_subject worker_sneck;
extern const struct worker_subject worker_naive;   /* SET NX, DEL: to be caught */
extern const struct worker_subject worker_redispy; /* redis-py's Lock, in Python */

/* What the options said. */
struct worker_config {
	const struct worker_subject *subject;
	const struct proof_layout *layout;
	const char *url; /* with the dialect */
	const char *dir; /* of the run: board, witness and histories */
	uint64_t seed;
	uint32_t slot; /* its place on the board */
	uint32_t threads;
	uint32_t first_lock; /* of those that it uses */
	uint32_t fast_locks; /* short sections: the bulk of the work */
	uint32_t slow_locks; /* behind them: sections long enough for leases to be renewed, or to end */
	uint32_t command_ms;
	uint32_t linger_ms;    /* for how long what is released is kept; 0: not */
	uint32_t races;        /* not 0: play this many races of cancel against grant instead */
	uint32_t ack_replicas; /* as worker_wish.ack_replicas */
	uint32_t lease_scale;  /* leases are so many times as long; 0: once */
	uint32_t holding_ms;   /* how long a section on a slow lock takes at most */
	int64_t began_ns;      /* of a child: when the command that started it was started */
	bool commands;         /* one of the threads works through the command */
	bool plain;            /* write holds only, one wait each: for campaigns that look at one thing */
};

struct worker_thread;
struct worker_hold;

/* A hold that is looked after while its thread is in a call. */
struct worker_watch {
	struct worker_thread *thread; /* NULL: none */
	struct worker_hold *hold;     /* to be looked at; NULL: the call may end it, only `fd` may be used */
	int fd;                       /* -1: none */
	struct history_record form;
};

struct worker_attendant {
	pthread_t thread;
	atomic_bool stop;
	pthread_mutex_t mutex; /* of the watches */
	struct worker_watch watches[BOARD_THREADS];
};

struct worker {
	struct worker_config config;
	struct worker_attendant attendant;
	void *session;
	struct history *history;
	struct witness *witness;
	struct board *board;
	struct board_worker *place;
};

/* A hold, and what its program has been told about it. */
struct worker_hold {
	void *handle;
	uint64_t number; /* in the history */
	uint32_t lock;
	char mode;
	uint8_t flags;
	int64_t valid_told_ns;
	int state_told;
};

struct worker_thread {
	struct worker *worker;
	struct board_thread *place;
	struct rng rng;
	uint32_t actor;
	uint32_t index;
	uint32_t turns;
};

/* "fault-N": the name of a lock. */
enum { WORKER_NAME_MAX = 24 };
const char *worker_lock_name(uint32_t lock, char out[WORKER_NAME_MAX]);

/* ---- Calls on locks, written down (worker_call.c) ------------------------------------------------*/
/* 0 and *ret_hold, or the code. `owner`: the thread holds this lock already. */
int worker_acquire(struct worker_thread *thread, void *session, uint32_t lock, const struct worker_wish *wish,
        bool owner, struct worker_hold *ret_hold);
int worker_release(struct worker_thread *thread, struct worker_hold *hold);
int worker_renew(struct worker_thread *thread, struct worker_hold *hold, int64_t lease_ms);
int worker_upgrade(struct worker_thread *thread, struct worker_hold *hold, const struct worker_wish *wish);
int worker_downgrade(struct worker_thread *thread, struct worker_hold *hold);
int worker_detach(
        struct worker_thread *thread, struct worker_hold *hold, int64_t lease_ms, char ret_id[WORKER_ID_MAX]);
int worker_adopt(struct worker_thread *thread, uint32_t lock, const char *id, uint64_t number, char mode,
        const struct worker_wish *wish, struct worker_hold *ret_hold);
/* Ask the library about the hold and write down what is new. True: it is valid for another `need_ms`. */
bool worker_look(struct worker_thread *thread, struct worker_hold *hold, int64_t need_ms);

/* ---- The thread beside them (worker_attend.c) -----------------------------------------------------*/
void worker_attend(struct worker *worker);
void worker_dismiss(struct worker *worker);
/* Around a call on a hold: what the program would be told about it meanwhile is written down. `ends`: the
 * call may free the handle. */
void worker_watch(struct worker_thread *thread, struct worker_hold *hold, bool ends);
void worker_unwatch(struct worker_thread *thread);

/* ---- Parts (worker_turn.c, worker_section.c, worker_race.c, worker_command.c) ---------------------*/
/* One acquisition with whatever the seed adds to it. */
void worker_turn(struct worker_thread *thread);
/* What a holder does: looks, the witness, the stores. Up to `ms` long; ends when the hold is lost. False: it
 * went away from an end that was near, without leaving what the lock protects in order, and must do no more
 * with the hold than to release it. */
bool worker_section(struct worker_thread *thread, struct worker_hold *hold, int64_t ms);
/* `rounds` races on a lock of the thread's own, between two sessions. */
void worker_race(struct worker_thread *thread, uint32_t rounds);
/* Run `sneck run` on the lock, with worker_child as the command. */
void worker_command(struct worker_thread *thread, uint32_t lock);
/* The command's side: main() of the process that `sneck run` has started. */
int worker_child(const struct worker_config *config);

/* Everything: open, run the threads until the board says stop, close. The exit status. */
int worker_run(const struct worker_config *config);
void worker_sleep_us(int64_t us);

#endif
