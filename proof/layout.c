/* SPDX-License-Identifier: MIT */
/* The table of layouts. It says again what docs/dialects.md says, and on purpose does not ask the library:
 * a layout that refused what it should do would otherwise pass for one that cannot. */
#include "layout.h"

#include <stdio.h>
#include <string.h>

const struct proof_layout proof_native = { .dialect = "native",
	.reads = true,
	.upgrades = true,
	.downgrades = true,
	.detaches = true,
	.classes = true,
	.ordered = true };

static const struct proof_layout others[] = {
	{ .dialect = "redisson:lock" },
	{ .dialect = "redisson:rwlock", .reads = true, .downgrades = true },
	{ .dialect = "redisson:fenced", .counts_tokens = true },
	{ .dialect = "redisson:fair", .ordered = true, .waits_for_dead = true },
	{ .dialect = "counted", .reads = true, .upgrades = true, .downgrades = true },
	{ .dialect = "intent", .reads = true },
};

const struct proof_layout *proof_layout_find(const char *dialect) {
	if (strcmp(dialect, proof_native.dialect) == 0)
		return &proof_native;
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		if (strcmp(others[i].dialect, dialect) == 0)
			return &others[i];
	return NULL;
}

void proof_layout_url(const struct proof_layout *layout, const char *url, char *out, size_t size) {
	if (layout == &proof_native)
		snprintf(out, size, "%s", url);
	else
		snprintf(out, size, "%s?dialect=%s", url, layout->dialect);
}
