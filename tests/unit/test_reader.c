/* SPDX-License-Identifier: MIT */
/* The bounded reply parser: any cutting of the stream gives the same replies, and a peer that lies
 * about sizes is refused before it costs memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <hiredis/hiredis.h>

#include <sneck/error.h>

#include "net/reader.h"

static const char STREAM[] =
        "+OK\r\n:7\r\n$-1\r\n$3\r\na\0b\r\n-ERR no\r\n*2\r\n:1\r\n*1\r\n$1\r\nx\r\n*0\r\n";
static const int TYPES[] = { REDIS_REPLY_STATUS, REDIS_REPLY_INTEGER, REDIS_REPLY_NIL, REDIS_REPLY_STRING,
	REDIS_REPLY_ERROR, REDIS_REPLY_ARRAY, REDIS_REPLY_ARRAY };
enum { REPLIES = sizeof(TYPES) / sizeof(TYPES[0]) };

static size_t drain(struct reader *reader, size_t at) {
	struct redisReply *reply;
	int r;
	while ((r = snecki_reader_next(reader, &reply, NULL)) > 0) {
		assert_true(at < REPLIES);
		assert_int_equal(reply->type, TYPES[at]);
		at++;
		freeReplyObject(reply);
	}
	assert_int_equal(r, 0);
	return at;
}

static void test_any_cut(void **state) {
	(void)state;
	for (size_t cut = 0; cut < sizeof(STREAM) - 1; cut++) {
		struct reader *reader = snecki_reader_new();
		assert_non_null(reader);
		assert_int_equal(snecki_reader_feed(reader, STREAM, cut, NULL), 0);
		size_t n = drain(reader, 0);
		assert_int_equal(snecki_reader_feed(reader, STREAM + cut, sizeof(STREAM) - 1 - cut, NULL), 0);
		assert_int_equal(drain(reader, n), REPLIES);
		snecki_reader_free(reader);
	}
	struct reader *reader = snecki_reader_new();
	size_t n = 0;
	for (size_t i = 0; i < sizeof(STREAM) - 1; i++) {
		snecki_reader_feed(reader, STREAM + i, 1, NULL);
		n = drain(reader, n);
	}
	assert_int_equal(n, REPLIES);
	snecki_reader_free(reader);
}

static void assert_refused(const char *stream, size_t len) {
	struct reader *reader = snecki_reader_new();
	struct redisReply *reply;
	struct sneck_error err;
	assert_int_equal(snecki_reader_feed(reader, stream, len, NULL), 0);
	int r = snecki_reader_next(reader, &reply, &err);
	if (r != SNECK_ECONN)
		fail_msg("%.20s…: result %d", stream, r);
	assert_non_null(strstr(err.text, "no valid reply"));
	snecki_reader_free(reader);
}

static void test_refused(void **state) {
	(void)state;
	static const char *const streams[] = {
		"HTTP/1.1 400 Bad Request\r\n", "*131073\r\n", /* one element too many */
		"*2147483647\r\n", "*2\r\n*131071\r\n",        /* together too many */
		"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n", /* too deep */
	};
	for (size_t i = 0; i < sizeof(streams) / sizeof(streams[0]); i++)
		assert_refused(streams[i], strlen(streams[i]));
}

/* Bytes are counted per reply: many small ones are welcome, one that is too long is not, however it
 * is made. */
static void test_sizes(void **state) {
	(void)state;
	struct reader *reader = snecki_reader_new();
	struct redisReply *reply;
	char small[1024];
	size_t small_len = (size_t)snprintf(small, sizeof(small), "$900\r\n%0900d\r\n", 1);
	for (int i = 0; i < 4096; i++) {
		snecki_reader_feed(reader, small, small_len, NULL);
		assert_int_equal(snecki_reader_next(reader, &reply, NULL), 1);
		freeReplyObject(reply);
		assert_int_equal(snecki_reader_next(reader, &reply, NULL), 0);
	}
	snecki_reader_feed(reader, "*2000\r\n", 7, NULL);
	int fed = 0, r = 0;
	for (; fed < 2000 && r == 0; fed++) {
		snecki_reader_feed(reader, small, small_len, NULL);
		r = snecki_reader_next(reader, &reply, NULL);
	}
	assert_int_equal(r, SNECK_ECONN);
	assert_in_range((size_t)fed * small_len, READER_REPLY_MAX, READER_REPLY_MAX + 4096);
	snecki_reader_free(reader);
}

/* Streams with bytes changed at random, fed in random pieces: an end in bounded memory, never a crash
 * (the sanitizers watch). */
static void test_damaged_streams(void **state) {
	(void)state;
	unsigned seed = 1;
	for (int round = 0; round < 20000; round++) {
		char stream[sizeof(STREAM) - 1];
		memcpy(stream, STREAM, sizeof(stream));
		for (int i = 0; i < 3; i++) {
			seed = seed * 1103515245 + 12345;
			static const char bytes[] = "*$:+-0129\r\n\0x";
			stream[(seed >> 16) % sizeof(stream)] = bytes[(seed >> 8) % sizeof(bytes)];
		}
		struct reader *reader = snecki_reader_new();
		int r = 0, replies = 0;
		for (size_t at = 0, piece; at < sizeof(stream) && r >= 0; at += piece) {
			seed = seed * 1103515245 + 12345;
			piece = 1 + (seed >> 16) % (sizeof(stream) - at);
			snecki_reader_feed(reader, stream + at, piece, NULL);
			struct redisReply *reply;
			while ((r = snecki_reader_next(reader, &reply, NULL)) > 0) {
				freeReplyObject(reply);
				replies++;
			}
		}
		assert_true(replies <= (int)sizeof(stream) / 3);
		snecki_reader_free(reader);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_any_cut),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_damaged_streams),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
