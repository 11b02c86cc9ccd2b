/* SPDX-License-Identifier: MIT */
/* Numbers that follow from a seed alone, so that a plan of faults and a worker's choices can be had again
 * (splitmix64). */
#ifndef PROOF_RNG_H
#define PROOF_RNG_H

#include <stdint.h>

struct rng {
	uint64_t state;
};

static inline uint64_t rng_next(struct rng *rng) {
	uint64_t z = rng->state += UINT64_C(0x9e3779b97f4a7c15);
	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/* From 0 to n - 1; 0 for n == 0. */
static inline uint32_t rng_below(struct rng *rng, uint32_t n) {
	return n ? (uint32_t)(rng_next(rng) % n) : 0;
}

static inline int64_t rng_between(struct rng *rng, int64_t low, int64_t high) {
	return low + (int64_t)(rng_next(rng) % (uint64_t)(high - low + 1));
}

/* A seed of its own for part `number` of what `seed` stands for. */
static inline struct rng rng_of(uint64_t seed, uint64_t number) {
	struct rng rng = { seed ^ (number * UINT64_C(0xd1342543de82ef95)) };
	(void)rng_next(&rng);
	return rng;
}

#endif
