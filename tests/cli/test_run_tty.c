/* SPDX-License-Identifier: MIT */
/* sneck run at a terminal: the command can read it, Ctrl-C reaches the command, Ctrl-Z suspends
 * the job, and a lease that ended meanwhile keeps the command from going on.
 *
 * Suspended commands here do not start others: a shell that is between vfork and exec at that
 * moment does not stop, whoever runs it.
 *
 * The test is the terminal; a child plays the shell: session leader, one job at a time, started in
 * the foreground, resumed by "fg" on a pipe. */
#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli.h"
#include "server.h"
#include "wait.h"

static struct test_server server;

struct terminal {
	int master;
	pid_t shell;
	int to_shell;   /* a byte: fg */
	int from_shell; /* struct report */
	char text[4096];
	size_t len;
};

struct report {
	bool stopped; /* else ended, with `code` */
	int code;
	bool interrupted; /* the shell got a SIGINT itself */
};

static volatile sig_atomic_t shell_interrupts;

static void count_interrupt(int signal) {
	(void)signal;
	shell_interrupts++;
}

/* ---- The shell ------------------------------------------------------------------------------*/

static void tell(int fd, int status) {
	struct report report = { .stopped = WIFSTOPPED(status), .interrupted = shell_interrupts > 0 };

	report.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	if (write(fd, &report, sizeof(report)) != (ssize_t)sizeof(report))
		_exit(98);
}

/* With `own_group` as an interactive shell runs a job, without as a script does. */
static _Noreturn void be_shell(int commands, int reports, bool own_group, const char *const *args) {
	const char *argv[32] = { SNECK_BINARY };
	int status;
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGTTOU, SIG_IGN);
	signal(SIGINT, count_interrupt);
	for (size_t i = 0; args[i] && i < 30; i++)
		argv[i + 1] = args[i];
	setenv("SNECK_URL", server.url, 1);
	pid_t job = fork();
	if (job == 0) {
		if (own_group) {
			setpgid(0, 0);
			tcsetpgrp(0, getpid());
		}
		signal(SIGTTOU, SIG_DFL);
		signal(SIGINT, SIG_DFL);
		close_range(3, ~0u, 0);
		execv(argv[0], (char *const *)(uintptr_t)argv);
		_exit(97);
	}
	for (;;) {
		if (waitpid(job, &status, WUNTRACED) != job) {
			if (errno == EINTR)
				continue;
			_exit(96);
		}
		tcsetpgrp(0, getpgrp());
		tell(reports, status);
		if (!WIFSTOPPED(status))
			break;
		if (read(commands, &byte, 1) != 1)
			_exit(0);
		tcsetpgrp(0, job);
		kill(-job, SIGCONT);
	}
	/* The terminal hangs up when its last user leaves: stay until the test has read everything. */
	(void)!read(commands, &byte, 1);
	_exit(0);
}

static void open_terminal(struct terminal *tty, bool own_group, const char *const *args) {
	int commands[2], reports[2];

	memset(tty, 0, sizeof(*tty));
	assert_int_equal(pipe2(commands, O_CLOEXEC), 0);
	assert_int_equal(pipe2(reports, O_CLOEXEC), 0);
	tty->shell = forkpty(&tty->master, NULL, NULL, NULL);
	assert_true(tty->shell >= 0);
	if (tty->shell == 0) {
		close(commands[1]);
		close(reports[0]);
		be_shell(commands[0], reports[1], own_group, args);
	}
	close(commands[0]);
	close(reports[1]);
	tty->to_shell = commands[1];
	tty->from_shell = reports[0];
	fcntl(tty->master, F_SETFL, O_NONBLOCK);
	fcntl(tty->from_shell, F_SETFL, O_NONBLOCK);
}

static void close_terminal(struct terminal *tty) {
	close(tty->to_shell);
	close(tty->from_shell);
	close(tty->master);
	kill(tty->shell, SIGKILL);
	waitpid(tty->shell, NULL, 0);
}

