/* SPDX-License-Identifier: MIT */
/* sneck ls, show, try and wait, and what run says to whoever is refused or waits. */
#include <fcntl.h>
#include <pty.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <sneck/sneck.h>

#include "look.h"
#include "wait.h"

static struct test_server server;

static int start(void **state) {
	(void)state;
	return test_server_start(&server, NULL);
}

static int stop(void **state) {
	(void)state;
	test_server_stop(&server);
	return 0;
}

static void has(const char *text, const char *part) {
	if (!strstr(text, part))
		fail_msg("\"%s\" is not in: %s", part, text);
}

static void has_not(const char *text, const char *part) {
	if (strstr(text, part))
		fail_msg("\"%s\" is in: %s", part, text);
}

static void has_pid(const char *text, const char *format, int pid) {
	char part[64];

	snprintf(part, sizeof(part), format, pid);
	has(text, part);
}

/* ---- ls -------------------------------------------------------------------------------------*/

static void test_ls_names_the_holder(void **state) {
	struct cli holder, ls;

	(void)state;
	look_hold(&holder, &server, "demo", CLI_ARGS("-m", "v2 rollout"));
	assert_int_equal(cli_run(&ls, &server, CLI_ARGS("ls")), 0);
	const char *out = cli_out(&ls);
	has(out, "NAME  MODE   HOLDER");
	has(out, "HELD");
	has(out, "LEASE");
	has(out, "WAIT  NOTE\n");
	has(out, "\ndemo  write  ");
	has_pid(out, ":%d  ", (int)holder.pid);
	has(out, "  0     v2 rollout\n");
	has_not(out, "\033");
	assert_int_equal(cli_wait(&holder, 10000), 0);
	assert_int_equal(cli_run(&ls, &server, CLI_ARGS("ls")), 0);
	assert_string_equal(cli_out(&ls), "");
	has(cli_err(&ls), "nobody holds a lock");
	assert_int_equal(cli_run(&ls, &server, CLI_ARGS("ls", "-q")), 0);
	assert_string_equal(cli_err(&ls), "");
}

static void test_ls_json_has_all_of_it(void **state) {
	struct cli holder;
	char host[256] = "";

	(void)state;
	look_hold(&holder, &server, "demo", CLI_ARGS("-s", "-m", "v2", "--lease", "20s"));
	json_t *json = look_json(&server, 0, CLI_ARGS("ls", "--json"));
	assert_string_equal(look_text(json, "server"), server.url);
	assert_string_equal(look_text(json, "namespace"), "sneck");
	assert_int_equal(json_array_size(look_at(json, "locks")), 1);
	assert_string_equal(look_text(json, "locks.0.name"), "demo");
	assert_string_equal(look_text(json, "locks.0.mode"), "read");
	assert_int_equal(look_number(json, "locks.0.holder_count"), 1);
	assert_int_equal(look_number(json, "locks.0.waiter_count"), 0);
	assert_true(look_number(json, "locks.0.token") > 1000000000);
	json_t *one = look_at(json, "locks.0.holders.0");
	gethostname(host, sizeof(host) - 1);
	host[strcspn(host, ".")] = '\0';
	assert_int_equal(look_number(one, "pid"), holder.pid);
	assert_int_equal(strncmp(look_text(one, "host"), host, strlen(host)), 0);
	assert_true(look_text(one, "user")[0] != '\0');
	assert_string_equal(look_text(one, "command"), "sh -c echo in; cat");
	assert_string_equal(look_text(one, "note"), "v2");
	assert_string_equal(look_text(one, "kind"), "holder");
	assert_int_equal(look_text(one, "id")[0], 'R');
	assert_in_range(look_number(one, "held_ms"), 0, 60000);
	assert_in_range(look_number(one, "lease_left_ms"), 1, 20000);
	struct tm tm;
	const char *rest = strptime(look_text(one, "since"), "%Y-%m-%dT%H:%M:%S.", &tm);
	assert_non_null(rest);
	assert_int_equal(strlen(rest), 4);
	assert_int_equal(rest[3], 'Z');
	assert_in_range(timegm(&tm), time(NULL) - 60, time(NULL) + 60);
	json_decref(json);
	assert_int_equal(cli_wait(&holder, 10000), 0);
}

