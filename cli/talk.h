/* SPDX-License-Identifier: MIT */
/* Speaking to people: on stderr, one line at a time, with nothing in it that could take over their
 * terminal. */
#ifndef SNECK_CLI_TALK_H
#define SNECK_CLI_TALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "options.h"

enum { SHOWN_MAX = 256 };

/* "sneck: …" and a newline on stderr, in one write. Control characters become "?". */
void talk(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A name as people can read it, in quotes; unprintable bytes as \xNN, shortened if need be. */
const char *quote_name(const void *name, size_t len, char ret[SHOWN_MAX]);

/* The words with blanks between them, cut to `size`, what looks like a password replaced by "***".
 * Returns `ret_text`, or NULL when there are no words. */
char *join_words(char *const *words, char *ret_text, size_t size);

/* May `stream` be coloured? */
bool use_color(enum color_when when, FILE *stream);

/* "3m12s", "850ms", "2d4h" */
const char *show_duration(int64_t ms, char ret[32]);

/* CLOCK_BOOTTIME in milliseconds: the clock of leases. */
int64_t boot_ms(void);

#endif
