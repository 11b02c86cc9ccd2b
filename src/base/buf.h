/* SPDX-License-Identifier: MIT */
/* A growable byte buffer. Appending after a failed allocation stays failed, so that a writer may
 * check once at the end. */
#ifndef SNECK_BASE_BUF_H
#define SNECK_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
	char *data;
	size_t len;
	size_t cap;
	bool failed; /* an allocation failed; contents are no longer complete */
};

#define BUF_INIT \
	{ 0, 0, 0, false }

void snecki_buf_done(struct buf *buf);  /* frees; the buffer may be used again */
void snecki_buf_wipe(struct buf *buf);  /* the same, for secrets: overwrites the memory first */
void snecki_buf_clear(struct buf *buf); /* keeps the memory */
bool snecki_buf_reserve(struct buf *buf, size_t extra); /* the next `extra` bytes need no allocation */
bool snecki_buf_add(struct buf *buf, const void *data, size_t len);
bool snecki_buf_add_str(struct buf *buf, const char *str);
bool snecki_buf_printf(struct buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));
void snecki_buf_consume(struct buf *buf, size_t len); /* drops bytes from the front */

/* Decimal digits that end at `end`; returns where they begin. */
enum { DIGITS_MAX = 20 };
char *snecki_digits(char *end, uint64_t number);

/* RESP: an array header, and one bulk string. */
bool snecki_buf_resp_array(struct buf *buf, size_t count);
bool snecki_buf_resp_bulk(struct buf *buf, const void *data, size_t len);
/* The same in parts: in between come exactly `len` bytes. */
bool snecki_buf_resp_bulk_begin(struct buf *buf, size_t len);
bool snecki_buf_resp_bulk_end(struct buf *buf);
bool snecki_buf_resp_str(struct buf *buf, const char *str);
bool snecki_buf_resp_i64(struct buf *buf, int64_t value);
bool snecki_buf_resp_u64(struct buf *buf, uint64_t value);

#endif