static void test_ls_takes_a_pattern_and_prints_names(void **state) {
	struct cli a, b, ls;

	(void)state;
	look_hold(&a, &server, "deploy/web", NULL);
	look_hold(&b, &server, "backup", NULL);
	assert_int_equal(cli_run(&ls, &server, CLI_ARGS("ls", "--names")), 0);
	assert_string_equal(cli_out(&ls), "backup\ndeploy/web\n");
	assert_int_equal(cli_run(&ls, &server, CLI_ARGS("ls", "-q", "--names", "dep*")), 0);
	assert_string_equal(cli_out(&ls), "deploy/web\n");
	assert_int_equal(cli_run(&ls, &server, CLI_ARGS("ls", "--namespace", "other", "--names")), 0);
	assert_string_equal(cli_out(&ls), "");
	assert_int_equal(cli_wait(&a, 10000), 0);
	assert_int_equal(cli_wait(&b, 10000), 0);
}

/* Cut on a terminal, never in a pipe. */
static void test_nothing_is_cut_in_a_pipe(void **state) {
	struct cli holder, ls;
	char name[701], note[121];

	(void)state;
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	memset(note, 'x', sizeof(note) - 1);
	note[sizeof(note) - 1] = '\0';
	look_hold(&holder, &server, name, CLI_ARGS("-m", note));
	setenv("COLUMNS", "40", 1);
	assert_int_equal(cli_run(&ls, &server, CLI_ARGS("ls")), 0);
	unsetenv("COLUMNS");
	has(cli_out(&ls), name);
	has(cli_out(&ls), note);
	assert_int_equal(cli_wait(&holder, 10000), 0);
}

/* What others have chosen does not reach the terminal as it is. */
static void test_names_are_escaped(void **state) {
	struct cli holder, ls;

	(void)state;
	look_hold(&holder, &server, "a\nb\033[31m", CLI_ARGS("-m", "\033]0;gotcha\a"));
	assert_int_equal(cli_run(&ls, &server, CLI_ARGS("ls")), 0);
	has(cli_out(&ls), "a\\x0ab\\x1b[31m");
	has(cli_out(&ls), "\\x1b]0;gotcha\\x07");
	has_not(cli_out(&ls), "\033");
	assert_int_equal(cli_run(&ls, &server, CLI_ARGS("show", "a\nb\033[31m")), 0);
	has_not(cli_out(&ls), "\033");
	assert_int_equal(cli_run(&ls, &server, CLI_ARGS("try", "a\nb\033[31m")), 75);
	has_not(cli_out(&ls), "\033");
	has(cli_out(&ls), "sneck show $'a\\x0ab\\x1b[31m'");
	json_t *json = look_json(&server, 0, CLI_ARGS("ls", "--json"));
	assert_string_equal(look_text(json, "locks.0.name"), "a\nb\033[31m");
	json_decref(json);
	assert_int_equal(cli_wait(&holder, 10000), 0);
	look_hold(&holder, &server, "\xff\xfe", NULL);
	json = look_json(&server, 0, CLI_ARGS("ls", "--json"));
	assert_string_equal(look_text(json, "locks.0.name"), "\\xff\\xfe");
	assert_string_equal(look_text(json, "locks.0.name_base64"), "//4=");
	json_decref(json);
	assert_int_equal(cli_wait(&holder, 10000), 0);
}

static void test_color_is_for_those_who_want_it(void **state) {
	struct cli holder, ls;

	(void)state;
	look_hold(&holder, &server, "demo", NULL);
	assert_int_equal(cli_run(&ls, &server, CLI_ARGS("ls", "--color=always")), 0);
	has(cli_out(&ls), "\033[1mNAME");
	assert_int_equal(cli_run(&ls, &server, CLI_ARGS("ls", "--color=auto")), 0);
	has_not(cli_out(&ls), "\033");
	assert_int_equal(cli_wait(&holder, 10000), 0);
}

/* ---- show -----------------------------------------------------------------------------------*/

