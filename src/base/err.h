/* SPDX-License-Identifier: MIT */
/* Filling a sneck_error. `reterr` may be NULL everywhere; each returns `code`, so that a failing
 * function can end in `return snecki_err(reterr, SNECK_EINVAL, "…")`. */
#ifndef SNECK_BASE_ERR_H
#define SNECK_BASE_ERR_H

#include <stddef.h>

#include <sneck/error.h>

int snecki_err(struct sneck_error *reterr, int code, const char *format, ...)
        __attribute__((format(printf, 3, 4)));
/* Appends ": <what errno means>" to the text. */
int snecki_err_sys(struct sneck_error *reterr, int code, int sys_errno, const char *format, ...)
        __attribute__((format(printf, 4, 5)));
/* `word` is the first word of the server's error reply. */
int snecki_err_server(struct sneck_error *reterr, int code, const char *word, size_t word_len,
        const char *format, ...) __attribute__((format(printf, 5, 6)));

#endif
