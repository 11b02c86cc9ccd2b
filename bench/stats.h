/* SPDX-License-Identifier: MIT */
#ifndef SNECK_BENCH_STATS_H
#define SNECK_BENCH_STATS_H

#include <stddef.h>
#include <stdint.h>

enum { ROUNDS_MAX = 64 };

/* One figure, taken in several rounds. */
struct series {
	double values[ROUNDS_MAX];
	size_t n;
};

void series_add(struct series *series, double value);
double series_median(const struct series *series);
/* The value below which that part of the others lies: 0 the lowest, 0.25 a quartile, 1 the highest. */
double series_quantile(const struct series *series, double part);
/* "median [lowest .. highest]" in a static buffer of the caller. */
const char *series_text(const struct series *series, const char *unit, char *out, size_t size);
/* Round by round a/b: machines are noisy, but both sides of a round had the same noise. */
void series_ratio(struct series *ret, const struct series *a, const struct series *b);

double now_s(void);

#endif
