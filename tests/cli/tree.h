/* SPDX-License-Identifier: MIT */
/* The processes below a command under test, as /proc shows them. */
#ifndef SNECK_TESTS_TREE_H
#define SNECK_TESTS_TREE_H

#include <stdbool.h>
#include <sys/types.h>

struct cli;

/* The number behind `label` in what the command printed; fails the test when there is none. */
pid_t tree_pid(struct cli *cli, const char *label);
/* A zombie whose parent is gone is reaped by init, which may take a moment: it is no more. */
bool tree_is_gone(pid_t pid);
bool tree_is_stopped(pid_t pid);
pid_t tree_parent(pid_t pid);
/* The one child of `pid`, as soon as it is there. */
pid_t tree_child(pid_t pid);
/* The same without a pause between two looks: what it does next, it has not done yet. */
pid_t tree_child_at_once(pid_t pid);

#endif
