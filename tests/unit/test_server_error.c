/* SPDX-License-Identifier: MIT */
/* The table of server errors, against the replies as servers send them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <sneck/error.h>

#include "net/server_error.h"

struct row {
	const char *reply;
	enum server_action action;
	int code;
	bool executed_maybe;
};

static const struct row ROWS[] = {
	{ "NOSCRIPT No matching script. Please use EVAL.", ACT_EVAL, SNECK_ESERVER, false },
	{ "LOADING Redis is loading the dataset in memory", ACT_BACKOFF, SNECK_ESERVER, false },
	{ "READONLY You can't write against a read only replica. script: 0ab, on @user_script:1.",
	        ACT_REDISCOVER, SNECK_ESERVER, false },
	{ "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", ACT_REDISCOVER,
	        SNECK_ESERVER, false },
	{ "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
	        ACT_REDISCOVER, SNECK_ESERVER, false },
	{ "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
	        ACT_BACKOFF, SNECK_ESERVER, false },
	{ "OOM command not allowed when used memory > 'maxmemory'. script: 0ab, on @user_script:1.", ACT_FAIL,
	        SNECK_ESERVER, false },
	{ "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist", ACT_FAIL,
	        SNECK_ESERVER, false },
	{ "NOREPLICAS Not enough good replicas to write.", ACT_BACKOFF, SNECK_ESERVER, false },
	{ "NOAUTH Authentication required.", ACT_FAIL, SNECK_EACCES, false },
	{ "WRONGPASS invalid username-password pair or user is disabled.", ACT_FAIL, SNECK_EACCES, false },
	{ "NOPERM this user has no permissions to run the 'evalsha' command", ACT_FAIL, SNECK_EACCES, false },
	{ "NOPERM ACL failure in script: User x has no permissions to run the 'zadd' command", ACT_FAIL,
	        SNECK_EACCES, true },
	{ "ERR The user executing the script can't run this command or subcommand script: 0ab, on "
	  "@user_script:1.",
	        ACT_FAIL, SNECK_EACCES, true },
	{ "ERR ACL failure in script: No permissions to access a key script: 0ab", ACT_FAIL, SNECK_EACCES,
	        true },
	{ "DENIED Redis is running in protected mode because protected mode is enabled", ACT_FAIL,
	        SNECK_EACCES, false },
	{ "CLUSTERDOWN Hash slot not served", ACT_BACKOFF, SNECK_ESERVER, false },
	{ "TRYAGAIN Multiple keys request during rehashing of slot", ACT_BACKOFF, SNECK_ESERVER, false },
	{ "MOVED 3999 127.0.0.1:6381", ACT_FAIL, SNECK_ENOTSUP, false },
	{ "ASK 3999 127.0.0.1:6381", ACT_FAIL, SNECK_ENOTSUP, false },
	{ "CROSSSLOT Keys in request don't hash to the same slot", ACT_FAIL, SNECK_ESERVER, false },
	{ "ERR max number of clients reached", ACT_BACKOFF, SNECK_ECONN, false },
	{ "WRONGTYPE Operation against a key holding the wrong kind of value script: 0ab", ACT_FAIL,
	        SNECK_ETYPE, false },
	{ "SNECKTYPE not a lock", ACT_FAIL, SNECK_ETYPE, false },
	{ "NOPROTO unsupported protocol version", ACT_FAIL, SNECK_ENOTSUP, false },
	{ "ERR unknown command 'EVALSHA', with args beginning with: ", ACT_FAIL, SNECK_ENOTSUP, false },
	{ "ERR Unknown Redis command called from script script: 0ab, on @user_script:1.", ACT_FAIL,
	        SNECK_ENOTSUP, true },
	{ "ERR Script attempted to access a non local key in a cluster node script: 0ab", ACT_FAIL,
	        SNECK_ESERVER, true },
	{ "ERR DB index is out of range", ACT_FAIL, SNECK_EINVAL, false },
	/* Not in the table. */
	{ "ERR user_script:1: Script attempted to access nonexistent global variable 'x'", ACT_UNKNOWN,
	        SNECK_ESERVER, true },
	{ "NOSCRIPTS and more", ACT_UNKNOWN, SNECK_ESERVER, true },
	{ "OO", ACT_UNKNOWN, SNECK_ESERVER, true },
	{ "", ACT_UNKNOWN, SNECK_ESERVER, true },
	{ "an error that mentions NOSCRIPT and max number of clients reached", ACT_UNKNOWN, SNECK_ESERVER,
	        true },
};

static void test_table(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof(ROWS) / sizeof(ROWS[0]); i++) {
		const struct row *row = &ROWS[i];
		const struct server_error *found = snecki_server_error_find(row->reply, strlen(row->reply));
		if (found->action != row->action || found->code != row->code ||
		        found->executed_maybe != row->executed_maybe)
			fail_msg("%s: action %d, code %d, executed %d", row->reply, found->action,
			        found->code, found->executed_maybe);
		assert_true(strlen(found->remedy) > 10);
	}
}

static void test_length_counts(void **state) {
	(void)state;
	/* The text need not end with a NUL; what lies behind it does not count. */
	assert_int_equal(snecki_server_error_find("NOSCRIPTx", 8)->action, ACT_EVAL);
	assert_int_equal(
	        snecki_server_error_find("ERR max number of clients reached", 20)->action, ACT_UNKNOWN);
}

static void test_fill(void **state) {
	(void)state;
	struct sneck_error err;
	static const char reply[] = "OOM command not allowed when used memory > 'maxmemory'.";
	assert_int_equal(snecki_server_error_fill(reply, sizeof(reply) - 1, &err), SNECK_ESERVER);
	assert_int_equal(err.code, SNECK_ESERVER);
	assert_string_equal(err.server, "OOM");
	assert_non_null(strstr(err.text, reply));
	assert_non_null(strstr(err.text, "raise maxmemory"));
	assert_int_equal(snecki_server_error_fill(reply, sizeof(reply) - 1, NULL), SNECK_ESERVER);
	/* However long the reply, the remedy is there. */
	char longer[4096];
	memset(longer, 'x', sizeof(longer));
	memcpy(longer, "OOM ", 4);
	snecki_server_error_fill(longer, sizeof(longer), &err);
	assert_non_null(strstr(err.text, "raise maxmemory"));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_length_counts),
		cmocka_unit_test(test_fill),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
