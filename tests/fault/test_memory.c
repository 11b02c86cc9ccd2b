/* SPDX-License-Identifier: MIT */
/* Out of memory on the background thread, for a request that nobody but it can send: whoever waits for the
 * answer hears that there is none, and at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <sneck/error.h>

#include "locks.h"
#include "wait.h"

static struct test_server *const server = &test_the_server;

/* The next allocation of a buffer fails, on whatever thread that is. */
static atomic_bool no_memory;

void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);

void *__wrap_realloc(void *old, size_t size) {
	return atomic_exchange(&no_memory, false) ? NULL : __real_realloc(old, size);
}

static void a_heartbeat_without_memory_ends_the_wait(void **state) {
	(void)state;
	sneck_client *a = test_open(server->url);
	sneck_client *b = test_open(server->url);
	sneck_hold *hold = test_take(a, "door", SNECK_WRITE, 0);
	sneck_acquire_options options = test_waiting(SNECK_WAIT_FOREVER);
	struct test_call call;
	test_call_start(&call, b, "door", SNECK_WRITE, &options);
	/* Its first heartbeat follows at once, when messages flow; from then on each comes with the clock. */
	assert_true(WAIT_UNTIL(test_stats(b).beats >= 2, 5000));
	atomic_store(&no_memory, true);
	assert_true(WAIT_UNTIL(!atomic_load(&no_memory), 5000));
	assert_true(WAIT_UNTIL(atomic_load(&call.done), TEST_SLACK_MS));
	assert_result(SNECK_ENOMEM, test_call_join(&call), &call.error);
	test_release(hold);
	assert_true(WAIT_UNTIL(test_is_idle(server, "door"), 5000));
	sneck_close(b);
	sneck_close(a);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(a_heartbeat_without_memory_ends_the_wait),
	};
	return TEST_RUN(tests);
}
