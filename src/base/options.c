/* SPDX-License-Identifier: MIT */
/* Options structs grow at their end, and programs are not rebuilt when the library is. A caller that
 * knows fewer fields than we do gets defaults for the rest; one that knows more is served as long as
 * it leaves what we do not know at zero, since an option that is silently ignored would be worse
 * than a refusal. */
#include "base/options.h"

#include <string.h>

#include <sneck/error.h>

int snecki_options_load(void *dst, size_t dst_size, const void *src) {
	memset(dst, 0, dst_size);
	memcpy(dst, &dst_size, sizeof(dst_size));
	if (!src)
		return 0;
	size_t src_size;
	memcpy(&src_size, src, sizeof(src_size));
	/* No options struct is near a megabyte: such a size is an uninitialised struct. */
	if (src_size < sizeof(size_t) || src_size > (1u << 20))
		return SNECK_EINVAL;
	const unsigned char *bytes = src;
	for (size_t i = dst_size; i < src_size; i++)
		if (bytes[i])
			return SNECK_EINVAL;
	size_t common = src_size < dst_size ? src_size : dst_size;
	memcpy((char *)dst + sizeof(size_t), bytes + sizeof(size_t), common - sizeof(size_t));
	return 0;
}
