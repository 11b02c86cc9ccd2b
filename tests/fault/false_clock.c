/* SPDX-License-Identifier: MIT */
/* A wall clock that the test sets: loaded into a server (or a client) with LD_PRELOAD, it adds to whatever
 * the wall clock shows what the file $TEST_CLOCK_FILE says (false_clock.h). The test writes there at
 * any time. Clocks that cannot be set, like CLOCK_MONOTONIC, are left alone. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "false_clock.h"

static const volatile struct false_clock_page *setting;

__attribute__((constructor)) static void map_file(void) {
	const char *path = getenv("TEST_CLOCK_FILE");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0)
		abort();
	void *page = mmap(NULL, sizeof(*setting), PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	if (page == MAP_FAILED)
		abort();
	setting = page;
}

int clock_gettime(clockid_t clock, struct timespec *ret) {
	int r = (int)syscall(SYS_clock_gettime, clock, ret);
	if (r != 0 || !setting || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE))
		return r;
	int64_t us = (int64_t)ret->tv_sec * 1000000 + ret->tv_nsec / 1000;
	if (setting->drift_ppm)
		us += (us - setting->drift_since_us) * setting->drift_ppm / 1000000;
	us += setting->step_us;
	ret->tv_sec = (time_t)(us / 1000000);
	ret->tv_nsec = (long)(us % 1000000) * 1000;
	return 0;
}

int gettimeofday(struct timeval *restrict ret, void *restrict zone) {
	struct timespec now;
	(void)zone;
	clock_gettime(CLOCK_REALTIME, &now);
	ret->tv_sec = now.tv_sec;
	ret->tv_usec = now.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *ret) {
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	if (ret)
		*ret = now.tv_sec;
	return now.tv_sec;
}
