/* SPDX-License-Identifier: MIT */
/* A heap over an array of node pointers. Each node knows its place, so that a timer can be moved or removed
 * in O(log n) without a search. The array never shrinks: removing and putting back (the life of a timer)
 * therefore never allocates, and a timer that was armed once can be armed again when memory is short.
 *
 * Among a hundred thousand timers nearly every node is out of the processor's caches, so comparing reads
 * none: the keys stand in the array as well, and the four children of a place beside each other. */
#include "base/heap.h"

#include <assert.h>
#include <stdlib.h>

#include <sneck/error.h>

enum { WAYS = 4 };

void snecki_heap_init(struct heap *heap) {
	*heap = (struct heap){ 0 };
}

void snecki_heap_done(struct heap *heap) {
	free(heap->slots);
	snecki_heap_init(heap);
}

int snecki_heap_reserve(struct heap *heap, size_t count) {
	if (count <= heap->cap)
		return 0;
	size_t cap = heap->cap ? heap->cap : 16;
	while (cap < count)
		cap *= 2;
	struct heap_slot *slots = realloc(heap->slots, cap * sizeof(*slots));
	if (!slots)
		return SNECK_ENOMEM;
	heap->slots = slots;
	heap->cap = cap;
	return 0;
}

static void put(struct heap *heap, size_t at, struct heap_slot slot) {
	heap->slots[at] = slot;
	slot.node->index = at + 1;
}

static void sift_up(struct heap *heap, size_t at, struct heap_slot slot) {
	while (at > 0) {
		size_t parent = (at - 1) / WAYS;
		if (heap->slots[parent].key <= slot.key)
			break;
		put(heap, at, heap->slots[parent]);
		at = parent;
	}
	put(heap, at, slot);
}

/* The one of the children of `at` that is due first; `at` itself: there are none. */
static size_t first_child(const struct heap *heap, size_t at) {
	size_t child = WAYS * at + 1, best = child;

	if (child >= heap->count)
		return at;
	for (size_t i = 1; i < WAYS && child + i < heap->count; i++)
		if (heap->slots[child + i].key < heap->slots[best].key)
			best = child + i;
	return best;
}

static void sift_down(struct heap *heap, size_t at, struct heap_slot slot) {
	for (;;) {
		size_t child = first_child(heap, at);
		if (child == at || slot.key <= heap->slots[child].key)
			break;
		put(heap, at, heap->slots[child]);
		at = child;
	}
	put(heap, at, slot);
}

int snecki_heap_insert(struct heap *heap, struct heap_node *node, int64_t key) {
	assert(node->index == 0);
	int r = snecki_heap_reserve(heap, heap->count + 1);
	if (r < 0)
		return r;
	node->key = key;
	sift_up(heap, heap->count++, (struct heap_slot){ key, node });
	return 0;
}

/* `slot`, for `at`, may be too small or too large for that place. */
static void settle(struct heap *heap, size_t at, struct heap_slot slot) {
	if (at > 0 && slot.key < heap->slots[(at - 1) / WAYS].key)
		sift_up(heap, at, slot);
	else
		sift_down(heap, at, slot);
}

void snecki_heap_remove(struct heap *heap, struct heap_node *node) {
	if (node->index == 0)
		return;
	size_t at = node->index - 1;
	assert(at < heap->count && heap->slots[at].node == node);
	node->index = 0;
	struct heap_slot last = heap->slots[--heap->count];
	if (last.node != node)
		settle(heap, at, last);
}

void snecki_heap_update(struct heap *heap, struct heap_node *node, int64_t key) {
	assert(node->index != 0);
	if (node->key == key)
		return;
	node->key = key;
	settle(heap, node->index - 1, (struct heap_slot){ key, node });
}
