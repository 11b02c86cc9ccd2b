/* SPDX-License-Identifier: MIT */
/* See java.h. Where the classes and the jars are is told by the environment: SNECK_INTEROP_JAVA is a
 * directory that Maven has filled (tests/interop/run.sh). */
#include "java.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "wait.h"

enum { START_MS = 60000, ANSWER_MS = 15000 };

int java_exec(char **argv) {
	const char *dir = getenv("SNECK_INTEROP_JAVA");
	char path[1024], watchdog[16];

	snprintf(path, sizeof path, "%s/classes:%s/lib/*", dir, dir);
	snprintf(watchdog, sizeof watchdog, "%d", JAVA_WATCHDOG_MS);
	int log = open(argv[2], O_WRONLY | O_CREAT | O_APPEND, 0600);
	if (log >= 0)
		dup2(log, STDERR_FILENO);
	execlp("java", "java", "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", path,
	        "sneck.Driver", argv[3], watchdog, (char *)NULL);
	perror("java");
	return 127;
}

void java_start(struct java *java, const struct test_server *server) {
	const char *dir = getenv("SNECK_INTEROP_JAVA");
	char log[128], line[JAVA_LINE_MAX];
	const char *args[] = { "java", log, server->url, NULL };

	if (!dir || access(dir, R_OK) != 0)
		fail_msg("SNECK_INTEROP_JAVA names no directory with the Java program; `make interop` makes "
		         "it");
	*java = (struct java){ .lines_n = 0 };
	snprintf(log, sizeof log, "%s/java.log", server->dir);
	test_proc_start(&java->proc, args);
	if (!test_proc_line(&java->proc, line, sizeof line, START_MS) || strcmp(line, "ready") != 0) {
		char command[160];
		snprintf(command, sizeof command, "tail -n 20 %s >&2", log);
		(void)!system(command);
		fail_msg("the Java program does not start");
	}
}

void java_kill(struct java *java) {
	test_proc_signal(&java->proc, SIGKILL);
}

void java_stop(struct java *java) {
	if (java->proc.pid)
		(void)test_proc_finish(&java->proc, 10000);
}

void java_say(struct java *java, const char *format, ...) {
	char line[512];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	test_proc_say(&java->proc, "%s", line);
}

/* Take line `i` out if it is from `who`. */
static bool take(struct java *java, int i, const char *who, char out[JAVA_LINE_MAX]) {
	size_t len = strlen(who);

	if (strncmp(java->lines[i], who, len) != 0 || java->lines[i][len] != ' ')
		return false;
	snprintf(out, JAVA_LINE_MAX, "%s", java->lines[i] + len + 1);
	java->lines_n--;
	memmove(java->lines[i], java->lines[i + 1], (size_t)(java->lines_n - i) * JAVA_LINE_MAX);
	return true;
}

bool java_hear(struct java *java, const char *who, char out[JAVA_LINE_MAX], int timeout_ms) {
	int64_t until_ms = test_now_ms() + timeout_ms;

	for (int i = 0; i < java->lines_n; i++)
		if (take(java, i, who, out))
			return true;
	for (;;) {
		int64_t left_ms = until_ms - test_now_ms();
		assert_true(java->lines_n < JAVA_LINES);
		if (!test_proc_line(&java->proc, java->lines[java->lines_n], JAVA_LINE_MAX,
		            left_ms > 0 ? (int)left_ms : 0))
			return false;
		if (take(java, java->lines_n++, who, out))
			return true;
	}
}

void java_expect_(struct java *java, const char *who, const char *answer, const char *file, int line) {
	char heard[JAVA_LINE_MAX];

	if (!java_hear(java, who, heard, ANSWER_MS))
		snprintf(heard, sizeof heard, "nothing");
	if (strcmp(heard, answer) != 0) {
		print_error("Java's %s says '%s', not '%s'\n", who, heard, answer);
		_fail(file, line);
	}
}
