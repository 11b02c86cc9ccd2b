/* SPDX-License-Identifier: MIT */
/* The witness. What it shows must come from the lock under test alone, so nothing here protects the counter:
 * it is read and written with plain (relaxed) accesses, as far apart as the section is long. Whoever was
 * inside at the same time has either changed it meanwhile or left its name in the section's link.
 *
 * Who was met is written down with the record: whether that is a fault of the lock or a program that went on
 * after the end of its lease (which no lock can prevent) is for the checker to say, not for the witness.
 *
 * The store that checks is the resource that design documents ask for: one atomic comparison and exchange of
 * the greatest token. It must itself be beyond doubt, or it would prove nothing. */
#include "witness.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct cell {
	uint64_t counter;
	uint64_t last_hold;
	uint64_t checked_token;
	uint64_t unchecked_token;
	uint64_t unused[4];
};

_Static_assert(sizeof(struct cell) == 64, "as witness.h says");

enum { DIR_MAX = 200, LINK_MAX_LEN = 24, PATH_MAX_LEN = DIR_MAX + 64 };

struct witness {
	struct cell *cells;
	char dir[DIR_MAX];
};

static const size_t map_len = WITNESS_LOCKS * sizeof(struct cell);

struct witness *witness_open(const char *dir) {
	char path[PATH_MAX_LEN];
	struct witness *witness = calloc(1, sizeof *witness);
	void *map = MAP_FAILED;
	int fd, saved;

	if (!witness)
		return NULL;
	if (snprintf(witness->dir, sizeof witness->dir, "%s", dir) >= (int)sizeof witness->dir) {
		free(witness);
		errno = ENAMETOOLONG;
		return NULL;
	}
	snprintf(path, sizeof path, "%s/witness", dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd >= 0 && ftruncate(fd, (off_t)map_len) == 0)
		map = mmap(NULL, map_len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	saved = errno;
	if (fd >= 0)
		close(fd);
	if (map == MAP_FAILED) {
		free(witness);
		errno = saved;
		return NULL;
	}
	witness->cells = map;
	return witness;
}

void witness_close(struct witness *witness) {
	if (!witness)
		return;
	munmap(witness->cells, map_len);
	free(witness);
}

static struct cell *cell_of(struct witness *witness, uint32_t lock) {
	if (lock >= WITNESS_LOCKS) {
		fprintf(stderr, "witness: lock %" PRIu32 ", but there are %d cells\n", lock, WITNESS_LOCKS);
		abort();
	}
	return &witness->cells[lock];
}

static void link_path(const struct witness *witness, uint32_t lock, char out[PATH_MAX_LEN]) {
	snprintf(out, PATH_MAX_LEN, "%s/section-%" PRIu32, witness->dir, lock);
}

/* Whose link it is; 0: there is none. */
static uint64_t link_owner(const char *path) {
	char target[LINK_MAX_LEN + 1];
	ssize_t len = readlink(path, target, LINK_MAX_LEN);

	if (len <= 0)
		return 0;
	target[len] = '\0';
	return strtoull(target, NULL, 10);
}

/* 0, or the hold that was there first. The link is ours behind it in any case. */
static uint64_t make_link(const struct witness *witness, uint32_t lock, uint64_t hold) {
	char path[PATH_MAX_LEN], own[PATH_MAX_LEN + LINK_MAX_LEN], target[LINK_MAX_LEN];
	uint64_t met;

	link_path(witness, lock, path);
	snprintf(target, sizeof target, "%" PRIu64, hold);
	for (;;) {
		if (symlink(target, path) == 0)
			return 0;
		if (errno != EEXIST) {
			perror(path);
			abort();
		}
		met = link_owner(path);
		if (met)
			break; /* else it has just gone, and the two of us did not meet */
	}
	snprintf(own, sizeof own, "%s.%s", path, target);
	if (symlink(target, own) < 0 || rename(own, path) < 0) {
		perror(own);
		abort();
	}
	return met;
}

bool witness_enter(struct witness *witness, struct history *history, const struct history_record *form,
        struct witness_visit *ret_visit) {
	struct cell *cell = cell_of(witness, form->lock);
	struct history_record *record;
	char path[PATH_MAX_LEN];
	uint64_t met;

	ret_visit->form = *form;
	ret_visit->form.op = HISTORY_ENTER;
	ret_visit->form.token = 0;
	ret_visit->form.deadline_ns = 0;
	ret_visit->form.valid_until_ns = 0;
	record = history_begin(history, &ret_visit->form);
	if (form->mode == 'W') {
		met = make_link(witness, form->lock, form->hold);
	} else {
		link_path(witness, form->lock, path);
		met = link_owner(path);
	}
	ret_visit->counter = __atomic_load_n(&cell->counter, __ATOMIC_RELAXED);
	record->token = met;
	history_end(record, met ? -1 : 0);
	return !met;
}

/* The writer's way out: the link, if it is still ours, and the counter. Who was met, or 0. */
static uint64_t leave_as_writer(
        struct witness *witness, struct cell *cell, const struct witness_visit *visit) {
	uint64_t hold = visit->form.hold, met = 0, owner;
	char path[PATH_MAX_LEN];

	if (__atomic_load_n(&cell->counter, __ATOMIC_RELAXED) != visit->counter)
		met = __atomic_load_n(&cell->last_hold, __ATOMIC_RELAXED);
	__atomic_store_n(&cell->last_hold, hold, __ATOMIC_RELAXED);
	__atomic_store_n(&cell->counter, visit->counter + 1, __ATOMIC_RELAXED);
	link_path(witness, visit->form.lock, path);
	owner = link_owner(path);
	if (owner == hold)
		unlink(path);
	else if (!met)
		met = owner ? owner : WITNESS_SOMEBODY;
	return met;
}

static uint64_t leave_as_reader(
        struct witness *witness, struct cell *cell, const struct witness_visit *visit) {
	char path[PATH_MAX_LEN];

	if (__atomic_load_n(&cell->counter, __ATOMIC_RELAXED) != visit->counter)
		return __atomic_load_n(&cell->last_hold, __ATOMIC_RELAXED);
	link_path(witness, visit->form.lock, path);
	return link_owner(path);
}

bool witness_leave(struct witness *witness, struct history *history, const struct witness_visit *visit) {
	struct cell *cell = cell_of(witness, visit->form.lock);
	struct history_record form = visit->form;
	struct history_record *record;
	uint64_t met;

	form.op = HISTORY_LEAVE;
	record = history_begin(history, &form);
	met = form.mode == 'W' ? leave_as_writer(witness, cell, visit)
	                       : leave_as_reader(witness, cell, visit);
	record->token = met;
	history_end(record, met ? -1 : 0);
	return !met;
}

bool witness_store(struct witness *witness, struct history *history, const struct history_record *form) {
	struct cell *cell = cell_of(witness, form->lock);
	struct history_record copy = *form;
	struct history_record *record;
	uint64_t greatest;

	copy.op = HISTORY_STORE;
	record = history_begin(history, &copy);
	record->detail = form->token < __atomic_load_n(&cell->unchecked_token, __ATOMIC_RELAXED);
	__atomic_store_n(&cell->unchecked_token, form->token, __ATOMIC_RELAXED);
	greatest = __atomic_load_n(&cell->checked_token, __ATOMIC_ACQUIRE);
	while (form->token >= greatest && !__atomic_compare_exchange_n(&cell->checked_token, &greatest,
	                                          form->token, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
		continue;
	history_end(record, form->token >= greatest);
	return form->token >= greatest;
}
