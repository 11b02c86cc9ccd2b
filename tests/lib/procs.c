/* SPDX-License-Identifier: MIT */
/* Starts children by fork and exec of /proc/self/exe: a child of a threaded test may do nothing
 * between the two but async-signal-safe calls, and a fresh image owns no lock, thread or descriptor
 * of its parent. Everything that waits has a limit; what does not end in time is killed, so no test
 * leaves a process behind. */
#include "procs.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "wait.h"

enum { ARGS_MAX = 16 };

static void check(bool ok, const char *what) {
	if (!ok) {
		fprintf(stderr, "child process: %s: %s\n", what, strerror(errno));
		abort();
	}
}

static void become_child(int in_fd, int out_fd, pid_t parent, char *const *argv) {
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(126);
	if (dup2(in_fd, 0) < 0 || dup2(out_fd, 1) < 0)
		_exit(126);
	execv("/proc/self/exe", argv);
	_exit(127);
}

void test_proc_start(struct test_proc *proc, const char *const *args) {
	const char *argv[ARGS_MAX + 2] = { "child" };
	for (size_t i = 0; args[i]; i++) {
		check(i < ARGS_MAX, "too many arguments");
		argv[i + 1] = args[i];
	}
	int in[2], out[2];
	check(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0, "pipe");
	pid_t parent = getpid();
	pid_t pid = fork();
	check(pid >= 0, "fork");
	if (pid == 0)
		become_child(in[0], out[1], parent, (char *const *)(void *)argv);
	close(in[0]);
	close(out[1]);
	*proc = (struct test_proc){ .pid = pid, .to_fd = in[1], .from_fd = out[0] };
}

/* Hand out the first line of the buffer, if there is a whole one. */
static bool take_line(struct test_proc *proc, char *out, size_t out_size) {
	char *end = memchr(proc->buffer, '\n', proc->have);
	if (!end)
		return false;
	size_t len = (size_t)(end - proc->buffer);
	check(len < out_size, "line too long");
	memcpy(out, proc->buffer, len);
	out[len] = '\0';
	proc->have -= len + 1;
	memmove(proc->buffer, end + 1, proc->have);
	return true;
}

bool test_proc_line(struct test_proc *proc, char *out, size_t out_size, int timeout_ms) {
	int64_t until_ms = test_now_ms() + timeout_ms;
	while (!take_line(proc, out, out_size)) {
		int64_t left_ms = until_ms - test_now_ms();
		struct pollfd pfd = { .fd = proc->from_fd, .events = POLLIN };
		if (poll(&pfd, 1, left_ms > 0 ? (int)left_ms : 0) <= 0)
			return false;
		check(proc->have < sizeof(proc->buffer), "line too long");
		ssize_t n = read(proc->from_fd, proc->buffer + proc->have, sizeof(proc->buffer) - proc->have);
		if (n <= 0)
			return false;
		proc->have += (size_t)n;
	}
	return true;
}

static void say(struct test_proc *proc, const char *format, va_list args) {
	char line[2048];
	int len = vsnprintf(line, sizeof(line) - 1, format, args);
	check(len >= 0 && (size_t)len < sizeof(line) - 1, "line too long");
	line[len++] = '\n';
	check(write(proc->to_fd, line, (size_t)len) == len, "write");
}

void test_proc_say(struct test_proc *proc, const char *format, ...) {
	va_list args;
	va_start(args, format);
	say(proc, format, args);
	va_end(args);
}

bool test_proc_ask(
        struct test_proc *proc, char *out, size_t out_size, int timeout_ms, const char *format, ...) {
	va_list args;
	va_start(args, format);
	say(proc, format, args);
	va_end(args);
	return test_proc_line(proc, out, out_size, timeout_ms);
}

static void close_pipes(struct test_proc *proc) {
	if (proc->to_fd >= 0)
		close(proc->to_fd);
	if (proc->from_fd >= 0)
		close(proc->from_fd);
	proc->to_fd = -1;
	proc->from_fd = -1;
}

void test_proc_signal(struct test_proc *proc, int sig) {
	check(kill(proc->pid, sig) == 0, "kill");
	siginfo_t info;
	if (sig == SIGSTOP)
		while (waitid(P_PID, (id_t)proc->pid, &info, WSTOPPED) < 0 && errno == EINTR)
			;
	if (sig == SIGKILL) {
		while (waitpid(proc->pid, NULL, 0) < 0 && errno == EINTR)
			;
		proc->pid = 0;
		close_pipes(proc);
	}
}

int test_proc_finish(struct test_proc *proc, int timeout_ms) {
	if (proc->pid == 0)
		return -1;
	close(proc->to_fd);
	proc->to_fd = -1;
	int status = 0;
	pid_t pid = proc->pid;
	if (!WAIT_UNTIL(waitpid(pid, &status, WNOHANG) == pid, timeout_ms)) {
		test_proc_signal(proc, SIGKILL);
		return -1;
	}
	proc->pid = 0;
	close_pipes(proc);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
