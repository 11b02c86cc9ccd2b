/* SPDX-License-Identifier: MIT */
/* An allocator that fails when it is told to: loaded into a worker with LD_PRELOAD, it stands before the C
 * library's and counts down in the page of the file $PROOF_ALLOC_FILE (struct alloc_page), which the
 * driver writes. Without that file it only passes on. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fault_alloc.h"

/* The C library's own names for them: finding them by dlsym would allocate. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *memory, size_t size);

static struct alloc_page *page;

__attribute__((constructor)) static void map_page(void) {
	const char *path = getenv("PROOF_ALLOC_FILE");
	int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
	if (fd < 0)
		return;
	void *memory = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (memory != MAP_FAILED)
		page = memory;
	/* Not for what this process starts. */
	unsetenv("LD_PRELOAD");
}

static int fails(void) {
	if (!page || atomic_load_explicit(&page->countdown, memory_order_relaxed) <= 0)
		return 0;
	if (atomic_fetch_sub(&page->countdown, 1) != 1)
		return 0;
	atomic_store(&page->countdown, atomic_load(&page->every));
	atomic_fetch_add(&page->failed, 1);
	errno = ENOMEM;
	return 1;
}

void *malloc(size_t size) {
	return fails() ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size) {
	return fails() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *memory, size_t size) {
	return fails() ? NULL : __libc_realloc(memory, size);
}
