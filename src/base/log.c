/* SPDX-License-Identifier: MIT */
/* Log lines go to the program's hook or nowhere; the library itself never prints. A line longer
 * than the buffer is cut: logging must not allocate, since it is used where memory is short. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

void snecki_log(const struct log *log, int level, const char *format, ...) {
	if (!log || !log->fn || level > log->level)
		return;
	char text[640];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	log->fn(log->ctx, level, text);
}