static void test_show_has_the_queue_in_order(void **state) {
	struct cli holder, first, second, show;
	char line[128];

	(void)state;
	look_hold(&holder, &server, "demo", NULL);
	look_queue(&first, &server, "demo", 1);
	look_queue(&second, &server, "demo", 2);
	json_t *json = look_json(&server, 0, CLI_ARGS("show", "demo", "--json"));
	assert_int_equal(look_number(json, "lock.holders.0.pid"), holder.pid);
	assert_int_equal(look_number(json, "lock.waiters.0.pid"), first.pid);
	assert_int_equal(look_number(json, "lock.waiters.1.pid"), second.pid);
	assert_in_range(look_number(json, "lock.waiters.0.waiting_ms"),
	        look_number(json, "lock.waiters.1.waiting_ms"), 60000);
	assert_string_equal(look_text(json, "lock.waiters.0.command"), "echo got");
	assert_int_equal(cli_run(&show, &server, CLI_ARGS("show", "demo")), 0);
	const char *out = cli_out(&show);
	has(out, "\"demo\": write, 1 holding, 2 waiting, last token ");
	snprintf(line, sizeof(line), "%lld", look_number(json, "lock.token"));
	has(out, line);
	has(out, look_text(json, "lock.holders.0.id"));
	json_decref(json);
	const char *at = strstr(out, "\nholds ");
	assert_non_null(at);
	at = strstr(at, "\nwait 1 ");
	assert_non_null(at);
	/* The first waits for the holder, the second for the first. */
	const char *next = strstr(at, "\nwait 2 ");
	assert_non_null(next);
	snprintf(line, sizeof(line), ":%d ", (int)holder.pid);
	assert_true(strstr(at, line) && strstr(at, line) < next);
	snprintf(line, sizeof(line), ":%d ", (int)first.pid);
	has(next, line);
	assert_int_equal(cli_wait(&holder, 10000), 0);
	assert_int_equal(cli_wait(&first, 10000), 0);
	assert_int_equal(cli_wait(&second, 10000), 0);
}

static void test_show_of_an_unknown_name_is_free(void **state) {
	struct cli show;

	(void)state;
	assert_int_equal(cli_run(&show, &server, CLI_ARGS("show", "never-used")), 0);
	has(cli_out(&show), "\"never-used\": free, 0 holding, 0 waiting");
	assert_int_equal(test_redis_int(&server, "EXISTS sneck:{never-used}"), 0);
}

/* A child with two sessions, each of which holds a lock and waits for the other's. */
static pid_t start_circle(int *ret_end_fd) {
	int ready[2], end[2];
	char byte;

	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pipe(end), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		sneck_client *a, *b;
		sneck_hold *hold_a, *hold_b;
		sneck_acquire_options options = SNECK_ACQUIRE_OPTIONS_INIT;
		close(end[1]);
		options.wait_ms = SNECK_WAIT_FOREVER;
		if (sneck_open(server.url, NULL, &a, NULL) || sneck_open(server.url, NULL, &b, NULL) ||
		        sneck_acquire(a, "left", SNECK_WRITE, &options, &hold_a, NULL) ||
		        sneck_acquire(b, "right", SNECK_WRITE, &options, &hold_b, NULL) ||
		        sneck_acquire_start(a, "right", 5, SNECK_WRITE, &options, NULL) ||
		        sneck_acquire_start(b, "left", 4, SNECK_WRITE, &options, NULL) ||
		        write(ready[1], "x", 1) != 1)
			_exit(1);
		(void)!read(end[0], &byte, 1);
		sneck_close(a);
		sneck_close(b);
		_exit(0);
	}
	close(end[0]);
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	*ret_end_fd = end[1];
	return pid;
}

static bool is_lingering(const char *name) {
	json_t *json = look_json(&server, 0, CLI_ARGS("show", "--json", name));
	bool lingering = json_is_true(look_at(json, "lock.holders.0.lingering"));

	json_decref(json);
	return lingering;
}

static void test_what_lingers_is_shown_so(void **state) {
	sneck_client_options options = SNECK_CLIENT_OPTIONS_INIT;
	sneck_client *client = NULL;
	sneck_hold *hold = NULL;
	struct cli cli;

	(void)state;
	options.linger_ms = 60000;
	assert_int_equal(sneck_open(server.url, &options, &client, NULL), 0);
	assert_int_equal(sneck_acquire(client, "idle", SNECK_WRITE, NULL, &hold, NULL), 0);
	assert_false(is_lingering("idle"));
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("show", "idle")), 0);
	has(cli_out(&cli), "holds");
	assert_int_equal(sneck_release(hold), 0);
	assert_true(WAIT_UNTIL(is_lingering("idle"), 10000));
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("show", "idle")), 0);
	has(cli_out(&cli), "lingers");
	has_not(cli_out(&cli), "holds");
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("ls", "idle")), 0);
	has(cli_out(&cli), "lingers");
	json_t *json = look_json(&server, 0, CLI_ARGS("ls", "--json", "idle"));
	assert_true(json_is_true(look_at(json, "locks.0.holders.0.lingering")));
	json_decref(json);
	sneck_close(client);
}

