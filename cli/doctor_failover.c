/* SPDX-License-Identifier: MIT */
/* sneck doctor: what will happen when a server fails?
 *
 * The numbers behind the warnings. A renewal goes out when a third of the lease has passed, so a server that
 * dies just before one leaves two thirds of it, less the margin of a hundredth, for the failover. That takes
 * the silence after which it is taken for dead and an election: with Sentinel up to 3 s; in a cluster the
 * other nodes need half of the silence again to agree, and 2 s. sneck-guarantees(7) says the same. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "doctor.h"
#include "settings.h"

enum {
	SENTINEL_ELECTION_MS = 3000,
	CLUSTER_ELECTION_MS = 2000,
	LAG_S = 2, /* replicas report every second */
	SENTINELS_WANTED = 3,
	SLOTS = 16384
};

void doctor_settle_lease(struct doctor *doctor) {
	int64_t configured_ms = doctor->looking->session.settings.lease_ms;

	if (!doctor->lease_ms)
		doctor->lease_ms = configured_ms ? configured_ms : SNECK_LEASE_DEFAULT_MS;
}

static bool has_sentinels(const struct doctor *doctor) {
	return doctor->info.sentinels_named > 0;
}

/* ---- One server ---------------------------------------------------------------------------------*/

/* A primary that is cut off does not know that another one is in office. */
static void check_isolation(struct doctor *doctor) {
	const sneck_probe_info *info = &doctor->info;
	char remedy[160];

	if (info->min_replicas < 0) {
		found(doctor, "isolation", WARN, INFO_REMEDY, "min-replicas-to-write: " NOT_ALLOWED);
	} else if (info->min_replicas == 0) {
		found(doctor, "isolation", WARN,
		        "CONFIG SET min-replicas-to-write 1 min-replicas-max-lag 5, on every server",
		        "a primary that is cut off goes on granting locks, and its successor does so too");
	} else if (info->replicas <= info->min_replicas) {
		found(doctor, "isolation", WARN,
		        "one replica more, or CONFIG SET min-replicas-to-write to less",
		        "with %d of the %d replicas that it wants the server refuses all locks if one of "
		        "them "
		        "stops",
		        (int)info->replicas, (int)info->min_replicas);
	} else if (info->down_after_ms > 0 &&
	           info->min_replicas_lag_s * INT64_C(1000) > info->down_after_ms) {
		snprintf(remedy, sizeof(remedy),
		        "CONFIG SET min-replicas-max-lag %" PRId64 ", on every server",
		        info->down_after_ms < 2000 ? INT64_C(1) : info->down_after_ms / 1000);
		found(doctor, "isolation", WARN, remedy,
		        "a primary that is cut off goes on granting locks for %d s, its successor comes "
		        "after "
		        "%.1f s",
		        (int)info->min_replicas_lag_s, (double)info->down_after_ms / 1000);
	} else if (info->min_replicas_lag_s < 0) {
		found(doctor, "isolation", PASS, NULL,
		        "a primary that is cut off stops granting; after which time " NOT_ALLOWED);
	} else {
		found(doctor, "isolation", PASS, NULL, "a primary that is cut off stops granting after %d s",
		        (int)info->min_replicas_lag_s);
	}
}

/* Somebody will promote one of them. */
static void check_successors(struct doctor *doctor) {
	const sneck_probe_info *info = &doctor->info;

	if (info->replicas == 0)
		found(doctor, "replicas", WARN, "add a replica, on another machine",
		        "none: there is nobody who could take over");
	else if (info->replica_lag_s > LAG_S)
		found(doctor, "replicas", WARN, "look for what keeps the replica or the network busy",
		        "%d, of which one was last heard from %d s ago", (int)info->replicas,
		        (int)info->replica_lag_s);
	else
		found(doctor, "replicas", PASS, NULL, "%d, all heard from within %d s", (int)info->replicas,
		        LAG_S);
}

