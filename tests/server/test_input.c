/* SPDX-License-Identifier: MIT */
/* What a program may hand in by mistake, and what a server may be by mistake: each is refused with
 * its own code and a text that says what to do, at once, and without a trace on the server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "locks.h"
#include "wait.h"

static struct test_server *const server = &test_the_server;

/* A text for people: there, and more than the code's own words. */
static void assert_helps(const sneck_error *error, int code) {
	assert_result(code, error->code, error);
	if (strlen(error->text) < 15)
		fail_msg("%s: the text '%s' helps nobody", sneck_err_name(code), error->text);
}

static void refused(sneck_client *client, const void *name, size_t len, int mode,
        const sneck_acquire_options *options, int line) {
	sneck_error error = { 0 };
	sneck_hold *hold = NULL;
	int r = sneck_acquire_n(client, name, len, (sneck_mode)mode, options, &hold, &error);
	if (r != SNECK_EINVAL || hold)
		fail_msg("line %d: %s", line, r ? sneck_err_name(r) : "taken");
	assert_helps(&error, SNECK_EINVAL);
	r = sneck_acquire_start(client, name, len, (sneck_mode)mode, options, &error);
	if (r != SNECK_EINVAL)
		fail_msg("line %d: started: %s", line, r ? sneck_err_name(r) : "0");
}
#define REFUSED(name, len, mode, options) refused(client, name, len, mode, options, __LINE__)

static void bad_names_and_modes(void **state) {
	(void)state;
	sneck_client *client = test_open(server->url);
	char longest[SNECK_NAME_MAX + 1];
	memset(longest, 'x', sizeof(longest));
	REFUSED("", 0, SNECK_WRITE, NULL);
	REFUSED(NULL, 0, SNECK_WRITE, NULL);
	REFUSED(NULL, 5, SNECK_WRITE, NULL);
	REFUSED(longest, SNECK_NAME_MAX + 1, SNECK_WRITE, NULL);
	REFUSED("door", 4, 0, NULL);
	REFUSED("door", 4, 3, NULL);
	sneck_hold *hold = NULL;
	assert_result(SNECK_EINVAL, sneck_acquire(client, NULL, SNECK_WRITE, NULL, &hold, NULL), NULL);
	assert_result(SNECK_EINVAL, sneck_acquire(client, "door", SNECK_WRITE, NULL, NULL, NULL), NULL);
	assert_result(SNECK_EINVAL, sneck_acquire(NULL, "door", SNECK_WRITE, NULL, &hold, NULL), NULL);
	assert_int_equal(test_redis_int(server, "DBSIZE"), 0);
	assert_result(
	        0, sneck_acquire_n(client, longest, SNECK_NAME_MAX, SNECK_WRITE, NULL, &hold, NULL), NULL);
	test_release(hold);
	sneck_close(client);
}

static sneck_acquire_options lease(int64_t lease_ms, bool fixed) {
	sneck_acquire_options options = test_waiting(0);
	options.lease_ms = lease_ms;
	options.fixed = fixed;
	return options;
}

