/* SPDX-License-Identifier: MIT */
/* The private server behind the URL `local:`: one per user and machine, started on first use. */
#ifndef SNECK_TOPOLOGY_LOCAL_H
#define SNECK_TOPOLOGY_LOCAL_H

#include <stddef.h>
#include <stdint.h>

struct sneck_error;

/* Make sure that this user's private server answers, starting it if need be, and write the path of
 * its Unix socket to `ret_socket_path`. Any number of processes and threads may do this at once:
 * they end up with the same server. Blocks, at the longest until `deadline_ns` (BOOTTIME).
 *
 * SNECK_EACCES: the directory is not safely ours. SNECK_EINVAL: its path is too long for a socket
 * or for `size`. SNECK_ECONN: no server program is installed, or it does not start or answer. */
int snecki_local_ensure(char *ret_socket_path, size_t size, int64_t deadline_ns, struct sneck_error *reterr);

/* Where its socket is, or would be. Starts and touches nothing. */
int snecki_local_socket(char *ret_socket_path, size_t size, struct sneck_error *reterr);

#endif
