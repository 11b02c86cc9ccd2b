/* SPDX-License-Identifier: MIT */
/* Who is who among the threads of a process, when the system gives a new thread all that an old one
 * had: the same stack, and so the same pthread_t. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "locks.h"

static struct test_server *const server = &test_the_server;

enum { STACK_SIZE = 1 << 20 };
static _Alignas(4096) char stack[STACK_SIZE];

struct visitor {
	sneck_client *client;
	pthread_t self;
	int result;
	sneck_hold *hold;
};

static void *try_the_door(void *arg) {
	struct visitor *visitor = arg;
	sneck_acquire_options options = test_waiting(0);

	visitor->self = pthread_self();
	visitor->result = sneck_acquire(visitor->client, "door", SNECK_WRITE, &options, &visitor->hold, NULL);
	return NULL;
}

static void visit(struct visitor *visitor) {
	pthread_attr_t attr;
	pthread_t thread;

	assert_int_equal(pthread_attr_init(&attr), 0);
	assert_int_equal(pthread_attr_setstack(&attr, stack, sizeof(stack)), 0);
	assert_int_equal(pthread_create(&thread, &attr, try_the_door, visitor), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	pthread_attr_destroy(&attr);
}

/* The first one's hold lasts to the end of its lease, and nobody comes back into it. */
static void a_thread_in_the_place_of_another_is_another_owner(void **state) {
	(void)state;
	sneck_client *client = test_open(server->url);
	struct visitor first = { .client = client }, second = { .client = client };
	visit(&first);
	assert_result(0, first.result, NULL);
	visit(&second);
	assert_true(pthread_equal(first.self, second.self));
	assert_result(SNECK_EBUSY, second.result, NULL);
	sneck_close(client);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(a_thread_in_the_place_of_another_is_another_owner),
	};
	return TEST_RUN(tests);
}
