/* SPDX-License-Identifier: MIT */
/* What the layouts of other programs can do, as far as the harness must know: what a layout cannot do no
 * worker tries, and what it does not promise is not asked of it. Exclusion, notices, deadlines and the one
 * effective release are asked of every layout. */
#ifndef PROOF_LAYOUT_H
#define PROOF_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>

struct proof_layout {
	const char *dialect; /* as in a URL */
	bool reads;
	bool upgrades;
	bool downgrades;
	bool detaches;
	bool classes;        /* writers can be preferred */
	bool ordered;        /* who waits is served in order */
	bool counts_tokens;  /* tokens are a key on the server: who loses the key begins anew */
	bool waits_for_dead; /* who dies in the queue keeps the others out for minutes */
};

extern const struct proof_layout proof_native;

/* NULL: there is none of that name. */
const struct proof_layout *proof_layout_find(const char *dialect);
/* `url` with the dialect in it; one that is cut would be refused by whoever opens it. */
void proof_layout_url(const struct proof_layout *layout, const char *url, char *out, size_t size);

#endif
