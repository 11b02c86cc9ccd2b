/* SPDX-License-Identifier: MIT */
/* Other processes for a test: the test program itself, started again with arguments. Its main()
 * looks at them first and plays the part they name. Lines go to the child's standard input and come
 * from its standard output, so parent and child wait for each other instead of sleeping.
 *
 * Children die with the thread that started them. */
#ifndef TESTS_LIB_PROCS_H
#define TESTS_LIB_PROCS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct test_proc {
	pid_t pid; /* 0: reaped */
	int to_fd; /* the child's standard input; -1: closed */
	int from_fd;
	size_t have; /* bytes in `buffer` */
	char buffer[1024];
};

/* Start this program again as `program args…`; `args` ends with NULL. */
void test_proc_start(struct test_proc *proc, const char *const *args);
/* The next line of the child's output, without its end. False: none in time, or the child ended. */
bool test_proc_line(struct test_proc *proc, char *out, size_t out_size, int timeout_ms);
/* Write a line to the child. */
void test_proc_say(struct test_proc *proc, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Write a line and read one back. False as test_proc_line. */
bool test_proc_ask(struct test_proc *proc, char *out, size_t out_size, int timeout_ms, const char *format,
        ...) __attribute__((format(printf, 5, 6)));
/* SIGKILL reaps as well; SIGSTOP returns when the child has stopped. */
void test_proc_signal(struct test_proc *proc, int sig);
/* Close the child's input and wait for its end. Its exit status; 128 + signal; -1: not in time
 * (then it is killed). */
int test_proc_finish(struct test_proc *proc, int timeout_ms);

#endif
