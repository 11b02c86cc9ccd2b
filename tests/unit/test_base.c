/* SPDX-License-Identifier: MIT */
/* The base layer: buffers, clock, errors, map, heap, options, random. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/log.h"
#include "base/map.h"
#include "base/options.h"
#include "base/random.h"

static void assert_buf(const struct buf *buf, const char *text) {
	assert_false(buf->failed);
	assert_int_equal(buf->len, strlen(text));
	assert_memory_equal(buf->data, text, buf->len);
}

static void test_buf_resp(void **state) {
	(void)state;
	struct buf buf = BUF_INIT;
	snecki_buf_resp_array(&buf, 5);
	snecki_buf_resp_str(&buf, "EVALSHA");
	snecki_buf_resp_bulk(&buf, "a\0b", 3);
	snecki_buf_resp_i64(&buf, INT64_MIN);
	snecki_buf_resp_u64(&buf, UINT64_MAX);
	snecki_buf_resp_str(&buf, "");
	static const char want[] = "*5\r\n$7\r\nEVALSHA\r\n$3\r\na\0b\r\n$20\r\n-9223372036854775808\r\n"
	                           "$20\r\n18446744073709551615\r\n$0\r\n\r\n";
	assert_int_equal(buf.len, sizeof(want) - 1);
	assert_memory_equal(buf.data, want, sizeof(want) - 1);
	snecki_buf_done(&buf);
	assert_null(buf.data);
}

static void test_buf_grows_and_consumes(void **state) {
	(void)state;
	struct buf buf = BUF_INIT;
	for (int i = 0; i < 10000; i++)
		snecki_buf_printf(&buf, "%05d", i);
	assert_int_equal(buf.len, 50000);
	snecki_buf_consume(&buf, 49990);
	assert_buf(&buf, "0999809999");
	snecki_buf_consume(&buf, 11);
	assert_int_equal(buf.len, 0);
	snecki_buf_add_str(&buf, "again");
	assert_buf(&buf, "again");
	size_t cap = buf.cap;
	snecki_buf_clear(&buf);
	assert_int_equal(buf.len, 0);
	assert_int_equal(buf.cap, cap);
	snecki_buf_done(&buf);
}

static void test_buf_failure_is_sticky(void **state) {
	(void)state;
	struct buf buf = BUF_INIT;
	assert_true(snecki_buf_add_str(&buf, "kept"));
	assert_false(snecki_buf_reserve(&buf, SIZE_MAX - 2));
	assert_true(buf.failed);
	assert_false(snecki_buf_add_str(&buf, "x"));
	assert_false(snecki_buf_printf(&buf, "x"));
	assert_false(snecki_buf_resp_str(&buf, "x"));
	assert_int_equal(buf.len, 4);
	snecki_buf_clear(&buf);
	assert_true(snecki_buf_add_str(&buf, "x"));
	snecki_buf_wipe(&buf);
	assert_null(buf.data);
}

static void test_clock(void **state) {
	(void)state;
	struct timespec boot, ts, mono;
	int64_t a = snecki_now_ns();
	clock_gettime(CLOCK_BOOTTIME, &boot);
	int64_t b = snecki_now_ns();
	int64_t between = (int64_t)boot.tv_sec * 1000000000 + boot.tv_nsec;
	assert_true(a <= between && between <= b);

	assert_int_equal(snecki_after_ms(5, 7), 7 * NS_PER_MS + 5);
	assert_int_equal(snecki_after_ms(a, INT64_MAX), NS_NEVER);
	assert_int_equal(snecki_after_ms(a, INT64_MAX / 1000), NS_NEVER);

	snecki_time_left(snecki_now_ns() - 1, &ts);
	assert_int_equal(ts.tv_sec, 0);
	assert_int_equal(ts.tv_nsec, 0);
	snecki_time_left(snecki_after_ms(snecki_now_ns(), 2500), &ts);
	assert_int_equal(ts.tv_sec, 2);
	assert_in_range(ts.tv_nsec, 1, 500000000);
	snecki_time_left(NS_NEVER, &ts);
	assert_int_equal(ts.tv_sec, 3600);

	clock_gettime(CLOCK_MONOTONIC, &mono);
	snecki_monotonic_deadline(snecki_after_ms(snecki_now_ns(), 1999), &ts);
	assert_in_range(ts.tv_nsec, 0, 999999999);
	int64_t ahead_ns = (int64_t)(ts.tv_sec - mono.tv_sec) * 1000000000 + ts.tv_nsec - mono.tv_nsec;
	assert_in_range(ahead_ns, 1990 * NS_PER_MS, 3000 * NS_PER_MS);
}

static void test_err(void **state) {
	(void)state;
	struct sneck_error err;
	memset(&err, 'x', sizeof(err));
	assert_int_equal(snecki_err(&err, SNECK_EINVAL, "%d apples", 3), SNECK_EINVAL);
	assert_int_equal(err.code, SNECK_EINVAL);
	assert_int_equal(err.sys_errno, 0);
	assert_string_equal(err.server, "");
	assert_string_equal(err.text, "3 apples");
	assert_int_equal(snecki_err(NULL, SNECK_EBUSY, "nobody reads it"), SNECK_EBUSY);

	assert_int_equal(snecki_err_sys(&err, SNECK_ESYS, ENOENT, "open %s", "/x"), SNECK_ESYS);
	assert_int_equal(err.sys_errno, ENOENT);
	assert_string_equal(err.text, "open /x: No such file or directory");
	assert_int_equal(snecki_err_sys(NULL, SNECK_ESYS, ENOENT, "nobody"), SNECK_ESYS);

	assert_int_equal(snecki_err_server(&err, SNECK_ESERVER, "LOADING it", 7, "wait"), SNECK_ESERVER);
	assert_string_equal(err.server, "LOADING");
	static const char long_word[] = "ANERRORWORDTHATISLONGERTHANTHEFIELD";
	snecki_err_server(&err, SNECK_ESERVER, long_word, sizeof(long_word) - 1, "wait");
	assert_int_equal(strlen(err.server), sizeof(err.server) - 1);

	char longer[2000];
	memset(longer, 'y', sizeof(longer));
	longer[sizeof(longer) - 1] = '\0';
	snecki_err_sys(&err, SNECK_ESYS, ENOENT, "%s", longer);
	assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
}

static void count_line(void *ctx, int level, const char *text) {
	(void)level;
	snprintf(ctx, 32, "%s", text);
}

static void test_log(void **state) {
	(void)state;
	char line[32] = "";
	struct log log = { .fn = count_line, .ctx = line, .level = LOG_WARN_ };
	snecki_log(&log, LOG_INFO_, "too verbose");
	assert_string_equal(line, "");
	snecki_log(&log, LOG_WARN_, "%s %d", "line", 7);
	assert_string_equal(line, "line 7");
	snecki_log(NULL, LOG_ERROR_, "nowhere");
	log.fn = NULL;
	snecki_log(&log, LOG_ERROR_, "nowhere");
}

static void test_list(void **state) {
	(void)state;
	struct item {
		int value;
		struct list node;
	} items[3] = { { .value = 1 }, { .value = 2 }, { .value = 3 } };
	struct list head;
	int total = 0;
	snecki_list_init(&head);
	assert_true(snecki_list_empty(&head));
	for (int i = 0; i < 3; i++)
		snecki_list_append(&head, &items[i].node);
	LIST_EACH (node, &head) {
		struct item *item = LIST_ITEM(node, struct item, node);
		total = total * 10 + item->value;
		if (item->value == 2)
			snecki_list_remove(node);
	}
	assert_int_equal(total, 123);
	assert_true(head.next == &items[0].node && items[0].node.next == &items[2].node);
	assert_true(snecki_list_empty(&items[1].node));
}

struct named {
	struct map_node node;
	char key[24];
	int seen;
};

/* Against a table of what must be there, through growth, removal and return. */
static void test_map(void **state) {
	(void)state;
	enum { N = 5000 };
	struct named *items = calloc(N, sizeof(*items));
	struct map map;
	assert_int_equal(snecki_map_init(&map), 0);
	assert_null(snecki_map_find(&map, "x", 1));
	assert_null(snecki_map_next(&map, NULL));
	for (int i = 0; i < N; i++) {
		snprintf(items[i].key, sizeof(items[i].key), "name-%d", i);
		snecki_map_insert(&map, &items[i].node, items[i].key, strlen(items[i].key));
	}
	for (int i = 0; i < N; i += 2)
		snecki_map_remove(&map, &items[i].node);
	assert_int_equal(snecki_map_count(&map), N / 2);
	for (int i = 0; i < N; i++) {
		struct map_node *node = snecki_map_find(&map, items[i].key, strlen(items[i].key));
		assert_ptr_equal(node, i % 2 ? &items[i].node : NULL);
	}
	int walked = 0;
	for (struct map_node *node = snecki_map_next(&map, NULL); node; node = snecki_map_next(&map, node)) {
		struct named *item = MAP_ITEM(node, struct named, node);
		assert_int_equal(item->seen++, 0);
		walked++;
	}
	assert_int_equal(walked, N / 2);
	snecki_map_insert(&map, &items[0].node, items[0].key, strlen(items[0].key));
	assert_ptr_equal(snecki_map_find(&map, "name-0", 6), &items[0].node);
	snecki_map_done(&map);
	free(items);
}

