/* SPDX-License-Identifier: MIT */
/* One line of the driver's protocol (bench/peers/README.md): a word, then key=value. */
#ifndef SNECK_BENCH_REQUEST_H
#define SNECK_BENCH_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

enum { REQUEST_PAIRS_MAX = 16 };

struct request {
	const char *word;
	int n;
	const char *keys[REQUEST_PAIRS_MAX], *values[REQUEST_PAIRS_MAX];
};

/* Splits `line` in place. False: empty, or not of that form. */
bool request_parse(struct request *request, char *line);
const char *request_text(const struct request *request, const char *key, const char *fallback);
int64_t request_number(const struct request *request, const char *key, int64_t fallback);

#endif
