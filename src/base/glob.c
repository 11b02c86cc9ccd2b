/* SPDX-License-Identifier: MIT */
/* Patterns for names. The rules are those of the server's own patterns, but names may hold any bytes
 * and a pattern costs at most pattern times text: only the last `*` is ever tried again. */
#include "base/glob.h"

#include <string.h>

/* `set` is behind the '['. Returns what follows the set, or NULL: it has no end. */
static const char *match_set(const char *set, unsigned char byte, bool *ret_match) {
	bool negate = *set == '^', match = false;

	for (const char *at = set + negate; *at; at++) {
		if (*at == ']') {
			*ret_match = match != negate;
			return at + 1;
		}
		if (*at == '\\' && at[1])
			at++;
		unsigned char from = (unsigned char)*at, to = from;
		if (at[1] == '-' && at[2] && at[2] != ']') {
			to = (unsigned char)at[2];
			at += 2;
		}
		match = match || (byte >= from && byte <= to) || (byte >= to && byte <= from);
	}
	return NULL;
}

/* One byte against the pattern's next element, which is no '*'. NULL: it does not match. */
static const char *match_one(const char *pattern, unsigned char byte) {
	bool match;

	if (*pattern == '?')
		return pattern + 1;
	if (*pattern == '[') {
		const char *next = match_set(pattern + 1, byte, &match);
		if (next)
			return match ? next : NULL;
	}
	if (*pattern == '\\' && pattern[1])
		pattern++;
	return *pattern && (unsigned char)*pattern == byte ? pattern + 1 : NULL;
}

bool snecki_glob(const char *pattern, const char *text, size_t len) {
	const char *star = NULL; /* behind the last '*' */
	size_t at = 0, star_at = 0;

	while (at < len) {
		if (*pattern == '*') {
			star = ++pattern;
			star_at = at;
			continue;
		}
		const char *next = match_one(pattern, (unsigned char)text[at]);
		if (next) {
			pattern = next;
			at++;
		} else if (star) {
			pattern = star;
			at = ++star_at;
		} else {
			return false;
		}
	}
	return pattern[strspn(pattern, "*")] == '\0';
}