/* ---- The terminal ---------------------------------------------------------------------------*/

static bool has_printed(struct terminal *tty, const char *text) {
	ssize_t n = read(tty->master, tty->text + tty->len, sizeof(tty->text) - 1 - tty->len);

	if (n > 0)
		tty->len += (size_t)n;
	tty->text[tty->len] = '\0';
	return strstr(tty->text, text) != NULL;
}

static void type(struct terminal *tty, const char *keys) {
	assert_int_equal(write(tty->master, keys, strlen(keys)), strlen(keys));
}

static struct report wait_report(struct terminal *tty, int timeout_ms) {
	struct report report;
	bool got = WAIT_UNTIL(
	        read(tty->from_shell, &report, sizeof(report)) == (ssize_t)sizeof(report), timeout_ms);

	(void)has_printed(tty, "");
	if (!got)
		fail_msg("the job neither stopped nor ended; on the terminal: %s", tty->text);
	return report;
}

/* ---- Tests ----------------------------------------------------------------------------------*/

static int start_server(void **state) {
	(void)state;
	return test_server_start(&server, NULL);
}

static int stop_server(void **state) {
	(void)state;
	test_server_stop(&server);
	return 0;
}

static void test_reads_the_terminal(void **state) {
	struct terminal tty;

	(void)state;
	open_terminal(&tty, true,
	        CLI_ARGS("run", "a", "sh", "-c", "echo ready; read line; echo got:$line; exit 6"));
	assert_true(WAIT_UNTIL(has_printed(&tty, "ready"), 5000));
	type(&tty, "hello\n");
	assert_int_equal(wait_report(&tty, 5000).code, 6);
	assert_true(has_printed(&tty, "got:hello"));
	close_terminal(&tty);
}

static void test_interrupt(void **state) {
	struct terminal tty;

	(void)state;
	open_terminal(&tty, true, CLI_ARGS("run", "a", "sh", "-c", "echo ready; exec sleep 60"));
	assert_true(WAIT_UNTIL(has_printed(&tty, "ready"), 5000));
	type(&tty, "\x03");
	assert_int_equal(wait_report(&tty, 5000).code, 128 + SIGINT);
	close_terminal(&tty);
}

/* A script that runs sneck in its own group gets the Ctrl-C that ended the command. */
static void test_interrupt_reaches_the_script(void **state) {
	struct terminal tty;

	(void)state;
	open_terminal(&tty, false, CLI_ARGS("run", "a", "sh", "-c", "echo ready; exec sleep 60"));
	assert_true(WAIT_UNTIL(has_printed(&tty, "ready"), 5000));
	type(&tty, "\x03");
	struct report report = wait_report(&tty, 5000);
	assert_int_equal(report.code, 128 + SIGINT);
	assert_true(report.interrupted);
	close_terminal(&tty);
}

static void test_suspend_and_resume(void **state) {
	struct terminal tty;

	(void)state;
	open_terminal(&tty, true,
	        CLI_ARGS("run", "a", "sh", "-c", "echo ready; read line; echo got:$line; exit 6"));
	assert_true(WAIT_UNTIL(has_printed(&tty, "ready"), 5000));
	type(&tty, "\x1a");
	assert_true(wait_report(&tty, 5000).stopped);
	assert_true(has_printed(&tty, "suspended"));
	assert_int_equal(write(tty.to_shell, "f", 1), 1);
	type(&tty, "again\n");
	assert_int_equal(wait_report(&tty, 5000).code, 6);
	assert_true(has_printed(&tty, "got:again"));
	close_terminal(&tty);
}

