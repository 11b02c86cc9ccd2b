/* SPDX-License-Identifier: MIT */
/* A socket whose other end has gone. SIGPIPE is at its default here: it would end the program. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <sneck/error.h>

#include "net/link.h"
#include "net/url.h"

static void a_server_that_has_gone_raises_no_signal(void **state) {
	(void)state;
	char path[] = "/nowhere";
	const struct url url = { .kind = URL_UNIX, .path = path };
	const struct link_config config = { .url = &url, .connect_ms = 100, .command_ms = 100 };
	struct link link;
	int ends[2];

	assert_int_equal(snecki_link_init(&link, &config), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	link.fd = ends[0];
	close(ends[1]);
	assert_int_equal(snecki_link_send(&link, "PING\r\n", 6), -1);
	assert_int_equal(errno, EPIPE);
	snecki_link_done(&link);
	/* The descriptor was the link's, and has gone with it. */
	assert_int_equal(close(ends[0]), -1);
	assert_int_equal(errno, EBADF);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_server_that_has_gone_raises_no_signal),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
