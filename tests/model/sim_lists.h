/* SPDX-License-Identifier: MIT */
/* The lists of the reference server: who holds, who waits, what is buried, and the number of the phase. They
 * decide nothing; sim_server.c does. */
#ifndef TESTS_MODEL_SIM_LISTS_H
#define TESTS_MODEL_SIM_LISTS_H

#include "sim_server.h"

/* Where it is in its list; -1: nowhere. */
int sim_holder_at(const struct sim_lock *lock, int session, uint64_t attempt);
int sim_waiter_at(const struct sim_lock *lock, int session, uint64_t attempt);
const struct sim_grave *sim_find_grave(const struct sim_lock *lock, int session, uint64_t attempt);
bool sim_any_writer(const struct sim_lock *lock);

void sim_take_token(struct sim_lock *lock, int64_t us);
void sim_add_holder(struct sim_lock *lock, int session, uint64_t attempt, char mode, int64_t deadline_ms);
void sim_remove_holder(struct sim_lock *lock, size_t at, int64_t us);
void sim_remove_waiter(struct sim_lock *lock, size_t at);
void sim_add_note(struct sim_notes *notes, int to, const struct lock_note *note);

#endif
