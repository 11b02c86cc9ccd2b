/* SPDX-License-Identifier: MIT */
/* A network of the driver's own, in which packets can be lost. */
#ifndef PROOF_NETWORK_H
#define PROOF_NETWORK_H

#include <stdbool.h>

/* Once for the process: whoever is started from then on is in it. False: this machine does not let us. */
bool network_enter(void);

/* From now on no packet arrives that such a rule selects ("from ADDRESS to ADDRESS ipproto tcp dport %d"),
 * and nobody is told. False: it could not be done. */
bool network_lose(const char *selector, ...) __attribute__((format(printf, 1, 2)));
/* Everything arrives again. */
void network_heal(void);

#endif
