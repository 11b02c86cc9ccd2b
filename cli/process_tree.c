/* SPDX-License-Identifier: MIT */
/* Ending a whole tree of processes. A process group is left by setsid(2), a parent-death signal is
 * not inherited: what remains true of every descendant is who its parent is, provided that orphans
 * come back to an ancestor that is a subreaper. So /proc is read for the parents of all processes.
 *
 * Processes may start others meanwhile: callers repeat until nothing is found. Memory comes from
 * mmap and directories from getdents64, because this also runs in the child of a program that had
 * threads, where only system calls are safe. */
#include "process_tree.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PROCESSES_MAX = 1 << 20, DIRECTORY_BYTES = 32768, STAT_BYTES = 512 };

struct process {
	pid_t pid;
	pid_t parent;
	bool descendant;
	bool dead; /* a zombie */
};

struct table {
	struct process *rows; /* ascending, as the kernel lists them */
	size_t count;
};

/* What getdents64(2) fills in. */
struct directory_entry {
	uint64_t inode;
	int64_t offset;
	unsigned short length;
	unsigned char type;
	char name[];
};

static pid_t parse_pid(const char *text) {
	pid_t pid = 0;

	for (; *text; text++) {
		if (*text < '0' || *text > '9')
			return 0;
		pid = pid * 10 + (*text - '0');
	}
	return pid;
}

/* "4121 (name) S 4100 …": the name may contain anything. */
static bool read_process(int proc_fd, const char *name, struct process *ret) {
	char path[32], text[STAT_BYTES];
	size_t len = strlen(name);

	if (len + sizeof("/stat") > sizeof(path))
		return false;
	memcpy(path, name, len);
	memcpy(path + len, "/stat", sizeof("/stat"));
	int fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ssize_t n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return false;
	text[n] = '\0';
	char *end = strrchr(text, ')');
	if (!end || end + 4 >= text + n)
		return false;
	char *parent = end + 4;
	parent[strcspn(parent, " ")] = '\0';
	*ret = (struct process){
		.pid = parse_pid(name), .parent = parse_pid(parent), .dead = end[2] == 'Z' || end[2] == 'X'
	};
	return true;
}

static void read_table(struct table *table) {
	_Alignas(struct directory_entry) char buffer[DIRECTORY_BYTES];
	int proc_fd = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	long n;

	table->count = 0;
	if (proc_fd < 0)
		return;
	while ((n = syscall(SYS_getdents64, proc_fd, buffer, sizeof(buffer))) > 0) {
		for (long at = 0; at < n;) {
			const struct directory_entry *entry = (const void *)(buffer + at);
			if (parse_pid(entry->name) > 0 && table->count < PROCESSES_MAX &&
			        read_process(proc_fd, entry->name, &table->rows[table->count]))
				table->count++;
			at += entry->length;
		}
	}
	close(proc_fd);
}

static const struct process *find(const struct table *table, pid_t pid) {
	size_t low = 0, high = table->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (table->rows[middle].pid < pid)
			low = middle + 1;
		else
			high = middle;
	}
	return low < table->count && table->rows[low].pid == pid ? &table->rows[low] : NULL;
}

/* Children have larger numbers than their parents, until the numbers begin anew: one or two passes. */
static void mark_descendants(struct table *table, pid_t root) {
	bool changed = true;

	while (changed) {
		changed = false;
		for (size_t i = 0; i < table->count; i++) {
			struct process *one = &table->rows[i];
			const struct process *parent = find(table, one->parent);
			if (!one->descendant && one->pid != root &&
			        (one->parent == root || (parent && parent->descendant)))
				changed = one->descendant = true;
		}
	}
}

size_t kill_descendants(pid_t root) {
	size_t size = PROCESSES_MAX * sizeof(struct process), sent = 0;
	struct table table = { .count = 0 };

	table.rows =
	        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (table.rows == MAP_FAILED)
		return 0;
	read_table(&table);
	mark_descendants(&table, root);
	for (size_t i = 0; i < table.count; i++) {
		if (table.rows[i].descendant && !table.rows[i].dead && kill(table.rows[i].pid, SIGKILL) == 0)
			sent++;
	}
	munmap(table.rows, size);
	return sent;
}
