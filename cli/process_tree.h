/* SPDX-License-Identifier: MIT */
#ifndef SNECK_CLI_PROCESS_TREE_H
#define SNECK_CLI_PROCESS_TREE_H

#include <stddef.h>
#include <sys/types.h>

/* SIGKILL to every living descendant of `root`, whatever group or session it has moved to. Returns to
 * how many it was sent: 0 means that none is left that this process may end. Only system calls:
 * for use after a fork, too. */
size_t kill_descendants(pid_t root);

#endif
