/* SPDX-License-Identifier: MIT */
#ifndef SNECK_CLI_DURATION_H
#define SNECK_CLI_DURATION_H

#include <stdbool.h>
#include <stdint.h>

/* "1.5", "500ms", "10s", "2m", "3h", "7d": a number of seconds, or of the unit behind it. False for
 * anything else, negative numbers and more than ten years. Fractions of a millisecond count as one,
 * so that a short time never becomes none. */
bool parse_duration(const char *text, int64_t *ret_ms);

#endif
