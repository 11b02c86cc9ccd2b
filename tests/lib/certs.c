/* SPDX-License-Identifier: MIT */
/* See certs.h. The work is the script's: openssl is the program that people make theirs with as well. */
#include "certs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int test_certs_make(struct test_certs *certs) {
	char command[512];

	memset(certs, 0, sizeof(*certs));
	snprintf(certs->dir, sizeof(certs->dir), "/tmp/sneck-tls-XXXXXX");
	if (!mkdtemp(certs->dir)) {
		certs->dir[0] = '\0';
		return -1;
	}
	snprintf(certs->crt, sizeof(certs->crt), "%s/server.crt", certs->dir);
	snprintf(certs->key, sizeof(certs->key), "%s/server.key", certs->dir);
	snprintf(certs->ca, sizeof(certs->ca), "%s/ca.crt", certs->dir);
	snprintf(command, sizeof(command), "'%s' %s", MAKE_CERTS, certs->dir);
	if (system(command) == 0)
		return 0;
	test_certs_remove(certs);
	return -1;
}

void test_certs_remove(struct test_certs *certs) {
	char command[64];

	if (!certs->dir[0])
		return;
	snprintf(command, sizeof(command), "rm -rf %s", certs->dir);
	if (system(command) != 0)
		fprintf(stderr, "%s is left behind\n", certs->dir);
	memset(certs, 0, sizeof(*certs));
}

void test_certs_args(const struct test_certs *certs, const char *out[TEST_CERTS_ARGS]) {
	const char *const args[TEST_CERTS_ARGS] = { "--tls-cert-file", certs->crt, "--tls-key-file",
		certs->key, "--tls-ca-cert-file", certs->ca, "--tls-auth-clients", "no", NULL };

	memcpy(out, args, sizeof(args));
}
