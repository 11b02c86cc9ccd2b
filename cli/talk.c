/* SPDX-License-Identifier: MIT */
/* What is said goes out in one write, so that lines of several processes do not mix; a write that
 * fails is nobody's problem. Texts contain names and answers that others have chosen: escape
 * sequences in them must not reach a terminal. */
#include "talk.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 2048 };

void talk(const char *format, ...) {
	char line[LINE_MAX_BYTES] = "sneck: ";
	size_t begin = strlen(line);
	va_list args;

	va_start(args, format);
	int n = vsnprintf(line + begin, sizeof(line) - begin - 1, format, args);
	va_end(args);
	if (n < 0)
		return;
	size_t len = strlen(line);
	for (size_t i = begin; i < len; i++) {
		if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
			line[i] = '?';
	}
	line[len++] = '\n';
	(void)!write(STDERR_FILENO, line, len);
}

const char *quote_name(const void *name, size_t len, char ret[SHOWN_MAX]) {
	const unsigned char *bytes = name;
	size_t n = 0;

	ret[n++] = '"';
	for (size_t i = 0; i < len; i++) {
		if (n + 10 > SHOWN_MAX) {
			memcpy(ret + n, "…", 3);
			n += 3;
			break;
		}
		if (bytes[i] >= ' ' && bytes[i] != 0x7f && bytes[i] != '"' && bytes[i] != '\\')
			ret[n++] = (char)bytes[i];
		else
			n += (size_t)snprintf(ret + n, SHOWN_MAX - n, "\\x%02x", bytes[i]);
	}
	ret[n++] = '"';
	ret[n] = '\0';
	return ret;
}

/* --password, --token=…, --api-key: the value, or the next word, is nobody's business. */
static bool names_a_secret(const char *word) {
	static const char *const hints[] = { "passw", "secret", "token", "api-key", "apikey", "credential" };

	if (word[0] != '-')
		return false;
	size_t len = strcspn(word, "=");
	for (size_t i = 0; i < sizeof(hints) / sizeof(*hints); i++) {
		for (size_t at = 0; at + strlen(hints[i]) <= len; at++) {
			if (!strncasecmp(word + at, hints[i], strlen(hints[i])))
				return true;
		}
	}
	return false;
}

char *join_words(char *const *words, char *ret_text, size_t size) {
	bool hide = false;
	size_t len = 0;

	for (size_t i = 0; words[i] && len + 1 < size; i++) {
		const char *word = words[i];
		bool secret = names_a_secret(word);
		const char *equals = secret ? strchr(word, '=') : NULL;
		if (hide)
			len += (size_t)snprintf(ret_text + len, size - len, " ***");
		else if (equals)
			len += (size_t)snprintf(ret_text + len, size - len, "%s%.*s***", i ? " " : "",
			        (int)(equals - word) + 1, word);
		else
			len += (size_t)snprintf(ret_text + len, size - len, "%s%s", i ? " " : "", word);
		hide = secret && !equals && !hide;
	}
	return words[0] ? ret_text : NULL;
}

bool use_color(enum color_when when, FILE *stream) {
	const char *no_color = getenv("NO_COLOR");
	const char *term = getenv("TERM");

	if (when != COLOR_AUTO)
		return when == COLOR_ALWAYS;
	return isatty(fileno(stream)) && !(no_color && *no_color) && term && strcmp(term, "dumb") != 0;
}

const char *show_duration(int64_t ms, char ret[32]) {
	int64_t seconds = ms / 1000;

	if (ms < 1000)
		snprintf(ret, 32, "%" PRId64 "ms", ms < 0 ? 0 : ms);
	else if (seconds < 60)
		snprintf(ret, 32, "%" PRId64 ".%" PRId64 "s", seconds, ms % 1000 / 100);
	else if (seconds < 3600)
		snprintf(ret, 32, "%" PRId64 "m%02" PRId64 "s", seconds / 60, seconds % 60);
	else if (seconds < 86400)
		snprintf(ret, 32, "%" PRId64 "h%02" PRId64 "m", seconds / 3600, seconds / 60 % 60);
	else
		snprintf(ret, 32, "%" PRId64 "d%02" PRId64 "h", seconds / 86400, seconds / 3600 % 24);
	return ret;
}

int64_t boot_ms(void) {
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
