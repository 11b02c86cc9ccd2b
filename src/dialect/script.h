/* SPDX-License-Identifier: MIT */
/* One server-side script of a dialect, embedded at build time. */
#ifndef SNECK_DIALECT_SCRIPT_H
#define SNECK_DIALECT_SCRIPT_H

#include <stddef.h>

struct script {
	const char *name;
	const unsigned char *text; /* not NUL-terminated */
	size_t len;
	const char *sha1; /* 40 hex digits, as EVALSHA takes them */
};

#endif