static void test_show_finds_circles(void **state) {
	struct cli show;
	int end_fd, status;

	(void)state;
	pid_t pid = start_circle(&end_fd);
	assert_true(WAIT_UNTIL(look_count(&server, "left", "waiter_count") == 1 &&
	                               look_count(&server, "right", "waiter_count") == 1,
	        10000));
	assert_int_equal(cli_run(&show, &server, CLI_ARGS("show", "--chain", "left")), 0);
	has(cli_out(&show), "waits for \"right\"\n");
	has(cli_out(&show), "waits for \"left\"\n");
	has(cli_out(&show), "a circle");
	json_t *json = look_json(&server, 0, CLI_ARGS("show", "--chain", "--json", "left"));
	assert_true(json_is_true(look_at(json, "circle")));
	assert_string_equal(look_text(json, "chain.0.name"), "right");
	assert_string_equal(look_text(json, "chain.1.name"), "left");
	json_decref(json);
	close(end_fd);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	struct cli holder;
	look_hold(&holder, &server, "left", NULL);
	assert_int_equal(cli_run(&show, &server, CLI_ARGS("show", "--chain", "left")), 0);
	has(cli_out(&show), "its holder waits for no other lock\n");
	assert_int_equal(cli_wait(&holder, 10000), 0);
}

/* ---- try, wait ------------------------------------------------------------------------------*/

static void has_block(const char *text, const struct cli *holder) {
	has(text, "sneck: \"demo\" is held\n");
	has_pid(text, ", pid %d\n", (int)holder->pid);
	has(text, "  command: sh -c echo in; cat\n");
	has(text, "  note:    why not\n");
	has(text, "  since:   20");
	has(text, "  lease:   ");
	has(text, "  waiting: 0\n");
	has(text, "sneck run -w 10m demo …");
	has(text, "sneck show demo");
	has(text, "sneck break demo --id W");
}

static void test_try_tells_free_from_held(void **state) {
	struct cli holder, cli;

	(void)state;
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("try", "demo")), 0);
	assert_string_equal(cli_out(&cli), "");
	look_hold(&holder, &server, "demo", CLI_ARGS("-m", "why not"));
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("try", "demo")), 75);
	has_block(cli_out(&cli), &holder);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("try", "-q", "demo")), 75);
	assert_string_equal(cli_out(&cli), "");
	assert_string_equal(cli_err(&cli), "");
	json_t *json = look_json(&server, 75, CLI_ARGS("try", "--json", "demo"));
	assert_true(json_is_false(look_at(json, "free")));
	assert_int_equal(look_number(json, "lock.holders.0.pid"), holder.pid);
	json_decref(json);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("try", "--shared", "demo")), 75);
	assert_int_equal(cli_wait(&holder, 10000), 0);
	json = look_json(&server, 0, CLI_ARGS("try", "--json", "demo"));
	assert_true(json_is_true(look_at(json, "free")));
	json_decref(json);
	look_hold(&holder, &server, "demo", CLI_ARGS("-s"));
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("try", "-s", "demo")), 0);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("try", "demo")), 75);
	has(cli_out(&cli), "is held by readers\n");
	/* Whoever waits has the older right. */
	struct cli writer;
	look_queue(&writer, &server, "demo", 1);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("try", "-q", "-s", "demo")), 75);
	assert_int_equal(cli_wait(&holder, 10000), 0);
	assert_int_equal(cli_wait(&writer, 10000), 0);
}

static void test_wait_ends_when_it_is_free(void **state) {
	struct cli holder, waits, cli;

	(void)state;
	look_hold(&holder, &server, "demo", CLI_ARGS("-m", "why not"));
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("wait", "-w", "150ms", "demo")), 75);
	has_block(cli_err(&cli), &holder);
	assert_string_equal(cli_out(&cli), "");
	cli_start(&waits, &server, CLI_ARGS("wait", "demo"));
	/* It has asked at least once when it says for whom it waits. */
	assert_true(WAIT_UNTIL(strstr(cli_err(&waits), "waiting for \"demo\", held by ") != NULL, 10000));
	has(cli_err(&waits), "note \"why not\"");
	assert_int_equal(look_count(&server, "demo", "waiter_count"), 0);
	assert_int_equal(cli_wait(&holder, 10000), 0);
	assert_int_equal(cli_wait(&waits, 5000), 0);
	assert_int_equal(look_count(&server, "demo", "holder_count"), 0);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("wait", "-q", "never-used")), 0);
	assert_int_equal(test_redis_int(&server, "EXISTS sneck:{never-used}"), 0);
}

