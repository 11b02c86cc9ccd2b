/* SPDX-License-Identifier: MIT */
/* Hash table with chains. Lock names come from users, perhaps from strangers, so the hash is keyed
 * (SipHash with one compression and three finalisation rounds) with a random seed per table: nobody
 * can choose names that fall into one bucket.
 *
 * Inserting never fails. The table doubles when it is full; when there is no memory for that, the
 * chains grow instead, since a lock that was granted by the server must not be refused here. */
#include "base/map.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <sneck/error.h>

#include "base/random.h"

enum { FIRST_BUCKETS = 16 };

static uint64_t rotl(uint64_t x, int bits) {
	return x << bits | x >> (64 - bits);
}

static void sip_round(uint64_t v[4]) {
	v[0] += v[1];
	v[2] += v[3];
	v[1] = rotl(v[1], 13) ^ v[0];
	v[3] = rotl(v[3], 16) ^ v[2];
	v[0] = rotl(v[0], 32);
	v[2] += v[1];
	v[0] += v[3];
	v[1] = rotl(v[1], 17) ^ v[2];
	v[3] = rotl(v[3], 21) ^ v[0];
	v[2] = rotl(v[2], 32);
}

static uint64_t hash_bytes(const uint64_t seed[2], const unsigned char *at, size_t len) {
	uint64_t v[4] = {
		seed[0] ^ UINT64_C(0x736f6d6570736575),
		seed[1] ^ UINT64_C(0x646f72616e646f6d),
		seed[0] ^ UINT64_C(0x6c7967656e657261),
		seed[1] ^ UINT64_C(0x7465646279746573),
	};
	uint64_t last = (uint64_t)len << 56;
	for (; len >= 8; at += 8, len -= 8) {
		uint64_t word;
		memcpy(&word, at, 8);
		v[3] ^= word;
		sip_round(v);
		v[0] ^= word;
	}
	for (size_t i = 0; i < len; i++)
		last |= (uint64_t)at[i] << (8 * i);
	v[3] ^= last;
	sip_round(v);
	v[0] ^= last;
	v[2] ^= 0xff;
	for (int i = 0; i < 3; i++)
		sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

int snecki_map_init(struct map *map) {
	map->buckets = calloc(FIRST_BUCKETS, sizeof(struct map_node *));
	if (!map->buckets)
		return SNECK_ENOMEM;
	map->bucket_n = FIRST_BUCKETS;
	map->count = 0;
	map->seed[0] = snecki_random_u64();
	map->seed[1] = snecki_random_u64();
	return 0;
}

void snecki_map_done(struct map *map) {
	free(map->buckets);
	*map = (struct map){ 0 };
}

static struct map_node **bucket_of(const struct map *map, uint64_t hash) {
	return &map->buckets[hash & (map->bucket_n - 1)];
}

struct map_node *snecki_map_find(const struct map *map, const void *key, size_t key_len) {
	uint64_t hash = hash_bytes(map->seed, key, key_len);
	for (struct map_node *node = *bucket_of(map, hash); node; node = node->next)
		if (node->hash == hash && node->key_len == key_len &&
		        (key_len == 0 || memcmp(node->key, key, key_len) == 0))
			return node;
	return NULL;
}

static void grow(struct map *map) {
	struct map bigger = *map;
	bigger.bucket_n = map->bucket_n * 2;
	bigger.buckets = calloc(bigger.bucket_n, sizeof(struct map_node *));
	if (!bigger.buckets)
		return;
	for (size_t i = 0; i < map->bucket_n; i++)
		for (struct map_node *node = map->buckets[i], *next; node; node = next) {
			next = node->next;
			struct map_node **bucket = bucket_of(&bigger, node->hash);
			node->next = *bucket;
			*bucket = node;
		}
	free(map->buckets);
	*map = bigger;
}

void snecki_map_insert(struct map *map, struct map_node *node, const void *key, size_t key_len) {
	assert(!snecki_map_find(map, key, key_len));
	if (map->count >= map->bucket_n)
		grow(map);
	node->key = key;
	node->key_len = key_len;
	node->hash = hash_bytes(map->seed, key, key_len);
	struct map_node **bucket = bucket_of(map, node->hash);
	node->next = *bucket;
	*bucket = node;
	map->count++;
}

void snecki_map_remove(struct map *map, struct map_node *node) {
	struct map_node **at = bucket_of(map, node->hash);
	while (*at && *at != node)
		at = &(*at)->next;
	assert(*at == node);
	*at = node->next;
	node->next = NULL;
	map->count--;
}

size_t snecki_map_count(const struct map *map) {
	return map->count;
}

struct map_node *snecki_map_next(const struct map *map, const struct map_node *node) {
	if (node && node->next)
		return node->next;
	size_t i = node ? (node->hash & (map->bucket_n - 1)) + 1 : 0;
	for (; i < map->bucket_n; i++)
		if (map->buckets[i])
			return map->buckets[i];
	return NULL;
}
