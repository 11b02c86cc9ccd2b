/* SPDX-License-Identifier: MIT */
/* Facts about what stands beside the server: the sentinels that watch it, or the cluster that it is part of.
 *
 * As in probe.c nothing here decides about a lock, and what may not be asked stays unknown. The sentinels are
 * asked on connections of their own; a cluster is asked by way of the node that is being probed, whose view
 * may differ from another's. */
#include "client/probe.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "base/err.h"
#include "client/ask.h"
#include "net/reply.h"
#include "topology/sentinel_survey.h"

static int ask_sentinels(const sneck_client *client, sneck_probe_info *ret, sneck_error *reterr) {
	const struct sentinel_config config = {
		.url = &client->url,
		.tls = client->tls,
		.client_name = client->session_id,
		.connect_ms = client->connect_ms / 2,
		.command_ms = client->command_ms,
	};
	struct sentinel_survey survey;
	int r = snecki_sentinel_survey(&config, &survey);

	if (r < 0)
		return snecki_err(reterr, r, "%s", sneck_strerror(r));
	ret->sentinels_named = (int32_t)client->url.seeds_n;
	ret->sentinels_answering = survey.answering;
	ret->sentinels_dissenting = survey.dissenting;
	ret->sentinels = survey.sentinels;
	ret->sentinel_hosts = survey.hosts;
	ret->quorum = survey.quorum;
	ret->down_after_ms = survey.down_after_ms;
	return 0;
}

/* ---- A cluster ----------------------------------------------------------------------------------*/

/* The number behind `name:` in the answer to CLUSTER INFO; -1: not there. */
static int32_t line_number(const redisReply *info, const char *name) {
	const char *at = info->type == REDIS_REPLY_STRING ? strstr(info->str, name) : NULL;

	return at ? (int32_t)strtol(at + strlen(name), NULL, 10) : -1;
}

static bool is_word(const char *word, const char *expected) {
	return word && strcmp(word, expected) == 0;
}

static bool has_replica(const redisReply *nodes) {
	for (size_t i = 0; i < nodes->elements; i++)
		if (is_word(snecki_reply_field(nodes->element[i], "role"), "replica") &&
		        is_word(snecki_reply_field(nodes->element[i], "health"), "online"))
			return true;
	return false;
}

/* The answer to CLUSTER SHARDS: who has slots, and who stands by. */
static void read_shards(const redisReply *shards, sneck_probe_info *ret) {
	if (shards->type != REDIS_REPLY_ARRAY)
		return;
	ret->primaries = 0;
	ret->primaries_bare = 0;
	for (size_t i = 0; i < shards->elements; i++) {
		const redisReply *slots = snecki_reply_value(shards->element[i], "slots");
		const redisReply *nodes = snecki_reply_value(shards->element[i], "nodes");
		if (!slots || slots->type != REDIS_REPLY_ARRAY || slots->elements == 0 || !nodes ||
		        nodes->type != REDIS_REPLY_ARRAY)
			continue;
		ret->primaries++;
		ret->primaries_bare += !has_replica(nodes);
	}
}

static void read_cluster(const struct asks *asks, sneck_probe_info *ret) {
	const redisReply *info = snecki_asks_reply(asks, 0), *config = snecki_asks_reply(asks, 2);
	const char *coverage = snecki_reply_field(config, "cluster-require-full-coverage");

	if (info->type == REDIS_REPLY_STRING) {
		ret->cluster_ok = strstr(info->str, "cluster_state:ok") != NULL;
		ret->slots_covered = line_number(info, "cluster_slots_ok:");
	}
	read_shards(snecki_asks_reply(asks, 1), ret);
	if (coverage)
		ret->full_coverage = strcmp(coverage, "yes") == 0;
	ret->node_timeout_ms = snecki_reply_number(config, "cluster-node-timeout");
}

static int ask_cluster(sneck_client *client, sneck_probe_info *ret, sneck_error *reterr) {
	static const char *const info[] = { "CLUSTER", "INFO", NULL };
	static const char *const shards[] = { "CLUSTER", "SHARDS", NULL };
	static const char *const config[] = { "CONFIG", "GET", "cluster-require-full-coverage",
		"cluster-node-timeout", NULL };
	const char *const *const questions[] = { info, shards, config };
	int r = 0;
	struct asks *asks = snecki_probe_ask(client, ret, questions, 3, &r, reterr);

	if (!asks)
		return r;
	read_cluster(asks, ret);
	snecki_asks_free(asks);
	return 0;
}

int snecki_probe_topology(sneck_client *client, sneck_probe_info *ret, sneck_error *reterr) {
	int r = 0;

	if (client->url.kind == URL_SENTINEL)
		r = ask_sentinels(client, ret, reterr);
	if (r == 0 && ret->cluster == 1) /* which SNECK_PROBE_SERVER has found out */
		r = ask_cluster(client, ret, reterr);
	return r;
}