static void bad_leases_and_options(void **state) {
	(void)state;
	sneck_client *client = test_open(server->url);
	const struct {
		int64_t lease_ms;
		bool fixed;
	} bad[] = { { -1, false }, { INT64_MIN, true }, { 1, true }, { SNECK_LEASE_MIN_MS - 1, true },
		{ SNECK_LEASE_MIN_MS, false }, { SNECK_LEASE_RENEW_MIN_MS - 1, false },
		{ (int64_t)SNECK_LEASE_MAX_MS + 1, true }, { INT64_MAX, false } };
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		sneck_acquire_options options = lease(bad[i].lease_ms, bad[i].fixed);
		REFUSED("door", 4, SNECK_WRITE, &options);
	}
	sneck_acquire_options options = test_waiting(-2);
	REFUSED("door", 4, SNECK_WRITE, &options);
	options = test_waiting(0);
	options.policy = 3;
	REFUSED("door", 4, SNECK_WRITE, &options);
	options = test_waiting(0);
	options.size = 0;
	REFUSED("door", 4, SNECK_WRITE, &options);

	/* A newer program: what it left zero is fine, what it set and we do not know is not. */
	struct {
		sneck_acquire_options known;
		char newer[16];
	} longer = { .known = test_waiting(0) };
	longer.known.size = sizeof(longer);
	sneck_hold *hold = test_take_opts(client, "door", SNECK_WRITE, &longer.known);
	test_release(hold);
	longer.newer[15] = 1;
	REFUSED("door", 4, SNECK_WRITE, &longer.known);
	/* An older program: what its options do not have is the default. */
	options = lease(0, false);
	options.size = offsetof(sneck_acquire_options, lease_ms);
	options.lease_ms = -77;
	hold = test_take_opts(client, "door", SNECK_WRITE, &options);
	test_release(hold);
	for (int fixed = 0; fixed < 2; fixed++) {
		options = lease(fixed ? SNECK_LEASE_MIN_MS : SNECK_LEASE_RENEW_MIN_MS, fixed);
		test_release(test_take_opts(client, "door", SNECK_WRITE, &options));
		options.lease_ms = SNECK_LEASE_MAX_MS;
		test_release(test_take_opts(client, "door", SNECK_WRITE, &options));
	}
	hold = test_take(client, "door", SNECK_WRITE, 0);
	assert_result(SNECK_EINVAL, sneck_renew(hold, -1, NULL), NULL);
	assert_result(SNECK_EINVAL, sneck_renew(hold, (int64_t)SNECK_LEASE_MAX_MS + 1, NULL), NULL);
	test_release(hold);
	sneck_close(client);
}

static void nulls(void **state) {
	(void)state;
	sneck_client *client = NULL;
	assert_result(SNECK_EINVAL, sneck_open(NULL, NULL, &client, NULL), NULL);
	assert_result(SNECK_EINVAL, sneck_open(server->url, NULL, NULL, NULL), NULL);
	assert_null(client);
	assert_result(SNECK_EINVAL, sneck_release(NULL), NULL);
	assert_result(SNECK_EINVAL, sneck_renew(NULL, 0, NULL), NULL);
	assert_result(SNECK_EINVAL, sneck_upgrade(NULL, NULL, NULL), NULL);
	assert_result(SNECK_EINVAL, sneck_downgrade(NULL, NULL), NULL);
	assert_result(SNECK_EINVAL, sneck_stats(NULL, NULL), NULL);
	char id[SNECK_ID_MAX];
	assert_result(SNECK_EINVAL, sneck_detach(NULL, 1000, id, NULL), NULL);
	assert_false(sneck_check(NULL, 0));
	assert_int_equal(sneck_hold_left_ms(NULL), 0);
	assert_true(sneck_hold_fd(NULL) < 0);
	sneck_close(NULL);
	client = test_open(server->url);
	sneck_hold *hold = NULL;
	const char *ids[] = { NULL, "", "W", "x", "Wnobody", "W.1", "Whost:1:abc.", "Qhost:1:abc.1", "a b" };
	for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++)
		assert_result(SNECK_EINVAL, sneck_adopt(client, "door", 4, ids[i], NULL, &hold, NULL), NULL);
	assert_int_equal(test_redis_int(server, "DBSIZE"), 0);
	sneck_close(client);
}

