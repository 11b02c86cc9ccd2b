/* SPDX-License-Identifier: MIT */
/* See sim_lists.h. */
#include "sim_lists.h"

#include <assert.h>
#include <string.h>

int sim_holder_at(const struct sim_lock *lock, int session, uint64_t attempt) {
	for (size_t i = 0; i < lock->holders_n; i++)
		if (lock->holders[i].session == session && lock->holders[i].attempt == attempt)
			return (int)i;
	return -1;
}

const struct sim_holder *sim_find_holder(const struct sim_lock *lock, int session, uint64_t attempt) {
	int i = sim_holder_at(lock, session, attempt);
	return i < 0 ? NULL : &lock->holders[i];
}

int sim_waiter_at(const struct sim_lock *lock, int session, uint64_t attempt) {
	for (size_t i = 0; i < lock->waiters_n; i++)
		if (lock->waiters[i].session == session && lock->waiters[i].attempt == attempt)
			return (int)i;
	return -1;
}

const struct sim_grave *sim_find_grave(const struct sim_lock *lock, int session, uint64_t attempt) {
	for (size_t i = 0; i < lock->graves_n; i++)
		if (lock->graves[i].session == session && lock->graves[i].attempt == attempt)
			return &lock->graves[i];
	return NULL;
}

bool sim_is_broken(const struct sim_lock *lock, int session, uint64_t attempt) {
	const struct sim_grave *grave = sim_find_grave(lock, session, attempt);
	return grave && grave->broken;
}

bool sim_any_writer(const struct sim_lock *lock) {
	for (size_t i = 0; i < lock->holders_n; i++)
		if (lock->holders[i].mode == 'W')
			return true;
	return false;
}

void sim_remove_waiter(struct sim_lock *lock, size_t at) {
	lock->waiters_n--;
	memmove(lock->waiters + at, lock->waiters + at + 1, (lock->waiters_n - at) * sizeof lock->waiters[0]);
}

void sim_take_token(struct sim_lock *lock, int64_t us) {
	lock->token = lock->token + 1 > (uint64_t)us ? lock->token + 1 : (uint64_t)us;
}

/* Readers whom a writer let in stay after it: that is a phase of its own. */
void sim_remove_holder(struct sim_lock *lock, size_t at, int64_t us) {
	char mode = lock->holders[at].mode;

	lock->holders_n--;
	memmove(lock->holders + at, lock->holders + at + 1, (lock->holders_n - at) * sizeof lock->holders[0]);
	if (mode == 'W' && lock->holders_n > 0 && !sim_any_writer(lock))
		sim_take_token(lock, us);
}

void sim_add_holder(struct sim_lock *lock, int session, uint64_t attempt, char mode, int64_t deadline_ms) {
	assert(lock->holders_n < SIM_HOLDERS);
	lock->holders[lock->holders_n++] = (struct sim_holder){ session, attempt, mode, false, deadline_ms };
}

void sim_add_note(struct sim_notes *notes, int to, const struct lock_note *note) {
	if (notes->n < SIM_NOTES) /* else it is lost, as messages may be */
		notes->items[notes->n++] = (struct sim_note){ to, *note };
}
