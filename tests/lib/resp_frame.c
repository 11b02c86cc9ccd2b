/* SPDX-License-Identifier: MIT */
/* Framing is done by a second, simple parser and not by the library's own, so that a fault in the
 * latter cannot hide itself. A message is parsed again from its start whenever bytes arrive; the
 * messages of a lock client are short. Inline commands are taken as one line. */
#include "resp_frame.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Length of the line at `data` with its end, or 0. */
static size_t line_len(const char *data, size_t len) {
	const char *end = memchr(data, '\n', len);
	return end ? (size_t)(end - data) + 1 : 0;
}

size_t test_resp_frame(const char *data, size_t len) {
	size_t used = line_len(data, len);
	if (used == 0)
		return 0;
	if (data[0] == '$') {
		long bulk = strtol(data + 1, NULL, 10);
		if (bulk >= 0)
			used += (size_t)bulk + 2;
		return used <= len ? used : 0;
	}
	if (data[0] != '*' && data[0] != '%' && data[0] != '>' && data[0] != '~')
		return used;
	long count = strtol(data + 1, NULL, 10);
	if (data[0] == '%')
		count *= 2;
	for (long i = 0; i < count; i++) {
		if (used == len)
			return 0;
		size_t part = test_resp_frame(data + used, len - used);
		if (part == 0)
			return 0;
		used += part;
	}
	return used;
}

long test_resp_elements(const char *data, size_t len) {
	return len > 0 && data[0] == '*' ? strtol(data + 1, NULL, 10) : -1;
}

bool test_resp_element_is(const char *data, size_t len, int index, const char *word) {
	if (test_resp_elements(data, len) <= index)
		return false;
	size_t at = line_len(data, len);
	for (int i = 0; i < index; i++)
		at += test_resp_frame(data + at, len - at);
	size_t word_len = strlen(word);
	if (data[at] != '$' || (size_t)strtol(data + at + 1, NULL, 10) != word_len)
		return false;
	return strncasecmp(data + at + line_len(data + at, len - at), word, word_len) == 0;
}