static void bad_client_options(void **state) {
	(void)state;
	sneck_client *client = NULL;
	sneck_error error = { 0 };
	char long_name[SNECK_NAMESPACE_MAX + 2];
	memset(long_name, 'n', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	const char *bad_spaces[] = { "", long_name, "a{b", "a}b" };
	for (size_t i = 0; i < sizeof(bad_spaces) / sizeof(*bad_spaces); i++) {
		sneck_client_options options = SNECK_CLIENT_OPTIONS_INIT;
		options.name_space = bad_spaces[i];
		assert_result(SNECK_EINVAL, sneck_open(server->url, &options, &client, &error), NULL);
		assert_helps(&error, SNECK_EINVAL);
	}
	sneck_client_options options = SNECK_CLIENT_OPTIONS_INIT;
	options.policy = 9;
	assert_result(SNECK_EINVAL, sneck_open(server->url, &options, &client, &error), NULL);
	options = (sneck_client_options)SNECK_CLIENT_OPTIONS_INIT;
	options.flags = 1u << 30;
	assert_result(SNECK_EINVAL, sneck_open(server->url, &options, &client, &error), NULL);
	assert_helps(&error, SNECK_EINVAL);
}

static void names_of_any_bytes_are_distinct_locks(void **state) {
	(void)state;
	static char longest[2][SNECK_NAME_MAX];
	memset(longest, '{', sizeof(longest));
	longest[1][SNECK_NAME_MAX - 1] = '}';
	const struct {
		const char *bytes;
		size_t len;
	} names[] = { { "a", 1 }, { "a\0", 2 }, { "a\0b", 3 }, { "\0", 1 }, { "a\n", 2 }, { "\r\n", 2 },
		{ "{", 1 }, { "}", 1 }, { "{}", 2 }, { "{a}", 3 }, { "a}{b", 4 }, { "%", 1 }, { "%7B", 3 },
		{ "%25", 3 }, { "%257B", 5 }, { "\xff\xfe", 2 }, { " ", 1 }, { "a:b", 3 }, { "@", 1 },
		{ "\xe2\x82\xac", 3 }, { longest[0], SNECK_NAME_MAX }, { longest[1], SNECK_NAME_MAX } };
	enum { NAMES = sizeof(names) / sizeof(*names) };
	sneck_client *a = test_open(server->url);
	sneck_client *b = test_open(server->url);
	sneck_hold *holds[NAMES];
	for (size_t i = 0; i < NAMES; i++) {
		assert_result(0,
		        sneck_acquire_n(a, names[i].bytes, names[i].len, SNECK_WRITE, NULL, &holds[i], NULL),
		        NULL);
		size_t len = 0;
		const char *name = sneck_hold_name(holds[i], &len);
		assert_int_equal(len, names[i].len);
		assert_memory_equal(name, names[i].bytes, len);
	}
	assert_int_equal(test_redis_int(server, "DBSIZE"), NAMES);
	for (size_t i = 0; i < NAMES; i++) {
		sneck_hold *none = NULL;
		assert_result(SNECK_EBUSY,
		        sneck_acquire_n(b, names[i].bytes, names[i].len, SNECK_WRITE, NULL, &none, NULL),
		        NULL);
		test_release(holds[i]);
		assert_result(0,
		        sneck_acquire_n(b, names[i].bytes, names[i].len, SNECK_WRITE, NULL, &none, NULL),
		        NULL);
		test_release(none);
	}
	/* Namespaces keep apart what has the same name. */
	sneck_client_options options = SNECK_CLIENT_OPTIONS_INIT;
	options.name_space = "other";
	sneck_client *c = NULL;
	assert_result(0, sneck_open(server->url, &options, &c, NULL), NULL);
	sneck_hold *here = test_take(a, "door", SNECK_WRITE, 0);
	sneck_hold *there = test_take(c, "door", SNECK_WRITE, 0);
	test_release(here);
	test_release(there);
	sneck_close(a);
	sneck_close(b);
	sneck_close(c);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(bad_names_and_modes),
		TEST(bad_leases_and_options),
		TEST(nulls),
		TEST(bad_client_options),
		TEST(names_of_any_bytes_are_distinct_locks),
	};
	return cmocka_run_group_tests(tests, test_server_up, test_server_down);
}
