/* SPDX-License-Identifier: MIT */
#ifndef SNECK_BASE_GLOB_H
#define SNECK_BASE_GLOB_H

#include <stdbool.h>
#include <stddef.h>

/* Does the whole of `text` (any bytes) match `pattern`? `*` any bytes, `?` one, `[a-z]` and `[^a-z]` one
 * of a set, `\` takes the next byte as it is. A `[` that is never closed stands for itself. */
bool snecki_glob(const char *pattern, const char *text, size_t len);

#endif
