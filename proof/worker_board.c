/* SPDX-License-Identifier: MIT */
/* The board's file. It is zero when it is made, and that is a valid board: no worker, no grant. */
#include "worker_board.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static struct board *map(const char *dir, int flags) {
	char path[256];
	snprintf(path, sizeof(path), "%s/board", dir);
	int fd = open(path, O_RDWR | O_CLOEXEC | flags, 0600);
	if (fd < 0)
		return NULL;
	void *page = MAP_FAILED;
	if (!(flags & O_CREAT) || ftruncate(fd, sizeof(struct board)) == 0)
		page = mmap(NULL, sizeof(struct board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return page == MAP_FAILED ? NULL : page;
}

struct board *board_create(const char *dir) {
	return map(dir, O_CREAT | O_EXCL);
}

struct board *board_open(const char *dir) {
	return map(dir, 0);
}

void board_close(struct board *board) {
	if (board)
		munmap(board, sizeof(*board));
}
