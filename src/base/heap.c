/* SPDX-License-Identifier: MIT */
/* Binary heap over an array of node pointers. Each node knows its place, so that a timer can be
 * moved or removed in O(log n) without a search. The array never shrinks: removing and putting back
 * (the life of a timer) therefore never allocates, and a timer that was armed once can be armed
 * again when memory is short. */
#include "base/heap.h"

#include <assert.h>
#include <stdlib.h>

#include <sneck/error.h>

void snecki_heap_init(struct heap *heap) {
	*heap = (struct heap){ 0 };
}

void snecki_heap_done(struct heap *heap) {
	free(heap->nodes);
	snecki_heap_init(heap);
}

int snecki_heap_reserve(struct heap *heap, size_t count) {
	if (count <= heap->cap)
		return 0;
	size_t cap = heap->cap ? heap->cap : 16;
	while (cap < count)
		cap *= 2;
	struct heap_node **nodes = realloc(heap->nodes, cap * sizeof(*nodes));
	if (!nodes)
		return SNECK_ENOMEM;
	heap->nodes = nodes;
	heap->cap = cap;
	return 0;
}

static void put(struct heap *heap, size_t at, struct heap_node *node) {
	heap->nodes[at] = node;
	node->index = at + 1;
}

static void sift_up(struct heap *heap, size_t at, struct heap_node *node) {
	while (at > 0) {
		size_t parent = (at - 1) / 2;
		if (heap->nodes[parent]->key <= node->key)
			break;
		put(heap, at, heap->nodes[parent]);
		at = parent;
	}
	put(heap, at, node);
}

static void sift_down(struct heap *heap, size_t at, struct heap_node *node) {
	for (;;) {
		size_t child = 2 * at + 1;
		if (child >= heap->count)
			break;
		if (child + 1 < heap->count && heap->nodes[child + 1]->key < heap->nodes[child]->key)
			child++;
		if (node->key <= heap->nodes[child]->key)
			break;
		put(heap, at, heap->nodes[child]);
		at = child;
	}
	put(heap, at, node);
}

int snecki_heap_insert(struct heap *heap, struct heap_node *node, int64_t key) {
	assert(node->index == 0);
	int r = snecki_heap_reserve(heap, heap->count + 1);
	if (r < 0)
		return r;
	node->key = key;
	sift_up(heap, heap->count++, node);
	return 0;
}

/* The node at `at` may be too small or too large for its place. */
static void settle(struct heap *heap, size_t at, struct heap_node *node) {
	if (at > 0 && node->key < heap->nodes[(at - 1) / 2]->key)
		sift_up(heap, at, node);
	else
		sift_down(heap, at, node);
}

void snecki_heap_remove(struct heap *heap, struct heap_node *node) {
	if (node->index == 0)
		return;
	size_t at = node->index - 1;
	assert(at < heap->count && heap->nodes[at] == node);
	node->index = 0;
	struct heap_node *last = heap->nodes[--heap->count];
	if (last != node)
		settle(heap, at, last);
}

void snecki_heap_update(struct heap *heap, struct heap_node *node, int64_t key) {
	assert(node->index != 0);
	node->key = key;
	settle(heap, node->index - 1, node);
}

struct heap_node *snecki_heap_min(const struct heap *heap) {
	return heap->count ? heap->nodes[0] : NULL;
}
