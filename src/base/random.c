/* SPDX-License-Identifier: MIT */
/* Randomness comes from getrandom(2) each time: no state of our own, so nothing that two processes
 * could share after a fork. */
#include "base/random.h"

#include <errno.h>
#include <sys/random.h>

#include <sneck/error.h>

#include "base/clock.h"

int snecki_random_bytes(void *out, size_t len) {
	char *at = out;
	while (len > 0) {
		ssize_t n = getrandom(at, len, 0);
		if (n < 0) {
			if (errno == EINTR)
				continue;
			return SNECK_ESYS;
		}
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

uint64_t snecki_random_u64(void) {
	uint64_t value;
	if (snecki_random_bytes(&value, sizeof(value)) < 0)
		value = (uint64_t)snecki_now_ns() * UINT64_C(0x9e3779b97f4a7c15);
	return value;
}
