/* SPDX-License-Identifier: MIT */
/* Shall a thread look for its answer for a moment before it goes to sleep?
 *
 * A core that has gone to sleep needs longer to wake than a near server needs to answer; where both are so,
 * looking costs less processor time than sleeping. Where the server is far away, or the processors are busy,
 * it mostly finds nothing: after a look in vain twice as many waits pass without one, and each find takes a
 * quarter of that back, so that three of four must find something if there are to be many. */
#ifndef SNECK_NET_GLANCE_H
#define SNECK_NET_GLANCE_H

#include <stdbool.h>
#include <stdint.h>

enum {
	GLANCE_NS = 50 * 1000,         /* for so long */
	GLANCE_AFTER_NS = 1000 * 1000, /* a server that has been silent for longer sleeps itself */
	GLANCE_SKIP_MAX = 64           /* so that a server which has become near is noticed */
};

/* Zero it. */
struct glance {
	uint32_t skip; /* how many waits pass without looking after the next one that is in vain */
	uint32_t left; /* how many of them are still to pass */
};

/* A wait begins: look? */
bool snecki_glance_due(struct glance *glance);
void snecki_glance_found(struct glance *glance, bool found);

#endif
