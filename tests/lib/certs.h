/* SPDX-License-Identifier: MIT */
/* Certificates for tests of TLS, made for the run by make-certs.sh, which says which there are. */
#ifndef TESTS_LIB_CERTS_H
#define TESTS_LIB_CERTS_H

#include <stddef.h>

/* Room for the arguments of a server, the NULL at the end included. */
enum { TEST_CERTS_ARGS = 9 };

struct test_certs {
	char dir[32];                  /* "": none */
	char crt[64], key[64], ca[64]; /* of the server */
};

/* Make them in a directory of their own. 0 or -1. */
int test_certs_make(struct test_certs *certs);
void test_certs_remove(struct test_certs *certs);
/* Arguments for a server that shows its certificate and asks clients for none; they live as long as `certs`.
 */
void test_certs_args(const struct test_certs *certs, const char *out[TEST_CERTS_ARGS]);

#endif
