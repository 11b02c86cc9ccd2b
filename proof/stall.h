/* SPDX-License-Identifier: MIT */
/* How long the threads of a process were ready to run and did not, as the kernel counts it. On a busy
 * machine, or one whose processors are themselves taken away for seconds, one thread may stand still while
 * the others of its process run on: no clock of theirs shows it. */
#ifndef PROOF_STALL_H
#define PROOF_STALL_H

#include <stdint.h>
#include <sys/types.h>

enum { STALL_THREADS = 64 };

struct stall_watch {
	pid_t pid; /* set by the caller; the rest begins as zeros */
	int64_t looked_ns;
	int n;
	struct {
		int tid;
		int64_t waited_ns;
	} threads[STALL_THREADS];
};

/* The longest that one of its threads has waited for a processor since the last look. */
int64_t stall_look(struct stall_watch *watch, int64_t now_ns);

#endif
