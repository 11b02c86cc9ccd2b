/* SPDX-License-Identifier: MIT */
/* The event queue. The descriptor is readable exactly while the queue is not empty. */
#include "client/client.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void signal_queue(sneck_client *client) {
	uint64_t one = 1;
	ssize_t n = write(client->event_fd, &one, sizeof one);
	(void)n; /* cannot fail: the counter is 0 or 1 */
}

static void unsignal_queue(sneck_client *client) {
	uint64_t count;
	ssize_t n = read(client->event_fd, &count, sizeof count);
	(void)n;
}

/* A node that waits already keeps its place: the reader sees the latest contents. */
void snecki_event_post(sneck_client *client, struct event_node *node) {
	if (!snecki_list_empty(&node->node))
		return;
	snecki_list_append(&client->events, &node->node);
	if (client->event_n++ == 0)
		signal_queue(client);
}

void snecki_event_drop(sneck_client *client, struct event_node *node) {
	if (snecki_list_empty(&node->node))
		return;
	snecki_list_remove(&node->node);
	if (--client->event_n == 0)
		unsignal_queue(client);
}

bool snecki_event_take(sneck_client *client, sneck_event *ret) {
	if (snecki_list_empty(&client->events))
		return false;
	struct event_node *node = LIST_ITEM(client->events.next, struct event_node, node);
	snecki_event_drop(client, node);
	size_t size = ret->size < sizeof *ret ? ret->size : sizeof *ret;
	node->event.size = size;
	memcpy(ret, &node->event, size);
	if (node->heap)
		free(node);
	return true;
}

void snecki_events_free(sneck_client *client) {
	LIST_EACH (at, &client->events) {
		struct event_node *node = LIST_ITEM(at, struct event_node, node);
		snecki_list_remove(at);
		if (node->heap)
			free(node);
	}
}
