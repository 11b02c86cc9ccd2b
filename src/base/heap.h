/* SPDX-License-Identifier: MIT */
/* An intrusive binary min-heap, for timers. The nodes belong to the user. */
#ifndef SNECK_BASE_HEAP_H
#define SNECK_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A zeroed node is in no heap. */
struct heap_node {
	int64_t key;
	size_t index; /* position + 1; 0: in no heap */
};

struct heap_slot {
	int64_t key; /* the node's */
	struct heap_node *node;
};

struct heap {
	struct heap_slot *slots;
	size_t count;
	size_t cap;
};

#define HEAP_ITEM(node, type, member) ((type *)(void *)((char *)(node)-offsetof(type, member)))

void snecki_heap_init(struct heap *heap);
void snecki_heap_done(struct heap *heap); /* frees the array, not the nodes */
/* Make room for `count` nodes in all, so that inserting cannot fail. 0 or SNECK_ENOMEM. */
int snecki_heap_reserve(struct heap *heap, size_t count);
/* 0 or SNECK_ENOMEM (never within what was reserved). The node must be in no heap. */
int snecki_heap_insert(struct heap *heap, struct heap_node *node, int64_t key);
/* Nothing happens if the node is in no heap. */
void snecki_heap_remove(struct heap *heap, struct heap_node *node);
void snecki_heap_update(struct heap *heap, struct heap_node *node, int64_t key);
/* The one that is due first; NULL: empty. */
static inline struct heap_node *snecki_heap_min(const struct heap *heap) {
	return heap->count ? heap->slots[0].node : NULL;
}
static inline bool snecki_heap_has(const struct heap_node *node) {
	return node->index != 0;
}

#endif
