/* SPDX-License-Identifier: MIT */
/* How many elements a reply may announce. Numbers that no allocator could serve fail by themselves: these
 * are the ones that one would. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <hiredis/hiredis.h>

#include <sneck/error.h>

#include "net/reader.h"

/* What the reader says to `*count`, after an array of two has begun or not. */
static int announce(const char *before, unsigned count) {
	struct reader *reader = snecki_reader_new();
	struct redisReply *reply = NULL;
	char text[64];
	int len = snprintf(text, sizeof(text), "%s*%u\r\n", before, count);

	assert_non_null(reader);
	assert_int_equal(snecki_reader_feed(reader, text, (size_t)len, NULL), 0);
	int r = snecki_reader_next(reader, &reply, NULL);
	snecki_reader_free(reader);
	return r;
}

static void one_array_is_bounded(void **state) {
	(void)state;
	assert_int_equal(announce("", READER_ELEMENTS_MAX), 0);
	assert_int_equal(announce("", READER_ELEMENTS_MAX + 1), SNECK_ECONN);
}

static void arrays_within_arrays_count_together(void **state) {
	(void)state;
	assert_int_equal(announce("*2\r\n", READER_ELEMENTS_MAX - 2), 0);
	assert_int_equal(announce("*2\r\n", READER_ELEMENTS_MAX - 1), SNECK_ECONN);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_array_is_bounded),
		cmocka_unit_test(arrays_within_arrays_count_together),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