static void test_lost_while_suspended(void **state) {
	struct terminal tty;
	struct cli cli;

	(void)state;
	open_terminal(&tty, true,
	        CLI_ARGS("run", "--lease", "500ms", "lost", "sh", "-c",
	                "trap 'echo went on' CONT TERM; echo ready; read line; echo went on"));
	assert_true(WAIT_UNTIL(has_printed(&tty, "ready"), 5000));
	type(&tty, "\x1a");
	assert_true(wait_report(&tty, 5000).stopped);
	/* Somebody else gets the lock as soon as the lease has ended. */
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "-w", "5s", "lost", "true")), 0);
	assert_int_equal(write(tty.to_shell, "f", 1), 1);
	assert_int_equal(wait_report(&tty, 5000).code, 79);
	assert_false(has_printed(&tty, "went on"));
	close_terminal(&tty);
}

/* How often `text` was printed. */
static size_t count_printed(struct terminal *tty, const char *text) {
	size_t count = 0;

	(void)has_printed(tty, "");
	for (const char *at = tty->text; (at = strstr(at, text)) != NULL; at++)
		count++;
	return count;
}

/* With --foreground the terminal's signals reach the command by themselves: sneck must not send them
 * once more, but pass on what others send. */
static void test_foreground_gets_it_once(void **state) {
	struct terminal tty;

	(void)state;
	open_terminal(&tty, true,
	        CLI_ARGS("run", "--foreground", "a", "sh", "-c",
	                "trap 'echo one' INT; echo ready; while :; do read line; test \"$line\" = end && "
	                "exit 6; "
	                "done"));
	assert_true(WAIT_UNTIL(has_printed(&tty, "ready"), 5000));
	type(&tty, "\x03");
	assert_true(WAIT_UNTIL(has_printed(&tty, "one"), 5000));
	type(&tty, "end\n");
	assert_int_equal(wait_report(&tty, 5000).code, 6);
	assert_int_equal(count_printed(&tty, "one\r\n"), 1);
	close_terminal(&tty);
}

static void test_foreground_suspend(void **state) {
	struct terminal tty;

	(void)state;
	open_terminal(&tty, true,
	        CLI_ARGS("run", "--foreground", "a", "sh", "-c",
	                "echo ready; read line; echo got:$line; exit 6"));
	assert_true(WAIT_UNTIL(has_printed(&tty, "ready"), 5000));
	type(&tty, "\x1a");
	assert_true(wait_report(&tty, 5000).stopped);
	assert_int_equal(write(tty.to_shell, "f", 1), 1);
	type(&tty, "again\n");
	assert_int_equal(wait_report(&tty, 5000).code, 6);
	assert_true(has_printed(&tty, "got:again"));
	close_terminal(&tty);
}

/* Who waits is told in one line that is written over, and that is gone when the wait is. */
static void test_waiting_line(void **state) {
	struct terminal tty;
	struct cli holder;

	(void)state;
	cli_start(&holder, &server, CLI_ARGS("run", "busy", "sh", "-c", "echo held; cat"));
	assert_true(cli_wait_out(&holder, "held", 5000));
	open_terminal(&tty, true, CLI_ARGS("run", "busy", "echo", "mine"));
	assert_true(WAIT_UNTIL(count_printed(&tty, "waiting for") >= 2, 10000));
	assert_null(strchr(tty.text, '\n')); /* in place */
	kill(holder.pid, SIGTERM);           /* the shell has inherited its input's other end */
	assert_int_equal(cli_wait(&holder, 5000), 128 + SIGTERM);
	assert_int_equal(wait_report(&tty, 5000).code, 0);
	assert_true(has_printed(&tty, "\033[Kmine"));
	close_terminal(&tty);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reads_the_terminal),
		cmocka_unit_test(test_interrupt),
		cmocka_unit_test(test_interrupt_reaches_the_script),
		cmocka_unit_test(test_suspend_and_resume),
		cmocka_unit_test(test_lost_while_suspended),
		cmocka_unit_test(test_foreground_gets_it_once),
		cmocka_unit_test(test_foreground_suspend),
		cmocka_unit_test(test_waiting_line),
	};

	return cmocka_run_group_tests(tests, start_server, stop_server);
}
