/* SPDX-License-Identifier: MIT */
/* Runs the command under test. SNECK_BINARY comes from the build. */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "server.h"
#include "wait.h"

enum { ARGS_MAX = 32 };

/* Runs in the child; the tests that use it have no threads. */
static _Noreturn void become(struct cli *cli, const char *url, int in_fd, const char **argv, pid_t parent) {
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(99);
	setpgid(0, 0);
	int out = open(cli->out_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	int err = open(cli->err_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (out < 0 || err < 0 || dup2(in_fd, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0)
		_exit(99);
	close_range(3, ~0u, 0);
	if (url)
		setenv("SNECK_URL", url, 1);
	execvp(argv[0], (char *const *)(uintptr_t)argv);
	_exit(99);
}

void cli_start_program(
        struct cli *cli, const struct test_server *server, const char *program, const char *const *args) {
	static unsigned number;
	const char *argv[ARGS_MAX] = { program };
	int in[2];

	for (size_t i = 0; args[i]; i++) {
		assert_true(i + 2 < ARGS_MAX);
		argv[i + 1] = args[i];
	}
	memset(cli, 0, sizeof(*cli));
	snprintf(cli->out_path, sizeof(cli->out_path), "%s/out-%u", server->dir, ++number);
	snprintf(cli->err_path, sizeof(cli->err_path), "%s/err-%u", server->dir, number);
	assert_int_equal(pipe2(in, O_CLOEXEC), 0);
	pid_t parent = getpid();
	cli->pid = fork();
	assert_true(cli->pid >= 0);
	if (cli->pid == 0)
		become(cli, server->url, in[0], argv, parent);
	setpgid(cli->pid, cli->pid);
	close(in[0]);
	cli->in_fd = in[1];
}

void cli_start(struct cli *cli, const struct test_server *server, const char *const *args) {
	cli_start_program(cli, server, SNECK_BINARY, args);
}

int cli_wait(struct cli *cli, int timeout_ms) {
	int status = 0;

	if (cli->in_fd >= 0)
		close(cli->in_fd);
	cli->in_fd = -1;
	if (!WAIT_UNTIL(waitpid(cli->pid, &status, WNOHANG) == cli->pid, timeout_ms)) {
		cli_kill(cli);
		fail_msg("the command did not end in time: %s", cli_err(cli));
	}
	cli->pid = 0;
	if (strstr(cli_err(cli), "Sanitizer"))
		fail_msg("%s", cli->text);
	return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

int cli_run(struct cli *cli, const struct test_server *server, const char *const *args) {
	cli_start(cli, server, args);
	return cli_wait(cli, 10000);
}

static const char *read_text(struct cli *cli, const char *path) {
	ssize_t n = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd >= 0) {
		n = read(fd, cli->text, sizeof(cli->text) - 1);
		close(fd);
	}
	cli->text[n > 0 ? n : 0] = '\0';
	return cli->text;
}

const char *cli_out(struct cli *cli) {
	return read_text(cli, cli->out_path);
}

const char *cli_err(struct cli *cli) {
	return read_text(cli, cli->err_path);
}

bool cli_wait_out(struct cli *cli, const char *text, int timeout_ms) {
	return WAIT_UNTIL(strstr(cli_out(cli), text) != NULL, timeout_ms);
}

void cli_kill(struct cli *cli) {
	if (cli->in_fd >= 0)
		close(cli->in_fd);
	cli->in_fd = -1;
	if (cli->pid <= 0)
		return;
	kill(cli->pid, SIGKILL);
	while (waitpid(cli->pid, NULL, 0) < 0 && errno == EINTR)
		;
	cli->pid = 0;
}
