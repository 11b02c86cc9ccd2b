/* SPDX-License-Identifier: MIT */
/* How a lock and those who hold or await it are shown: as text, as JSON, to whoever is refused and
 * to whoever waits. */
#ifndef SNECK_CLI_LOCK_VIEW_H
#define SNECK_CLI_LOCK_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>
#include <sneck/sneck.h>

#include "text.h"

struct session;

/* Of everything that is printed as JSON. A number that changes when a field changes its meaning or
 * goes; fields may be added. */
enum { JSON_SCHEMA = 1 };

/* "ann@web1:4711", or as much of it as is known. */
void add_party(struct text *text, const sneck_party *party);
/* For how long it has held or waited; -1: unknown. */
int64_t party_age_ms(const sneck_lock_info *info, const sneck_party *party);
/* The first that holds; NULL: none. */
const sneck_party *first_holder(const sneck_lock_info *info);
const char *mode_name(int mode); /* "write", "read", "free" */

/* { "schema": …, "server": …, "namespace": … }; put more into it, then print_json. */
json_t *json_head(const struct session *session);
/* Texts that are no UTF-8 are escaped as in text_add_safe. */
json_t *json_text(const char *text);
/* "name" as it is; if that is no UTF-8, escaped, with "name_base64" beside it. */
void json_set_name(json_t *object, const void *name, size_t name_len);
json_t *json_party(const sneck_lock_info *info, const sneck_party *party);
json_t *json_lock(const sneck_lock_info *info);
/* Prints and frees. 0 or EXIT_INTERNAL. */
int print_json(json_t *json);

/* Who has it, since when, what they do, and what to type next. */
void print_busy(const sneck_lock_info *info, FILE *out, bool color);
/* The same on stderr, for `run` and `lock`, which were refused with `code` (SNECK_E…): asks the server
 * first. Falls back to `text` when it does not answer, or the lock has become free meanwhile. */
void tell_busy(const struct session *session, const void *name, size_t name_len, int code, const char *text);

/* The line that a waiting command shows: after a second, then in place on a terminal every second,
 * elsewhere once a minute. */
struct waiting {
	bool quiet;
	bool in_place;
	bool shown; /* a line stands on the terminal */
	int64_t due_ms;
};
void waiting_begin(struct waiting *waiting, bool quiet);
/* Milliseconds until waiting_show has something to do; at most a minute. */
int64_t waiting_due_ms(const struct waiting *waiting);
/* Shows the line if it is due: asks the server who holds the lock. */
void waiting_show(struct waiting *waiting, const struct session *session, const void *name, size_t name_len);
/* Removes the line. */
void waiting_end(struct waiting *waiting);

#endif
