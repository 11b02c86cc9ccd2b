/* SPDX-License-Identifier: MIT */
/* Loaded into the servers of a rig: what they write need not survive the machine, only the process. A node of
 * a cluster stands still while it syncs the file in which it keeps the slots, which on a machine whose
 * disk is busy may take as long as a lease. */
#include <unistd.h>

int fsync(int fd) {
	(void)fd;
	return 0;
}

int fdatasync(int fd) {
	(void)fd;
	return 0;
}
