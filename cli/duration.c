/* SPDX-License-Identifier: MIT */
/* Durations as timeout(1) and flock(1) take them. Read digit by digit: strtod would depend on the
 * locale and let "nan", "inf", "0x10" and "1e9" pass. */
#include "duration.h"

#include <stddef.h>
#include <string.h>

static const struct {
	const char *name;
	int64_t ms;
} units[] = {
	{ "", 1000 },
	{ "ms", 1 },
	{ "s", 1000 },
	{ "m", 60 * 1000 },
	{ "h", 60 * 60 * 1000 },
	{ "d", 24 * 60 * 60 * 1000 },
};

#define DURATION_MAX_MS (INT64_C(3650) * 24 * 60 * 60 * 1000)
enum { FRACTION_DIGITS = 9 };

static bool is_digit(char c) {
	return c >= '0' && c <= '9';
}

/* `part` of `whole` times `unit_ms`, rounded up. part < whole <= 1e9 and a unit is below 1e8. */
static int64_t fraction_ms(int64_t part, int64_t whole, int64_t unit_ms) {
	return (part * unit_ms + whole - 1) / whole;
}

bool parse_duration(const char *text, int64_t *ret_ms) {
	int64_t number = 0, part = 0, whole = 1;
	bool any = false, rest = false;
	int digits = 0;

	for (; is_digit(*text); text++, any = true) {
		number = number * 10 + (*text - '0');
		if (number > DURATION_MAX_MS)
			return false;
	}
	if (*text == '.') {
		for (text++; is_digit(*text); text++, any = true) {
			if (digits++ < FRACTION_DIGITS) {
				part = part * 10 + (*text - '0');
				whole *= 10;
			} else {
				rest = rest || *text != '0';
			}
		}
	}
	if (!any)
		return false;
	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
		if (strcmp(text, units[i].name))
			continue;
		if (number > DURATION_MAX_MS / units[i].ms)
			return false;
		*ret_ms = number * units[i].ms + fraction_ms(part, whole, units[i].ms);
		/* Digits beyond those that count still make the time longer than none. */
		if (rest && *ret_ms == 0)
			*ret_ms = 1;
		return true;
	}
	return false;
}
