/* SPDX-License-Identifier: MIT */
/* The driver's protocol, the reading half. Lines come from bench/compare alone, so what cannot be read is a
 * mistake there: it is refused, never guessed. */
#include "request.h"

#include <stdlib.h>
#include <string.h>

bool request_parse(struct request *request, char *line) {
	char *rest = NULL;

	request->n = 0;
	request->word = strtok_r(line, " \n", &rest);
	if (!request->word)
		return false;
	for (char *pair; (pair = strtok_r(NULL, " \n", &rest)) != NULL; request->n++) {
		char *equals = strchr(pair, '=');
		if (!equals || request->n == REQUEST_PAIRS_MAX)
			return false;
		*equals = '\0';
		request->keys[request->n] = pair;
		request->values[request->n] = equals + 1;
	}
	return true;
}

const char *request_text(const struct request *request, const char *key, const char *fallback) {
	for (int i = 0; i < request->n; i++)
		if (strcmp(request->keys[i], key) == 0)
			return request->values[i];
	return fallback;
}

int64_t request_number(const struct request *request, const char *key, int64_t fallback) {
	const char *text = request_text(request, key, NULL);

	return text ? strtoll(text, NULL, 10) : fallback;
}
