/* SPDX-License-Identifier: MIT */
/* The dialects there are, by name. */
#include "dialect/dialect.h"

#include <string.h>

#include "base/err.h"
#include "dialect/counted/counted.h"
#include "dialect/intent/intent.h"

static const struct dialect *const dialects[] = { &snecki_native, &snecki_redisson_lock,
	&snecki_redisson_rwlock, &snecki_redisson_fair, &snecki_redisson_fenced, &snecki_counted,
	&snecki_intent };

enum { DIALECTS = sizeof dialects / sizeof dialects[0] };

const struct dialect *snecki_dialect_find(const char *name, struct sneck_error *reterr) {
	struct buf list = BUF_INIT;

	if (!name)
		return &snecki_native;
	for (size_t i = 0; i < DIALECTS; i++)
		if (strcmp(name, dialects[i]->name) == 0)
			return dialects[i];
	for (size_t i = 0; i < DIALECTS; i++)
		snecki_buf_printf(&list, "%s%s", i ? ", " : "", dialects[i]->name);
	snecki_err(reterr, SNECK_EINVAL, "dialect '%.40s' is not known; there are: %.*s", name, (int)list.len,
	        list.data ? list.data : "");
	snecki_buf_done(&list);
	return NULL;
}