/* A holder that died: its lease is looked at, not only its end. */
static void test_wait_sees_the_end_of_a_lease(void **state) {
	struct cli waits;

	(void)state;
	long long now = test_redis_int(&server, "EVAL %s 0", "return redis.call('TIME')[1] * 1000");
	test_redis_ok(&server, "ZADD sneck:{orphan} %lld000 #1 %lld Wgone:1:x.1", now, now + 3000);
	cli_start(&waits, &server, CLI_ARGS("wait", "orphan"));
	assert_int_equal(cli_wait(&waits, 10000), 0);
	long long end = test_redis_int(
	        &server, "EVAL %s 0", "local t = redis.call('TIME') return t[1] * 1000 + t[2] / 1000");
	assert_true(end >= now + 3000);
}

/* ---- run says it as well ---------------------------------------------------------------------*/

static void test_whoever_is_refused_sees_the_holder(void **state) {
	struct cli holder, cli;

	(void)state;
	look_hold(&holder, &server, "demo", CLI_ARGS("-m", "why not"));
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "-n", "demo", "true")), 75);
	has_block(cli_err(&cli), &holder);
	assert_int_equal(cli_run(&cli, &server, CLI_ARGS("run", "-q", "-n", "demo", "true")), 75);
	assert_string_equal(cli_err(&cli), "");
	cli_start(&cli, &server, CLI_ARGS("run", "demo", "echo", "got"));
	assert_true(WAIT_UNTIL(strstr(cli_err(&cli), "; 0 ahead of you\n") != NULL, 10000));
	has(cli_err(&cli), "sneck: waiting for \"demo\", held by ");
	has(cli_err(&cli), "(sh -c echo in; cat) for ");
	assert_int_equal(cli_wait(&holder, 10000), 0);
	assert_int_equal(cli_wait(&cli, 10000), 0);
	assert_string_equal(cli_out(&cli), "got\n");
}

/* ---- At a terminal --------------------------------------------------------------------------*/

struct screen {
	int master;
	pid_t pid;
	char text[8192];
	size_t len;
};

/* Run `sneck args…` at a terminal of its own, 60 columns wide; its output is the screen. NULL: NO_COLOR is
 * not set. */
static void screen_start(struct screen *screen, const char *const *args, const char *no_color) {
	const struct winsize window = { .ws_row = 24, .ws_col = 60 };
	const char *argv[16] = { SNECK_BINARY };

	for (size_t i = 0; args[i]; i++)
		argv[i + 1] = args[i];
	memset(screen, 0, sizeof(*screen));
	screen->pid = forkpty(&screen->master, NULL, NULL, &window);
	assert_true(screen->pid >= 0);
	if (screen->pid == 0) {
		setenv("SNECK_URL", server.url, 1);
		setenv("TERM", "xterm", 1);
		unsetenv("NO_COLOR");
		if (no_color)
			setenv("NO_COLOR", no_color, 1);
		execv(argv[0], (char *const *)(uintptr_t)argv);
		_exit(99);
	}
	assert_int_equal(fcntl(screen->master, F_SETFL, O_NONBLOCK), 0);
}

static const char *screen_text(struct screen *screen) {
	ssize_t n;

	while ((n = read(screen->master, screen->text + screen->len,
	                sizeof(screen->text) - screen->len - 1)) > 0)
		screen->len += (size_t)n;
	screen->text[screen->len] = '\0';
	return screen->text;
}

static int screen_end(struct screen *screen) {
	int status = 0;

	assert_true(WAIT_UNTIL(
	        (screen_text(screen), waitpid(screen->pid, &status, WNOHANG)) == screen->pid, 10000));
	(void)screen_text(screen);
	close(screen->master);
	return WEXITSTATUS(status);
}

static void test_a_terminal_gets_colour_and_short_lines(void **state) {
	struct cli holder;
	struct screen screen;
	char note[101];

	(void)state;
	memset(note, 'x', sizeof(note) - 1);
	note[sizeof(note) - 1] = '\0';
	look_hold(&holder, &server, "demo", CLI_ARGS("-m", note));
	screen_start(&screen, CLI_ARGS("ls"), NULL);
	assert_int_equal(screen_end(&screen), 0);
	has(screen.text, "\033[1mNAME");
	has(screen.text, "xxx…\r\n");
	has_not(screen.text, note);
	screen_start(&screen, CLI_ARGS("ls", "--color=never"), NULL);
	assert_int_equal(screen_end(&screen), 0);
	has_not(screen.text, "\033");
	/* NO_COLOR is for all that do not say otherwise. */
	screen_start(&screen, CLI_ARGS("ls"), "1");
	assert_int_equal(screen_end(&screen), 0);
	has_not(screen.text, "\033");
	screen_start(&screen, CLI_ARGS("ls", "--color=always"), "1");
	assert_int_equal(screen_end(&screen), 0);
	has(screen.text, "\033[1mNAME");
	assert_int_equal(cli_wait(&holder, 10000), 0);
}

