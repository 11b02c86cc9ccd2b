/* SPDX-License-Identifier: MIT */
/* The command as a client: a worker's thread runs `sneck run NAME -- sneck-worker --child …`. The child
 * believes that the lock is held for as long as it lives, because the command promises to end it before
 * another can hold; so its history says "valid until now" again and again. */
#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILD_RECORDS = 4096, CHILD_MS = 8, NS_PER_MS = 1000000 };

static _Noreturn void become_command(const struct worker_config *config, uint32_t lock, pid_t parent) {
	char self[256], lock_arg[16], began[24], name[WORKER_NAME_MAX];
	/* A worker that is killed takes its command with it: what is left of the command is then ended by
	 * its guardian, which is one of the things to be seen. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (len < 0 || getppid() != parent)
		_exit(126);
	self[len] = '\0';
	snprintf(lock_arg, sizeof(lock_arg), "%u", lock);
	snprintf(began, sizeof(began), "%" PRId64, history_now());
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null >= 0 && (dup2(null, 0) < 0 || dup2(null, 2) < 0))
		_exit(126);
	execl(PROOF_COMMAND, "sneck", "run", "--quiet", "--server", config->url, "--wait", "1500ms",
	        "--lease", "1s", worker_lock_name(lock, name), "--", self, "--child", "--dir", config->dir,
	        "--first-lock", lock_arg, "--began", began, (char *)NULL);
	_exit(127);
}

void worker_command(struct worker_thread *thread, uint32_t lock) {
	const struct worker_config *config = &thread->worker->config;
	pid_t parent = getpid();
	/* The command's threads and the thread that made it: the one that dies first must not be this one. */
	pid_t pid = fork();
	if (pid == 0)
		become_command(config, lock, parent);
	int status = 0;
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (pid > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
		atomic_fetch_add(&thread->worker->place->commands, 1);
}

static uint64_t env_number(const char *name) {
	const char *text = getenv(name);
	return text ? strtoull(text, NULL, 10) : 0;
}

/* As long as it runs it holds: it says so after every step, and the last word counts. */
static void still_here(struct history *history, const struct history_record *form) {
	struct history_record record = *form;
	record.op = HISTORY_VALID;
	record.invoke_ns = record.return_ns = record.valid_until_ns = history_now();
	history_mark(history, &record);
}

int worker_child(const struct worker_config *config) {
	struct board *board = board_open(config->dir);
	char path[256];
	if (!board)
		return 1;
	snprintf(path, sizeof(path), "%s/%u.history", config->dir, atomic_fetch_add(&board->next_file, 1));
	struct history *history = history_create(path, CHILD_RECORDS);
	if (!history)
		return 1;
	struct history_record form = { .op = HISTORY_ACQUIRE,
		.lock = config->first_lock,
		.actor = atomic_fetch_add(&board->next_actor, 1) + 1,
		.hold = history_new_hold(history),
		.token = env_number("SNECK_TOKEN"),
		.mode = 'W',
		/* The command is told of the lease; this process is only ended in time. */
		.flags = HISTORY_FIXED,
		.invoke_ns = config->began_ns };
	form.return_ns = form.valid_until_ns = history_now();
	history_mark(history, &form);
	atomic_fetch_add(&board->locks[form.lock].grants, 1);
	int64_t until_ns = history_now() + CHILD_MS * NS_PER_MS;
	while (history_now() < until_ns) {
		worker_sleep_us(500);
		still_here(history, &form);
	}
	form.op = HISTORY_RELEASE;
	form.valid_until_ns = form.invoke_ns = form.return_ns = 0;
	/* The release itself is the command's, behind this process's end: not before now. */
	history_mark(history, &form);
	history_close(history);
	board_close(board);
	return 0;
}
