/* SPDX-License-Identifier: MIT */
/* An intrusive doubly linked list. A node that is in no list points to itself. */
#ifndef SNECK_BASE_LIST_H
#define SNECK_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *next;
	struct list *prev;
};

#define LIST_ITEM(node, type, member) ((type *)(void *)((char *)(node)-offsetof(type, member)))
/* The body may remove the node at hand. */
#define LIST_EACH(node, head)                                                              \
	for (struct list *node = (head)->next, *node##_next_ = node->next; node != (head); \
	        node = node##_next_, node##_next_ = node->next)

static inline void snecki_list_init(struct list *node) {
	node->next = node;
	node->prev = node;
}
static inline bool snecki_list_empty(const struct list *head) {
	return head->next == head;
}
static inline void snecki_list_insert_before(struct list *at, struct list *node) {
	node->next = at;
	node->prev = at->prev;
	at->prev->next = node;
	at->prev = node;
}
static inline void snecki_list_append(struct list *head, struct list *node) {
	snecki_list_insert_before(head, node);
}
static inline void snecki_list_remove(struct list *node) {
	node->prev->next = node->next;
	node->next->prev = node->prev;
	snecki_list_init(node);
}

/* All of `from`, which is empty afterwards, behind what `to` has. */
static inline void snecki_list_splice(struct list *to, struct list *from) {
	if (snecki_list_empty(from))
		return;
	from->next->prev = to->prev;
	to->prev->next = from->next;
	from->prev->next = to;
	to->prev = from->prev;
	snecki_list_init(from);
}

#endif
