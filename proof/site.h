/* SPDX-License-Identifier: MIT */
/* Where the locks of a rig live: on one server, on a primary that sentinels watch, or in a cluster. What
 * the workers are told is a URL; what the driver asks is who has the keys at this moment. */
#ifndef PROOF_SITE_H
#define PROOF_SITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster.h"
#include "sentinels.h"
#include "server.h"
#include "stall.h"

enum site_kind { SITE_SINGLE, SITE_SENTINEL, SITE_CLUSTER, SITE_KINDS };
enum { SITE_URL_MAX = 640, SITE_PRIMARIES_MAX = 3, SITE_PROCESSES_MAX = 6 };

struct site {
	enum site_kind kind;
	char url[SITE_URL_MAX];
	struct test_server single;
	struct test_sentinels sentinels;
	struct test_cluster cluster;
	/* Who was the primary (sentinels: its index; a cluster: a bit for each) when it was last looked at,
	 * and when that was. */
	int primary;
	int64_t seen_ns;
	struct stall_watch stalls[SITE_PROCESSES_MAX];
	bool has_network; /* of its own, in which packets can be dropped */
};

/* "single", "sentinel", "cluster" */
const char *site_name(enum site_kind kind);
bool site_find(const char *name, enum site_kind *ret_kind);

int site_start(struct site *site, enum site_kind kind); /* 0 or -1 */
void site_stop(struct site *site);

/* The server that has this key at this moment; NULL: none. */
const struct test_server *site_server_of(struct site *site, const char *key);
/* All that have keys of their own; how many. */
size_t site_primaries(struct site *site, const struct test_server *ret[SITE_PRIMARIES_MAX]);

/* Who is the primary now, as in site->primary; -1: they do not agree. */
int site_look(struct site *site);
void site_seen(struct site *site); /* that is how it shall be */

/* For how long a process of it was ready and did not run since the last call, at most. */
int64_t site_stalled_ns(struct site *site);

/* ---- A primary that is cut off --------------------------------------------------------------------*/
/* From whom: sentinels, replicas and other nodes, or clients. */
enum { SITE_WITHIN = 1, SITE_CLIENTS = 2 };
/* Silently: no packet passes in either direction, until network_heal(). False: this machine does not let us,
 * and nothing was done. */
bool site_silence(struct site *site, int server, unsigned sides);
/* By refusal: they log in to servers as one user, clients as another; the first is shut out, and its
 * connections are cut, and a connection that logs in as nobody may not do what they do. */
void site_refuse(struct site *site, int server);
void site_let_in(struct site *site, int server);

#endif
