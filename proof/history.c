/* SPDX-License-Identifier: MIT */
/* The history of one process: a header and records of one cache line each, in a shared mapping of a file.
 *
 * The file is the memory: what has been stored belongs to the kernel's page cache and outlives the process,
 * however it ends. So nothing is flushed, no lock is taken, and a record costs a fetch-and-add, a copy and a
 * reading of the clock.
 *
 * Order is what makes a half-written record readable. `op` is stored last of the first half: a slot whose
 * `op` is HISTORY_NONE was reserved and not filled. `return_ns` is stored last of the second half: whoever
 * sees it sees the result too. Both are release stores, so neither the compiler nor the processor moves what
 * belongs before them behind them. */
#include "history.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct header {
	uint64_t magic;
	uint32_t record_size;
	int32_t pid;
	uint64_t capacity;
	uint64_t next;  /* slots handed out; runs past `capacity` when the file is full */
	uint64_t holds; /* numbers of holds given out */
	uint32_t cut;   /* 1: a record found no slot */
	uint32_t unused[5];
};

_Static_assert(sizeof(struct header) == HISTORY_HEADER_SIZE, "the header is one cache line");

struct history {
	struct header *header;
	struct history_record *records;
	uint64_t capacity;
	size_t map_len;
};

int64_t history_now(void) {
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* ---- Writing ------------------------------------------------------------------------------------*/

static void *map_new_file(const char *path, size_t len) {
	int saved;
	void *map = MAP_FAILED;
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0)
		return NULL;
	if (ftruncate(fd, (off_t)len) == 0)
		map = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	saved = errno;
	close(fd);
	if (map == MAP_FAILED) {
		unlink(path);
		errno = saved;
		return NULL;
	}
	return map;
}

struct history *history_create(const char *path, uint64_t capacity) {
	struct history *history;

	if (capacity == 0 || capacity > (UINT64_C(1) << 40)) {
		errno = EINVAL;
		return NULL;
	}
	history = calloc(1, sizeof *history);
	if (!history)
		return NULL;
	history->capacity = capacity;
	history->map_len = sizeof(struct header) + capacity * sizeof(struct history_record);
	history->header = map_new_file(path, history->map_len);
	if (!history->header) {
		free(history);
		return NULL;
	}
	history->records = (struct history_record *)(history->header + 1);
	history->header->record_size = sizeof(struct history_record);
	history->header->pid = (int32_t)getpid();
	history->header->capacity = capacity;
	/* Last: a process that dies before it leaves a file that is no history, rather than a wrong one. */
	__atomic_store_n(&history->header->magic, HISTORY_MAGIC, __ATOMIC_RELEASE);
	return history;
}

void history_close(struct history *history) {
	if (!history)
		return;
	munmap(history->header, history->map_len);
	free(history);
}

static struct history_record *reserve(struct history *history) {
	uint64_t slot = __atomic_fetch_add(&history->header->next, 1, __ATOMIC_RELAXED);

	if (slot >= history->capacity) {
		__atomic_store_n(&history->header->cut, 1, __ATOMIC_RELAXED);
		slot = history->capacity - 1;
	}
	return &history->records[slot];
}

static void fill(struct history_record *record, const struct history_record *form, int64_t invoke_ns,
        int64_t return_ns) {
	struct history_record copy = *form;

	copy.invoke_ns = invoke_ns;
	copy.return_ns = return_ns;
	copy.op = HISTORY_NONE;
	*record = copy;
	__atomic_store_n(&record->op, form->op, __ATOMIC_RELEASE);
}

struct history_record *history_begin(struct history *history, const struct history_record *form) {
	struct history_record *record = reserve(history);

	fill(record, form, history_now(), 0);
	return record;
}

void history_end(struct history_record *record, int32_t result) {
	record->result = result;
	__atomic_store_n(&record->return_ns, history_now(), __ATOMIC_RELEASE);
}

void history_mark(struct history *history, const struct history_record *form) {
	struct history_record *record = reserve(history);
	int64_t now = history_now();

	fill(record, form, form->invoke_ns ? form->invoke_ns : now, form->return_ns ? form->return_ns : now);
}

uint64_t history_new_hold(struct history *history) {
	uint64_t number = __atomic_add_fetch(&history->header->holds, 1, __ATOMIC_RELAXED);

	return (uint64_t)(uint32_t)history->header->pid << 32 | (number & 0xffffffffu);
}

/* ---- Reading ------------------------------------------------------------------------------------*/

static int examine(const struct header *header, size_t len, struct history_file *ret) {
	uint64_t room = (len - sizeof *header) / sizeof(struct history_record);
	uint64_t next = __atomic_load_n(&header->next, __ATOMIC_ACQUIRE);

	if (__atomic_load_n(&header->magic, __ATOMIC_ACQUIRE) != HISTORY_MAGIC ||
	        header->record_size != sizeof(struct history_record) || header->capacity > room) {
		errno = EPROTO;
		return -1;
	}
	ret->records = (const struct history_record *)(header + 1);
	ret->n = next < header->capacity ? next : header->capacity;
	ret->pid = header->pid;
	ret->cut = (int)__atomic_load_n(&header->cut, __ATOMIC_RELAXED);
	return 0;
}

int history_open(const char *path, struct history_file *ret) {
	struct history_file file = { .path = path };
	struct stat st;
	int r = -1, saved;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) < 0)
		goto out;
	if (st.st_size < (off_t)sizeof(struct header)) {
		errno = EPROTO;
		goto out;
	}
	file.map_len = (size_t)st.st_size;
	file.map = mmap(NULL, file.map_len, PROT_READ, MAP_SHARED, fd, 0);
	if (file.map == MAP_FAILED)
		goto out;
	r = examine(file.map, file.map_len, &file);
	if (r < 0) {
		saved = errno;
		munmap(file.map, file.map_len);
		errno = saved;
		goto out;
	}
	*ret = file;
out:
	saved = errno;
	close(fd);
	errno = saved;
	return r;
}

void history_unmap(struct history_file *file) {
	if (file->map)
		munmap(file->map, file->map_len);
	*file = (struct history_file){ 0 };
}

const char *history_op_name(unsigned op) {
	static const char *const names[HISTORY_OPS] = {
		[HISTORY_NONE] = "(not filled)",
		[HISTORY_ACQUIRE] = "acquire",
		[HISTORY_RELEASE] = "release",
		[HISTORY_RENEW] = "renew",
		[HISTORY_UPGRADE] = "upgrade",
		[HISTORY_DOWNGRADE] = "downgrade",
		[HISTORY_DETACH] = "detach",
		[HISTORY_ADOPT] = "adopt",
		[HISTORY_BREAK] = "break",
		[HISTORY_CANCEL] = "cancel",
		[HISTORY_CLOSE] = "close",
		[HISTORY_VALID] = "valid",
		[HISTORY_STATE] = "state",
		[HISTORY_ENTER] = "enter",
		[HISTORY_LEAVE] = "leave",
		[HISTORY_STORE] = "store",
		[HISTORY_FAULT] = "fault",
		[HISTORY_WIPE] = "wipe",
		[HISTORY_CALM] = "calm",
		[HISTORY_DEATH] = "death",
		[HISTORY_QUIET] = "quiet",
		[HISTORY_LEFT] = "left",
	};

	return op < HISTORY_OPS ? names[op] : "(unknown)";
}
