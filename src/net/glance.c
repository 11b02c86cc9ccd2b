/* SPDX-License-Identifier: MIT */
/* How often to look for an answer before sleeping: doubling against quartering is in balance where seven of
 * ten looks find their answer. One in vain costs GLANCE_NS; with the longest pause that is below one
 * microsecond for each wait. */
#include "net/glance.h"

bool snecki_glance_due(struct glance *glance) {
	if (glance->left == 0)
		return true;
	glance->left--;
	return false;
}

void snecki_glance_found(struct glance *glance, bool found) {
	if (found) {
		glance->skip -= (glance->skip + 3) / 4;
		return;
	}
	glance->skip = glance->skip < GLANCE_SKIP_MAX / 2 ? glance->skip * 2 + 1 : GLANCE_SKIP_MAX;
	glance->left = glance->skip;
}