/* Bytes are bytes: a NUL, an empty key and a common prefix make different keys. */
static void test_map_binary_keys(void **state) {
	(void)state;
	static const struct {
		const char *key;
		size_t len;
	} keys[] = { { "", 0 }, { "\0", 1 }, { "\0\0", 2 }, { "a", 1 }, { "a\0", 2 }, { "a\0b", 3 },
		{ "abcdefgh", 8 }, { "abcdefg", 7 }, { "abcdefghi", 9 } };
	enum { N = sizeof(keys) / sizeof(keys[0]) };
	struct map_node nodes[N];
	struct map map;
	assert_int_equal(snecki_map_init(&map), 0);
	for (size_t i = 0; i < N; i++) {
		assert_null(snecki_map_find(&map, keys[i].key, keys[i].len));
		snecki_map_insert(&map, &nodes[i], keys[i].key, keys[i].len);
	}
	for (size_t i = 0; i < N; i++)
		assert_ptr_equal(snecki_map_find(&map, keys[i].key, keys[i].len), &nodes[i]);
	/* The seed is the table's own. */
	struct map other;
	struct map_node node;
	assert_int_equal(snecki_map_init(&other), 0);
	snecki_map_insert(&other, &node, "abcdefgh", 8);
	assert_true(node.hash != nodes[6].hash);
	snecki_map_done(&other);
	snecki_map_done(&map);
}

