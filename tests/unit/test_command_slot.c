/* SPDX-License-Identifier: MIT */
/* Which slot of a cluster a command belongs to. The numbers are a real server's (CLUSTER KEYSLOT). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "topology/command_slot.h"

static void keys_have_the_servers_slots(void **state) {
	static const struct {
		const char *key;
		int slot;
	} rows[] = {
		{ "", 0 },
		{ "123456789", 12739 },
		{ "foo", 12182 },
		{ "sneck:{foo}", 12182 },
		{ "sneck:{foo}:host:1:x", 12182 },
		{ "{foo}{bar}", 12182 },
		{ "a{}b{foo}", 976 },
		{ "}{foo", 3840 },
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		assert_int_equal(snecki_key_slot(rows[i].key, strlen(rows[i].key)), rows[i].slot);
}

static int slot_of(const char *const *words) {
	struct buf out = BUF_INIT;
	size_t n = 0;

	while (words[n])
		n++;
	snecki_buf_resp_array(&out, n);
	for (size_t i = 0; i < n; i++)
		snecki_buf_resp_str(&out, words[i]);
	int slot = snecki_command_slot(out.data, out.len);
	snecki_buf_done(&out);
	return slot;
}

#define SLOT(...) slot_of((const char *const[]){ __VA_ARGS__, NULL })

static void commands_go_where_their_keys_are(void **state) {
	(void)state;
	assert_int_equal(SLOT("EVALSHA", "sha", "1", "sneck:{foo}", "bar"), 12182);
	assert_int_equal(SLOT("EVAL", "return 1", "2", "foo", "x:{foo}", "bar"), 12182);
	assert_int_equal(SLOT("EVALSHA_RO", "sha", "1", "foo"), 12182);
	assert_int_equal(SLOT("HMGET", "foo", "x"), 12182);
	assert_int_equal(SLOT("SPUBLISH", "sneck:{foo}:s", "x"), 12182);
	assert_int_equal(SLOT("EVAL", "return 1", "0", "foo"), SLOT_ANY);
	assert_int_equal(SLOT("PING"), SLOT_ANY);
	assert_int_equal(SLOT("SCAN", "0"), SLOT_ANY);
	assert_int_equal(SLOT("PUBLISH", "foo", "x"), SLOT_ANY);
}

static void keys_in_two_slots_are_noticed(void **state) {
	(void)state;
	assert_int_equal(SLOT("EVALSHA", "sha", "2", "foo", "bar"), SLOT_SEVERAL);
	assert_int_equal(SLOT("EVALSHA", "sha", "3", "foo", "{foo}", "bar"), SLOT_SEVERAL);
}

/* Every prefix of a command: nothing is read behind its end. */
static void what_is_cut_off_is_no_command(void **state) {
	static const char whole[] = "*4\r\n$7\r\nEVALSHA\r\n$3\r\nsha\r\n$1\r\n1\r\n$3\r\nfoo\r\n";
	char copy[sizeof whole];
	(void)state;
	for (size_t n = 0; n < sizeof whole - 1; n++) {
		memcpy(copy, whole, n);
		assert_int_equal(snecki_command_slot(copy, n), SLOT_ANY);
	}
	assert_int_equal(snecki_command_slot(whole, sizeof whole - 1), 12182);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_have_the_servers_slots),
		cmocka_unit_test(commands_go_where_their_keys_are),
		cmocka_unit_test(keys_in_two_slots_are_noticed),
		cmocka_unit_test(what_is_cut_off_is_no_command),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
