/* SPDX-License-Identifier: MIT */
/* An intrusive hash table keyed by byte strings. The nodes and the bytes of the keys belong to the
 * user; a key must not change while its node is in the table. */
#ifndef SNECK_BASE_MAP_H
#define SNECK_BASE_MAP_H

#include <stddef.h>
#include <stdint.h>

struct map_node {
	struct map_node *next; /* in the bucket */
	uint64_t hash;
	const void *key;
	size_t key_len;
};

struct map {
	struct map_node **buckets;
	size_t bucket_n; /* a power of two */
	size_t count;
	uint64_t seed[2];
};

#define MAP_ITEM(node, type, member) ((type *)(void *)((char *)(node)-offsetof(type, member)))

int snecki_map_init(struct map *map);  /* 0 or SNECK_ENOMEM */
void snecki_map_done(struct map *map); /* frees the table, not the nodes */
/* NULL: not there. */
struct map_node *snecki_map_find(const struct map *map, const void *key, size_t key_len);
/* The key must not be there yet. Cannot fail: a table that cannot grow gets slower. */
void snecki_map_insert(struct map *map, struct map_node *node, const void *key, size_t key_len);
void snecki_map_remove(struct map *map, struct map_node *node);
size_t snecki_map_count(const struct map *map);
/* Walk in no order: `node` NULL gives the first, NULL is returned after the last. To remove while
 * walking, ask for the next node first; inserting ends the walk. */
struct map_node *snecki_map_next(const struct map *map, const struct map_node *node);

#endif