void check_replicas(struct doctor *doctor) {
	const sneck_probe_info *info = &doctor->info;
	bool watched = has_sentinels(doctor) || info->cluster == 1;

	if (info->replicas < 0)
		found(doctor, "replicas", WARN, INFO_REMEDY, NOT_ALLOWED);
	else if (watched)
		check_successors(doctor);
	else if (info->replicas == 0)
		found(doctor, "replicas", PASS, NULL, "none");
	else
		found(doctor, "replicas", WARN,
		        "let what the lock protects compare tokens (see sneck-guarantees(7))",
		        "%d: a failover can forget the locks of the last moments", (int)info->replicas);
	/* The nodes of a cluster that are cut off from the others stop by themselves. */
	if (has_sentinels(doctor) || info->min_replicas > 0)
		check_isolation(doctor);
}

/* ---- The time -----------------------------------------------------------------------------------*/

/* `silence_ms`: after which a server is taken for dead; `setting`: what sets it. */
static void check_time(struct doctor *doctor, int64_t silence_ms, int64_t failover_ms, const char *setting) {
	int64_t lease_ms = doctor->lease_ms;
	int64_t usable_ms = lease_ms - lease_ms / 3 - lease_ms / 100;
	char remedy[200];

	if (usable_ms >= failover_ms) {
		found(doctor, "failover", PASS, NULL,
		        "takes about %.1f s; a lease of %.1f s outlives it with %.1f s to spare",
		        (double)failover_ms / 1000, (double)lease_ms / 1000,
		        (double)(usable_ms - failover_ms) / 1000);
		return;
	}
	/* Rounded up to whole seconds. */
	snprintf(remedy, sizeof(remedy),
	        "leases of at least %" PRId64 "s, or a shorter %s (it is %" PRId64 " ms)",
	        (failover_ms * 100 / 65 + 999) / 1000, setting, silence_ms);
	found(doctor, "failover", WARN, remedy,
	        "takes about %.1f s, and a renewed lease of %.1f s may have only %.1f s left: locks are lost",
	        (double)failover_ms / 1000, (double)lease_ms / 1000, (double)usable_ms / 1000);
}

/* ---- Sentinels ----------------------------------------------------------------------------------*/

#define SENTINEL_RIGHTS_REMEDY "on the sentinels: ACL SETUSER <user> +sentinel|master +sentinel|sentinels"

static void check_sentinels(struct doctor *doctor) {
	const sneck_probe_info *info = &doctor->info;
	int named = (int)info->sentinels_named, answering = (int)info->sentinels_answering;

	if (info->sentinels_dissenting > 0)
		found(doctor, "sentinels", WARN,
		        "find the one that is cut off or watches another server: SENTINEL MASTER <service> "
		        "on "
		        "each",
		        "%d of %d name another primary than the others", (int)info->sentinels_dissenting,
		        answering);
	else if (answering < named)
		found(doctor, "sentinels", WARN, "start the others, or take them out of the URL",
		        "%d of the %d in the URL answer%s", answering, named, answering == 1 ? "s" : "");
	else if (named == 1 && info->sentinels > 1)
		found(doctor, "sentinels", WARN, "name all of them: redis+sentinel://host,host,host/service",
		        "the URL names 1 of %d: if that one stops, the primary cannot be found",
		        (int)info->sentinels);
	else
		found(doctor, "sentinels", PASS, NULL, "%d answer, and name the same primary", answering);
}

