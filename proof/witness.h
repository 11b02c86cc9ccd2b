/* SPDX-License-Identifier: MIT */
/* What a lock is for, done for real in every critical section: a counter that is read, and written when the
 * section ends, without any protection but the lock's; a name that only one can make; and two stores, of
 * which one looks at tokens. Two that are inside at once show here without any clock.
 *
 *   struct witness_visit visit;
 *   witness_enter(witness, history, &form, &visit);   form: lock, actor, hold, mode of the hold
 *   … the work …
 *   witness_store(witness, history, &form);           and form.token
 *   witness_leave(witness, history, &visit);
 *
 * Each writes its record into the history. One visit per hold at a time; nested holds of one owner do not
 * visit again, and a hold that is to be converted leaves first and enters again.
 *
 * The layout, for workers in other languages (integers in the machine's order). `DIR/witness` has
 * WITNESS_LOCKS cells of 64 bytes, cell n for lock n: counter u64, hold that wrote it last u64, greatest
 * token taken by the store that checks u64, last token written to the one that does not u64, zeros. A writer
 * reads the counter when it enters and stores it plus one when it leaves. `DIR/section-N` is a symbolic link
 * that the writer inside lock N has made, and its target is the number of its hold in decimal: like
 * open(O_CREAT|O_EXCL) it can be made only once, and unlike a file it never exists without saying whose it
 * is. Who finds one replaces it by its own, because a killed process leaves it behind. */
#ifndef PROOF_WITNESS_H
#define PROOF_WITNESS_H

#include <stdbool.h>
#include <stdint.h>

#include "history.h"

enum { WITNESS_LOCKS = 4096 };
#define WITNESS_SOMEBODY UINT64_MAX /* as the hold that was met: one that is gone without a name */

struct witness;

struct witness_visit {
	struct history_record form;
	uint64_t counter; /* as it was read */
};

/* Make or open the witness of a run. NULL and errno. */
struct witness *witness_open(const char *dir);
void witness_close(struct witness *witness);

/* True: nobody else was met. */
bool witness_enter(struct witness *witness, struct history *history, const struct history_record *form,
        struct witness_visit *ret_visit);
bool witness_leave(struct witness *witness, struct history *history, const struct witness_visit *visit);

/* Offer form->token to both stores. True: the one that checks has taken it. */
bool witness_store(struct witness *witness, struct history *history, const struct history_record *form);

#endif
