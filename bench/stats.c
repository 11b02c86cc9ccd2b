/* SPDX-License-Identifier: MIT */
/* Medians with their spread. */
#include "stats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void series_add(struct series *series, double value) {
	if (series->n < ROUNDS_MAX)
		series->values[series->n++] = value;
}

static int compare(const void *a, const void *b) {
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static void sorted(const struct series *series, double *out) {
	memcpy(out, series->values, series->n * sizeof out[0]);
	qsort(out, series->n, sizeof out[0], compare);
}

double series_median(const struct series *series) {
	double values[ROUNDS_MAX];

	if (series->n == 0)
		return 0;
	sorted(series, values);
	return (values[(series->n - 1) / 2] + values[series->n / 2]) / 2;
}

double series_quantile(const struct series *series, double part) {
	double values[ROUNDS_MAX];

	if (series->n == 0)
		return 0;
	sorted(series, values);
	return values[(size_t)(part * (double)(series->n - 1) + 0.5)];
}

const char *series_text(const struct series *series, const char *unit, char *out, size_t size) {
	double values[ROUNDS_MAX] = { 0 };

	sorted(series, values);
	snprintf(out, size, "%.2f%s [%.2f .. %.2f]", series_median(series), unit, values[0],
	        series->n ? values[series->n - 1] : 0);
	return out;
}

void series_ratio(struct series *ret, const struct series *a, const struct series *b) {
	ret->n = 0;
	for (size_t i = 0; i < a->n && i < b->n; i++)
		series_add(ret, a->values[i] / b->values[i]);
}

double now_s(void) {
	struct timespec ts;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}
