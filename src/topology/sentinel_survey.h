/* SPDX-License-Identifier: MIT */
/* What the sentinels of a service say, for people who want to know whether a failover will work. Asks all of
 * those that the URL names, one after the other, on the calling thread and on connections of its own: the one
 * that the client listens to goes on undisturbed. */
#ifndef SNECK_TOPOLOGY_SENTINEL_SURVEY_H
#define SNECK_TOPOLOGY_SENTINEL_SURVEY_H

#include <stdint.h>

#include "topology/sentinel.h"

/* A number that nobody told is -1. */
struct sentinel_survey {
	int32_t answering;
	int32_t dissenting; /* name another primary than the first that named one */
	int32_t sentinels, hosts, quorum;
	int64_t down_after_ms;
};

/* `config`: log, on_change and ctx are not used. Sentinels that cannot be reached do not count as answering.
 * 0 or SNECK_ENOMEM. */
int snecki_sentinel_survey(const struct sentinel_config *config, struct sentinel_survey *ret);

#endif
