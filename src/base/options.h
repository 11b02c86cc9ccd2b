/* SPDX-License-Identifier: MIT */
#ifndef SNECK_BASE_OPTIONS_H
#define SNECK_BASE_OPTIONS_H

#include <stddef.h>

/* Read an options struct of the caller (which starts with its size_t size, and may be older or newer
 * than ours) into ours: unknown tail must be zero, missing tail becomes zero. `src` NULL: all
 * defaults. 0 or SNECK_EINVAL; `dst` is fully written in either case and its size is `dst_size`. */
int snecki_options_load(void *dst, size_t dst_size, const void *src);

#endif
