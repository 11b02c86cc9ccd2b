/* SPDX-License-Identifier: MIT */
/* What several servers cost. Starts a cluster of its own. */
#ifndef SNECK_BENCH_CLUSTER_H
#define SNECK_BENCH_CLUSTER_H

void bench_cluster(void);

#endif