/* Random inserts, moves and removals against a plain search for the smallest. */
static void test_heap(void **state) {
	(void)state;
	enum { N = 200, STEPS = 20000 };
	struct heap heap;
	struct heap_node nodes[N] = { 0 };
	unsigned seed = 7;
	snecki_heap_init(&heap);
	assert_null(snecki_heap_min(&heap));
	snecki_heap_remove(&heap, &nodes[0]);
	for (int step = 0; step < STEPS; step++) {
		seed = seed * 1103515245 + 12345;
		struct heap_node *node = &nodes[(seed >> 16) % N];
		int64_t key = (seed >> 8) % 1000;
		if (!snecki_heap_has(node))
			assert_int_equal(snecki_heap_insert(&heap, node, key), 0);
		else if (seed & 0x4000000)
			snecki_heap_update(&heap, node, key);
		else
			snecki_heap_remove(&heap, node);
		const struct heap_node *min = NULL;
		size_t count = 0;
		for (int i = 0; i < N; i++)
			if (snecki_heap_has(&nodes[i])) {
				count++;
				if (!min || nodes[i].key < min->key)
					min = &nodes[i];
			}
		assert_int_equal(heap.count, count);
		struct heap_node *top = snecki_heap_min(&heap);
		assert_true(!top == !min);
		if (top)
			assert_int_equal(top->key, min->key);
	}
	int64_t last = INT64_MIN;
	for (struct heap_node *top; (top = snecki_heap_min(&heap));) {
		assert_true(top->key >= last);
		last = top->key;
		snecki_heap_remove(&heap, top);
		assert_false(snecki_heap_has(top));
	}
	assert_int_equal(snecki_heap_reserve(&heap, 1000), 0);
	assert_true(heap.cap >= 1000);
	snecki_heap_done(&heap);
}

