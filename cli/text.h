/* SPDX-License-Identifier: MIT */
/* Texts for people that contain what others have chosen: names, notes, commands. */
#ifndef SNECK_CLI_TEXT_H
#define SNECK_CLI_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A text that grows. A failed allocation ends the program: there is nothing a command could do. */
struct text {
	char *data; /* ends with a NUL; NULL while empty */
	size_t len, cap;
};

void text_add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The bytes with everything in them that is no printable UTF-8, and the backslash, as \xNN or \\. */
void text_add_safe(struct text *text, const void *bytes, size_t len);
/* The bytes as one word of a shell's command line. */
void text_add_shell(struct text *text, const void *bytes, size_t len);
void text_free(struct text *text);
const char *text_of(const struct text *text); /* never NULL */

/* Is it UTF-8? Control characters are, too. */
bool is_utf8(const void *bytes, size_t len);

/* "2026-11-15T06:40:11.042Z" */
const char *show_time(int64_t unix_ms, char ret[40]);

#endif