static void check_quorum(struct doctor *doctor) {
	const sneck_probe_info *info = &doctor->info;
	int all = (int)info->sentinels, quorum = (int)info->quorum;

	if (all < 0 || quorum < 0)
		found(doctor, "quorum", WARN, SENTINEL_RIGHTS_REMEDY, NOT_ALLOWED);
	else if (all < SENTINELS_WANTED)
		found(doctor, "quorum", WARN, "run three sentinels, on three machines",
		        all == 1 ? "a single sentinel: if it stops, nobody promotes a replica"
		                 : "two sentinels: if either stops, nobody promotes a replica");
	else if (quorum >= all)
		found(doctor, "quorum", WARN, "SENTINEL SET <service> quorum to a majority, on each sentinel",
		        "all %d sentinels must agree: if one stops, nobody promotes a replica", all);
	else if (info->sentinel_hosts == 1)
		found(doctor, "quorum", WARN, "run them on different machines",
		        "all %d sentinels are on one host: if that stops, nobody promotes a replica", all);
	else if (info->sentinel_hosts < 0)
		found(doctor, "quorum", PASS, NULL, "%d of %d sentinels; on how many hosts: " NOT_ALLOWED,
		        quorum, all);
	else
		found(doctor, "quorum", PASS, NULL, "%d of %d sentinels on %d hosts", quorum, all,
		        (int)info->sentinel_hosts);
}

static void check_down_after(struct doctor *doctor) {
	int64_t silence_ms = doctor->info.down_after_ms;

	if (silence_ms < 0)
		found(doctor, "failover", WARN, SENTINEL_RIGHTS_REMEDY, NOT_ALLOWED);
	else
		check_time(doctor, silence_ms, silence_ms + SENTINEL_ELECTION_MS, "down-after-milliseconds");
}

/* ---- A cluster ----------------------------------------------------------------------------------*/

static void check_slots(struct doctor *doctor) {
	const sneck_probe_info *info = &doctor->info;

	if (info->cluster_ok < 0)
		found(doctor, "slots", WARN, "ACL SETUSER <user> +cluster|info", NOT_ALLOWED);
	else if (info->slots_covered < SLOTS)
		found(doctor, "slots", FAIL,
		        "start the servers that have them, or redis-cli --cluster fix <host>:<port>",
		        "%d of %d have a server%s", (int)info->slots_covered, SLOTS,
		        info->cluster_ok ? "; locks in the others cannot be taken" : "; the cluster is down");
	else if (!info->cluster_ok)
		found(doctor, "slots", FAIL, "look for what cuts it off from the other nodes: CLUSTER NODES",
		        "the cluster is down");
	else
		found(doctor, "slots", PASS, NULL, "all %d have a server", SLOTS);
}

static void check_standby(struct doctor *doctor) {
	const sneck_probe_info *info = &doctor->info;

	if (info->primaries < 0)
		found(doctor, "standby", WARN, "ACL SETUSER <user> +cluster|shards", NOT_ALLOWED);
	else if (info->primaries_bare > 0 && info->full_coverage == 1)
		found(doctor, "standby", WARN,
		        "add replicas; CONFIG SET cluster-require-full-coverage no keeps the others going",
		        "%d of %d primaries have no replica: if one stops, so do all locks",
		        (int)info->primaries_bare, (int)info->primaries);
	else if (info->primaries_bare > 0)
		found(doctor, "standby", WARN, "add replicas",
		        "%d of %d primaries have no replica: if one stops, so do its locks",
		        (int)info->primaries_bare, (int)info->primaries);
	else
		found(doctor, "standby", PASS, NULL, "each of the %d primaries has a replica",
		        (int)info->primaries);
}

static void check_node_timeout(struct doctor *doctor) {
	int64_t silence_ms = doctor->info.node_timeout_ms;

	if (silence_ms < 0)
		found(doctor, "failover", WARN, "ACL SETUSER <user> +config|get",
		        "cluster-node-timeout: " NOT_ALLOWED);
	else
		check_time(
		        doctor, silence_ms, silence_ms * 3 / 2 + CLUSTER_ELECTION_MS, "cluster-node-timeout");
}

void check_failover(struct doctor *doctor) {
	if (has_sentinels(doctor)) {
		check_sentinels(doctor);
		check_quorum(doctor);
		check_down_after(doctor);
	}
	if (doctor->info.cluster == 1) {
		check_slots(doctor);
		check_standby(doctor);
		check_node_timeout(doctor);
	}
}
