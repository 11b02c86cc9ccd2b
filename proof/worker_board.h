/* SPDX-License-Identifier: MIT */
/* One page that the driver and its workers share: the workers say what they are doing at this moment, so
 * that a fault can be aimed at a holder or a waiter, and count; the driver says when to stop.
 *
 * Everything is a hint or a counter: histories, not the board, are what is judged. */
#ifndef PROOF_WORKER_BOARD_H
#define PROOF_WORKER_BOARD_H

#include <stdatomic.h>
#include <stdint.h>

enum { BOARD_WORKERS = 160, BOARD_THREADS = 16, BOARD_LOCKS = 256 };

/* `detail` of a HISTORY_LEFT. */
enum board_left { BOARD_LEFT_KEYS = 1, BOARD_LEFT_DESCRIPTORS, BOARD_LEFT_THREADS, BOARD_LEFT_BYTES };

enum board_phase { BOARD_AWAY, BOARD_IDLE, BOARD_WAITING, BOARD_HOLDING, BOARD_CALLING };

struct board_thread {
	_Atomic uint32_t phase;
	_Atomic uint32_t lock;
	_Atomic int64_t since_ns; /* when the phase began */
	_Atomic int64_t until_ns; /* HOLDING: when it means to leave */
	_Atomic uint64_t cancel_at_ns;
	_Atomic uint64_t cancel_tag;
	uint64_t pad[3];
};

struct board_worker {
	_Atomic int32_t pid;    /* 0: nobody */
	_Atomic uint32_t ready; /* its threads run */
	_Atomic uint32_t stop;  /* for this one alone */
	_Atomic uint64_t grants;
	_Atomic uint64_t refused;
	_Atomic uint64_t failed; /* nothing happened: no connection, an error of the server's, no memory */
	_Atomic uint64_t unknown;
	_Atomic uint64_t lost;
	_Atomic uint64_t slow;       /* calls that took more than 100 ms longer than their wait */
	_Atomic uint64_t stalled_ns; /* for how long it was ready and did not run, in all */
	_Atomic uint64_t races;      /* cancel against grant */
	_Atomic uint64_t races_granted;
	_Atomic uint64_t stuck;    /* races after which the lock was not to be had */
	_Atomic uint64_t commands; /* runs of the command that reached its child */
	struct board_thread threads[BOARD_THREADS];
};

struct board_lock {
	_Atomic uint64_t grants;
	_Atomic int64_t last_grant_ns;
	/* A detached hold that waits to be adopted: 0 empty, 1 being written or read, 2 there. */
	_Atomic uint32_t parcel_state;
	char parcel_id[64];
	char parcel_mode;
	uint64_t parcel_hold;
	int64_t parcel_until_ns;
};

struct board {
	_Atomic uint32_t stop;
	_Atomic uint32_t next_actor;
	_Atomic uint32_t next_file;
	struct board_worker workers[BOARD_WORKERS];
	struct board_lock locks[BOARD_LOCKS];
};

/* DIR/board: made by the driver, mapped by all. NULL and errno. */
struct board *board_create(const char *dir);
struct board *board_open(const char *dir);
void board_close(struct board *board);

#endif
