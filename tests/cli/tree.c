/* SPDX-License-Identifier: MIT */
#include "tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli.h"
#include "wait.h"

pid_t tree_pid(struct cli *cli, const char *label) {
	const char *found = strstr(cli_out(cli), label);

	assert_non_null(found);
	pid_t pid = atoi(found + strlen(label));
	assert_true(pid > 1);
	return pid;
}

/* False: there is no such process. */
static bool read_stat(pid_t pid, char *ret_state, pid_t *ret_parent) {
	char path[64], text[512] = "";

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	FILE *file = fopen(path, "re");
	if (!file)
		return false;
	size_t n = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	const char *end = n ? strrchr(text, ')') : NULL;
	if (!end)
		return false;
	*ret_state = end[2];
	*ret_parent = atoi(end + 4);
	return true;
}

bool tree_is_gone(pid_t pid) {
	char state;
	pid_t parent;

	return !read_stat(pid, &state, &parent) || state == 'Z' || state == 'X';
}

bool tree_is_stopped(pid_t pid) {
	char state;
	pid_t parent;

	return read_stat(pid, &state, &parent) && state == 'T';
}

pid_t tree_parent(pid_t pid) {
	char state;
	pid_t parent = 0;

	assert_true(read_stat(pid, &state, &parent));
	return parent;
}

static pid_t read_child(pid_t pid) {
	char path[64], text[64] = "";

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
	FILE *file = fopen(path, "re");
	if (!file)
		return 0;
	const char *line = fgets(text, sizeof(text), file);
	fclose(file);
	return line ? atoi(line) : 0;
}

pid_t tree_child_at_once(pid_t pid) {
	int64_t until_ms = test_now_ms() + 10000;
	pid_t child;

	while ((child = read_child(pid)) == 0)
		assert_true(test_now_ms() < until_ms);
	return child;
}

pid_t tree_child(pid_t pid) {
	pid_t child = 0;

	assert_true(WAIT_UNTIL((child = read_child(pid)) > 0, 10000));
	return child;
}
