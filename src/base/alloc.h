/* SPDX-License-Identifier: MIT */
/* Memory that is taken and given back with every call. calloc of the C library (glibc before 2.41) goes past
 * the thread's own free blocks, where free has put the last one: malloc finds it there. */
#ifndef SNECK_BASE_ALLOC_H
#define SNECK_BASE_ALLOC_H

#include <stdlib.h>
#include <string.h>

static inline void *snecki_zalloc(size_t size) {
	void *memory = malloc(size);
	return memory ? memset(memory, 0, size) : NULL;
}

#endif
