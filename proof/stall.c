/* SPDX-License-Identifier: MIT */
/* The second number in /proc/PID/task/TID/schedstat is the time that the thread has spent on a run queue. It
 * grows when the thread gets to run again: a wait is seen when it is over. */
#include "stall.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool read_waited(pid_t pid, int tid, int64_t *ret_ns) {
	char path[64], text[96];
	snprintf(path, sizeof(path), "/proc/%d/task/%d/schedstat", (int)pid, tid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return false;
	text[n] = '\0';
	char *second = strchr(text, ' ');
	*ret_ns = second ? strtoll(second + 1, NULL, 10) : 0;
	return second != NULL;
}

static int64_t waited_since(struct stall_watch *watch, int tid, int64_t waited_ns) {
	for (int i = 0; i < watch->n; i++)
		if (watch->threads[i].tid == tid) {
			int64_t more_ns = waited_ns - watch->threads[i].waited_ns;
			watch->threads[i].waited_ns = waited_ns;
			return more_ns;
		}
	if (watch->n < STALL_THREADS) {
		watch->threads[watch->n].tid = tid;
		watch->threads[watch->n++].waited_ns = waited_ns;
	}
	return 0;
}

int64_t stall_look(struct stall_watch *watch, int64_t now_ns) {
	char path[32];
	int64_t longest_ns = 0;
	snprintf(path, sizeof(path), "/proc/%d/task", (int)watch->pid);
	DIR *tasks = opendir(path);
	for (struct dirent *task; tasks && (task = readdir(tasks));) {
		int64_t waited_ns;
		int tid = (int)strtol(task->d_name, NULL, 10);
		if (tid > 0 && read_waited(watch->pid, tid, &waited_ns)) {
			int64_t more_ns = waited_since(watch, tid, waited_ns);
			longest_ns = more_ns > longest_ns ? more_ns : longest_ns;
		}
	}
	if (tasks)
		closedir(tasks);
	watch->looked_ns = now_ns;
	return longest_ns;
}