struct options {
	size_t size;
	int32_t a, b;
	void *c;
};
struct older_options {
	size_t size;
	int32_t a;
};
struct newer_options {
	struct options known;
	int64_t d;
};

static void test_options(void **state) {
	(void)state;
	struct options ours;
	memset(&ours, 'x', sizeof(ours));
	assert_int_equal(snecki_options_load(&ours, sizeof(ours), NULL), 0);
	assert_int_equal(ours.size, sizeof(ours));
	assert_int_equal(ours.a, 0);
	assert_null(ours.c);

	struct options same = { sizeof(same), 1, 2, &same };
	assert_int_equal(snecki_options_load(&ours, sizeof(ours), &same), 0);
	assert_memory_equal(&ours, &same, sizeof(ours));

	struct older_options older;
	memset(&older, 0, sizeof(older));
	older.size = offsetof(struct older_options, a) + sizeof(older.a);
	older.a = 7;
	assert_int_equal(snecki_options_load(&ours, sizeof(ours), &older), 0);
	assert_int_equal(ours.size, sizeof(ours));
	assert_int_equal(ours.a, 7);
	assert_int_equal(ours.b, 0);

	struct newer_options newer = { { sizeof(newer), 1, 2, NULL }, 0 };
	assert_int_equal(snecki_options_load(&ours, sizeof(ours), &newer), 0);
	assert_int_equal(ours.b, 2);
	newer.d = 1;
	assert_int_equal(snecki_options_load(&ours, sizeof(ours), &newer), SNECK_EINVAL);

	same.size = 0;
	assert_int_equal(snecki_options_load(&ours, sizeof(ours), &same), SNECK_EINVAL);
	same.size = sizeof(size_t) - 1;
	assert_int_equal(snecki_options_load(&ours, sizeof(ours), &same), SNECK_EINVAL);
	same.size = SIZE_MAX;
	assert_int_equal(snecki_options_load(&ours, sizeof(ours), &same), SNECK_EINVAL);
	same.size = sizeof(size_t);
	assert_int_equal(snecki_options_load(&ours, sizeof(ours), &same), 0);
	assert_int_equal(ours.a, 0);
}

static void test_random(void **state) {
	(void)state;
	unsigned char bytes[64] = { 0 }, zero[64] = { 0 };
	assert_int_equal(snecki_random_bytes(bytes, sizeof(bytes)), 0);
	assert_memory_not_equal(bytes, zero, 32);
	assert_memory_not_equal(bytes + 32, zero, 32);
	assert_true(snecki_random_u64() != snecki_random_u64());
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_buf_resp),
		cmocka_unit_test(test_buf_grows_and_consumes),
		cmocka_unit_test(test_buf_failure_is_sticky),
		cmocka_unit_test(test_clock),
		cmocka_unit_test(test_err),
		cmocka_unit_test(test_log),
		cmocka_unit_test(test_list),
		cmocka_unit_test(test_map),
		cmocka_unit_test(test_map_binary_keys),
		cmocka_unit_test(test_heap),
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_random),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
