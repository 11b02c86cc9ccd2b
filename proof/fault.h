/* SPDX-License-Identifier: MIT */
/* A fault of a kind: done to a rig, for a while, and undone. */
#ifndef PROOF_FAULT_H
#define PROOF_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "driver.h"

/* One strike. It returns when the fault has been healed. */
struct strike {
	struct rig *rig;
	struct rng rng;
	const struct fault_kind *kind;
	int64_t begin_ns;
	pid_t victim_pid; /* of a fault on one process; 0: on all */
	bool stopped;     /* the victim was not scheduled meanwhile */
	uint64_t bite;    /* operations, connections or holds that it was seen to touch */
};

struct fault_kind {
	const char *name;
	const char *what; /* one line for people */
	void (*strike)(struct strike *strike);
	/* Parameters of the function. */
	int number;
	const char *text;
};

/* All kinds, by groups; each ends with a kind without a name. */
extern const struct fault_kind fault_proxy_kinds[];
extern const struct fault_kind fault_error_kinds[];
extern const struct fault_kind fault_process_kinds[];
extern const struct fault_kind fault_server_kinds[];
extern const struct fault_kind fault_host_kinds[];
extern const struct fault_kind fault_sentinel_kinds[];
extern const struct fault_kind fault_cluster_kinds[];

enum { FAULT_KINDS_MAX = 96 };
/* Those that make sense there, and whose name begins with `only` (NULL: all); how many. */
size_t fault_list(enum site_kind site, const char *only, const struct fault_kind *ret_kinds[FAULT_KINDS_MAX]);

/* Strike, and write it down. */
void fault_strike(struct strike *strike);

#endif
