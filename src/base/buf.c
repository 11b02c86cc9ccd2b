/* SPDX-License-Identifier: MIT */
/* Byte buffers and the little of RESP that a client writes.
 *
 * Why a sticky failure: a request is put together by a dozen calls, and checking each would bury
 * the protocol under error handling. After one failed allocation every later call fails as well,
 * so a single look at `failed` before sending is enough; a request is never sent half built.
 *
 * Growth doubles, so that appending is linear in all. A length that would overflow size_t counts
 * as a failed allocation. */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUF_FIRST_CAP = 256 };

void snecki_buf_done(struct buf *buf) {
	free(buf->data);
	*buf = (struct buf)BUF_INIT;
}

void snecki_buf_wipe(struct buf *buf) {
	if (buf->data)
		explicit_bzero(buf->data, buf->cap);
	snecki_buf_done(buf);
}

void snecki_buf_clear(struct buf *buf) {
	buf->len = 0;
	buf->failed = false;
}

bool snecki_buf_reserve(struct buf *buf, size_t extra) {
	if (buf->failed)
		return false;
	if (extra <= buf->cap - buf->len)
		return true;
	if (extra > SIZE_MAX / 2 - buf->len) {
		buf->failed = true;
		return false;
	}
	size_t need = buf->len + extra;
	size_t cap = buf->cap ? buf->cap : BUF_FIRST_CAP;
	while (cap < need)
		cap *= 2;
	char *data = realloc(buf->data, cap);
	if (!data) {
		buf->failed = true;
		return false;
	}
	buf->data = data;
	buf->cap = cap;
	return true;
}

bool snecki_buf_add(struct buf *buf, const void *data, size_t len) {
	if (!snecki_buf_reserve(buf, len))
		return false;
	if (len)
		memcpy(buf->data + buf->len, data, len);
	buf->len += len;
	return true;
}

bool snecki_buf_add_str(struct buf *buf, const char *str) {
	return snecki_buf_add(buf, str, strlen(str));
}

bool snecki_buf_printf(struct buf *buf, const char *format, ...) {
	va_list args;
	va_start(args, format);
	int need = vsnprintf(NULL, 0, format, args);
	va_end(args);
	if (need < 0) {
		buf->failed = true;
		return false;
	}
	/* vsnprintf writes a NUL as well; it is not counted. */
	if (!snecki_buf_reserve(buf, (size_t)need + 1))
		return false;
	va_start(args, format);
	vsnprintf(buf->data + buf->len, (size_t)need + 1, format, args);
	va_end(args);
	buf->len += (size_t)need;
	return true;
}

void snecki_buf_consume(struct buf *buf, size_t len) {
	if (len >= buf->len) {
		buf->len = 0;
		return;
	}
	memmove(buf->data, buf->data + len, buf->len - len);
	buf->len -= len;
}

/* Without the cost of printf: every request has a dozen of these. */
char *snecki_digits(char *end, uint64_t number) {
	do {
		*--end = (char)('0' + number % 10);
		number /= 10;
	} while (number);
	return end;
}

/* "<type><number>\r\n" */
static bool add_header(struct buf *buf, char type, size_t number) {
	char text[1 + DIGITS_MAX + 2];
	char *end = text + sizeof(text) - 2;
	end[0] = '\r';
	end[1] = '\n';
	char *at = snecki_digits(end, number);
	*--at = type;
	return snecki_buf_add(buf, at, (size_t)(text + sizeof(text) - at));
}

bool snecki_buf_resp_array(struct buf *buf, size_t count) {
	return add_header(buf, '*', count);
}

bool snecki_buf_resp_bulk_begin(struct buf *buf, size_t len) {
	return add_header(buf, '$', len);
}

bool snecki_buf_resp_bulk_end(struct buf *buf) {
	return snecki_buf_add(buf, "\r\n", 2);
}

bool snecki_buf_resp_bulk(struct buf *buf, const void *data, size_t len) {
	return snecki_buf_resp_bulk_begin(buf, len) && snecki_buf_add(buf, data, len) &&
	       snecki_buf_resp_bulk_end(buf);
}

bool snecki_buf_resp_str(struct buf *buf, const char *str) {
	return snecki_buf_resp_bulk(buf, str, strlen(str));
}

static bool resp_number(struct buf *buf, bool negative, uint64_t size) {
	char text[1 + DIGITS_MAX];
	char *end = text + sizeof(text), *at = snecki_digits(end, size);
	if (negative)
		*--at = '-';
	return snecki_buf_resp_bulk(buf, at, (size_t)(end - at));
}

bool snecki_buf_resp_i64(struct buf *buf, int64_t value) {
	return resp_number(buf, value < 0, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

bool snecki_buf_resp_u64(struct buf *buf, uint64_t value) {
	return resp_number(buf, false, value);
}
