/* SPDX-License-Identifier: MIT */
#ifndef SNECK_BASE_RANDOM_H
#define SNECK_BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* Bytes from the kernel's generator. 0, or SNECK_ESYS with errno set. */
int snecki_random_bytes(void *out, size_t len);

/* One number, for jitter and seeds. When the kernel has none to give it falls back to the clock:
 * never use it for anything that must be unique. */
uint64_t snecki_random_u64(void);

#endif
