/* SPDX-License-Identifier: MIT */
/* Every failure that a person may read is put into words here and nowhere else, so that no field of
 * sneck_error is ever left over from an earlier use of the same struct. Texts that do not fit are
 * cut; the code always survives. */
#include "base/err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void fill(struct sneck_error *reterr, int code, int sys_errno, const char *format, va_list args) {
	reterr->code = code;
	reterr->sys_errno = sys_errno;
	reterr->server[0] = '\0';
	vsnprintf(reterr->text, sizeof(reterr->text), format, args);
}

int snecki_err(struct sneck_error *reterr, int code, const char *format, ...) {
	if (reterr) {
		va_list args;
		va_start(args, format);
		fill(reterr, code, 0, format, args);
		va_end(args);
	}
	return code;
}

int snecki_err_sys(struct sneck_error *reterr, int code, int sys_errno, const char *format, ...) {
	if (reterr) {
		va_list args;
		va_start(args, format);
		fill(reterr, code, sys_errno, format, args);
		va_end(args);
		char meaning[128];
		const char *what = strerror_r(sys_errno, meaning, sizeof(meaning));
		size_t len = strlen(reterr->text);
		snprintf(reterr->text + len, sizeof(reterr->text) - len, ": %s", what);
	}
	return code;
}

int snecki_err_server(
        struct sneck_error *reterr, int code, const char *word, size_t word_len, const char *format, ...) {
	if (reterr) {
		va_list args;
		va_start(args, format);
		fill(reterr, code, 0, format, args);
		va_end(args);
		if (word_len >= sizeof(reterr->server))
			word_len = sizeof(reterr->server) - 1;
		memcpy(reterr->server, word, word_len);
		reterr->server[word_len] = '\0';
	}
	return code;
}
