/* SPDX-License-Identifier: MIT */
/* Names of locks are any bytes, and notes and commands come from whoever may write to the server.
 * Nothing of that reaches a terminal as it is: control characters, also those of the upper half
 * that hide in UTF-8, are written as \xNN. */
#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "exit.h"

static void reserve(struct text *text, size_t more) {
	if (text->len + more + 1 <= text->cap)
		return;
	size_t cap = 2 * text->cap + more + 64;
	char *data = realloc(text->data, cap);
	if (!data) {
		fputs("sneck: out of memory\n", stderr);
		exit(EXIT_INTERNAL);
	}
	text->data = data;
	text->cap = cap;
}

void text_add(struct text *text, const char *format, ...) {
	va_list args;

	va_start(args, format);
	int n = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (n < 0)
		return;
	reserve(text, (size_t)n);
	va_start(args, format);
	vsnprintf(text->data + text->len, (size_t)n + 1, format, args);
	va_end(args);
	text->len += (size_t)n;
}

/* The length of the UTF-8 character at `at`, or 0: it is none. Overlong forms, surrogates and what
 * lies behind U+10FFFF are none. */
static size_t utf8_len(const unsigned char *at, size_t left) {
	static const struct {
		unsigned char first, last, second_min, second_max, len;
	} forms[] = {
		{ 0x00, 0x7f, 0x00, 0x00, 1 },
		{ 0xc2, 0xdf, 0x80, 0xbf, 2 },
		{ 0xe0, 0xe0, 0xa0, 0xbf, 3 },
		{ 0xe1, 0xec, 0x80, 0xbf, 3 },
		{ 0xed, 0xed, 0x80, 0x9f, 3 },
		{ 0xee, 0xef, 0x80, 0xbf, 3 },
		{ 0xf0, 0xf0, 0x90, 0xbf, 4 },
		{ 0xf1, 0xf3, 0x80, 0xbf, 4 },
		{ 0xf4, 0xf4, 0x80, 0x8f, 4 },
	};

	for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
		size_t len = forms[i].len;
		if (at[0] < forms[i].first || at[0] > forms[i].last)
			continue;
		if (len > left || (len > 1 && (at[1] < forms[i].second_min || at[1] > forms[i].second_max)))
			return 0;
		for (size_t j = 2; j < len; j++) {
			if ((at[j] & 0xc0) != 0x80)
				return 0;
		}
		return len;
	}
	return 0;
}

bool is_utf8(const void *bytes, size_t len) {
	const unsigned char *at = bytes;

	for (size_t i = 0, step; i < len; i += step) {
		step = utf8_len(at + i, len - i);
		if (step == 0)
			return false;
	}
	return true;
}

/* How many bytes can be shown as they are: a character, or 0. U+0080 to U+009F are control characters;
 * so are those that change the direction of writing, for what follows them reads as something else. */
static size_t printable_len(const unsigned char *at, size_t left) {
	size_t len = utf8_len(at, left);

	if (len == 1 && (at[0] < ' ' || at[0] == 0x7f))
		return 0;
	if (len == 2 && at[0] == 0xc2 && at[1] < 0xa0)
		return 0;
	if (len == 3 && at[0] == 0xe2 &&
	        ((at[1] == 0x80 && at[2] >= 0xa8 && at[2] <= 0xae) ||
	                (at[1] == 0x81 && at[2] >= 0xa6 && at[2] <= 0xa9)))
		return 0;
	return len;
}

void text_add_safe(struct text *text, const void *bytes, size_t len) {
	const unsigned char *at = bytes;

	for (size_t i = 0; i < len;) {
		size_t step = printable_len(at + i, len - i);
		if (step == 1 && at[i] == '\\')
			text_add(text, "\\\\");
		else if (step > 0)
			text_add(text, "%.*s", (int)step, (const char *)at + i);
		else
			text_add(text, "\\x%02x", at[i]);
		i += step ? step : 1;
	}
}

static bool is_plain(const unsigned char *at, size_t len) {
	for (size_t i = 0; i < len; i++) {
		if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./:@%+,-",
		            at[i]) ||
		        !at[i])
			return false;
	}
	return len > 0;
}

void text_add_shell(struct text *text, const void *bytes, size_t len) {
	const unsigned char *at = bytes;
	bool strange = false;

	if (is_plain(at, len)) {
		text_add(text, "%.*s", (int)len, (const char *)bytes);
		return;
	}
	for (size_t i = 0, step; i < len && !strange; i += step) {
		step = printable_len(at + i, len - i);
		strange = step == 0;
	}
	text_add(text, strange ? "$'" : "'");
	for (size_t i = 0; i < len; i++) {
		if (at[i] == '\'')
			text_add(text, strange ? "\\'" : "'\\''");
		else if (strange && at[i] == '\\')
			text_add(text, "\\\\");
		else if (strange && (at[i] < ' ' || at[i] >= 0x7f))
			text_add(text, "\\x%02x", at[i]);
		else
			text_add(text, "%c", at[i]);
	}
	text_add(text, "'");
}

void text_free(struct text *text) {
	free(text->data);
	*text = (struct text){ 0 };
}

const char *text_of(const struct text *text) {
	return text->data ? text->data : "";
}

const char *show_time(int64_t unix_ms, char ret[40]) {
	time_t seconds = (time_t)(unix_ms / 1000);
	struct tm tm;

	if (!gmtime_r(&seconds, &tm) || !strftime(ret, 40, "%Y-%m-%dT%H:%M:%S", &tm))
		return strcpy(ret, "?");
	snprintf(ret + strlen(ret), 40 - strlen(ret), ".%03dZ", (int)(unix_ms % 1000));
	return ret;
}