/* One line that is written again in its place, and gone in the end. */
static void test_waiting_at_a_terminal_is_one_line(void **state) {
	struct cli holder;
	struct screen screen;

	(void)state;
	look_hold(&holder, &server, "demo", NULL);
	screen_start(&screen, CLI_ARGS("run", "demo", "echo", "got"), NULL);
	const char *again = "\r\033[Ksneck: waiting for \"demo\", held by ";
	assert_true(WAIT_UNTIL(
	        strstr(screen_text(&screen), again) && strstr(strstr(screen.text, again) + 1, again), 10000));
	has_not(screen.text, "\n");
	assert_int_equal(cli_wait(&holder, 10000), 0);
	assert_int_equal(screen_end(&screen), 0);
	has(screen.text, "\r\033[Kgot\r\n");
	const char *line = strstr(screen.text, again) + strlen("\r\033[K");
	assert_true(strcspn(line, "\r") < 60);
}

/* ---- Bad input ------------------------------------------------------------------------------*/

static void refused(int code, const char *part, const char *const *args) {
	struct cli cli;
	int got = cli_run(&cli, &server, args);

	if (got != code)
		fail_msg("%s: exit %d instead of %d: %s", args[0], got, code, cli_err(&cli));
	has(cli_err(&cli), part);
	const char *end = strchr(cli_err(&cli), '\n');
	assert_non_null(end);
	if (code == 64)
		assert_string_equal(end, "\n");
	assert_string_equal(cli_out(&cli), "");
}

static void test_bad_input_is_refused_in_one_line(void **state) {
	char name[1026];

	(void)state;
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	refused(64, "is too much", CLI_ARGS("ls", "a", "b"));
	refused(64, "NAME is missing", CLI_ARGS("show"));
	refused(64, "NAME is empty", CLI_ARGS("show", ""));
	refused(64, "NAME has 1025 bytes", CLI_ARGS("try", name));
	refused(64, "not a time", CLI_ARGS("wait", "-w", "soon", "demo"));
	refused(64, "did you mean --names", CLI_ARGS("ls", "--name"));
	refused(64, "must be one of holder|viewer|operator", CLI_ARGS("acl", "--role", "king"));
	refused(64, "is too much", CLI_ARGS("doctor", "who"));
	refused(78, "sneck: ", CLI_ARGS("ls", "--server", "http://x"));
	refused(69, "/nowhere/socket", CLI_ARGS("ls", "--server", "unix:///nowhere/socket"));
	refused(69, "/nowhere/socket", CLI_ARGS("try", "x", "--server", "unix:///nowhere/socket"));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ls_names_the_holder),
		cmocka_unit_test(test_ls_json_has_all_of_it),
		cmocka_unit_test(test_ls_takes_a_pattern_and_prints_names),
		cmocka_unit_test(test_nothing_is_cut_in_a_pipe),
		cmocka_unit_test(test_names_are_escaped),
		cmocka_unit_test(test_color_is_for_those_who_want_it),
		cmocka_unit_test(test_show_has_the_queue_in_order),
		cmocka_unit_test(test_show_of_an_unknown_name_is_free),
		cmocka_unit_test(test_what_lingers_is_shown_so),
		cmocka_unit_test(test_show_finds_circles),
		cmocka_unit_test(test_try_tells_free_from_held),
		cmocka_unit_test(test_wait_ends_when_it_is_free),
		cmocka_unit_test(test_wait_sees_the_end_of_a_lease),
		cmocka_unit_test(test_whoever_is_refused_sees_the_holder),
		cmocka_unit_test(test_a_terminal_gets_colour_and_short_lines),
		cmocka_unit_test(test_waiting_at_a_terminal_is_one_line),
		cmocka_unit_test(test_bad_input_is_refused_in_one_line),
	};
	return cmocka_run_group_tests(tests, start, stop);
}
