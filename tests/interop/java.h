/* SPDX-License-Identifier: MIT */
/* A Java program with Redisson, driven line by line (Driver.java says how). Its threads answer when they
 * have something to say, so answers are looked for by the thread's name. */
#ifndef TESTS_INTEROP_JAVA_H
#define TESTS_INTEROP_JAVA_H

#include <stdbool.h>

#include "procs.h"
#include "server.h"

enum { JAVA_WATCHDOG_MS = 3000, JAVA_LINES = 16, JAVA_LINE_MAX = 128 };

struct java {
	struct test_proc proc;
	char lines[JAVA_LINES][JAVA_LINE_MAX]; /* read, but not asked for yet */
	int lines_n;
};

/* Fails the test with what is missing when there is no Java program to start. */
void java_start(struct java *java, const struct test_server *server);
/* kill -9 */
void java_kill(struct java *java);
void java_stop(struct java *java);

/* A line to it: "WHO VERB OBJECT NAME …". */
void java_say(struct java *java, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The next answer of thread `who`, without the name; false: none in time. */
bool java_hear(struct java *java, const char *who, char out[JAVA_LINE_MAX], int timeout_ms);
/* Fails the test unless the next answer of `who` is this. */
#define java_expect(java, who, answer) java_expect_((java), (who), (answer), __FILE__, __LINE__)
void java_expect_(struct java *java, const char *who, const char *answer, const char *file, int line);
/* Say "WHO VERB OBJECT NAME …" and expect the answer. */
#define java_does(java, who, answer, ...)                                  \
	do {                                                               \
		java_say((java), __VA_ARGS__);                             \
		java_expect_((java), (who), (answer), __FILE__, __LINE__); \
	} while (0)

/* For main(): the child's part, which becomes Java. Returns only with an exit code. */
int java_exec(char **argv);

#endif
