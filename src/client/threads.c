/* SPDX-License-Identifier: MIT */
/* Threads as owners.
 *
 * An owner number is given to a thread once and never again, so a new thread cannot inherit the holds
 * of one that has ended (pthread_self may repeat). Thread numbers have the top bit set; numbers that
 * the program chooses must not, so the two cannot meet.
 *
 * The slot of a thread hangs on a key of the client. Its destructor runs when the thread ends, and
 * tells the core. Slot and client may end in either order: the slot's mutex and reference count
 * settle that. */
#include "client/client.h"

#include <stdio.h>
#include <stdlib.h>

#include <sneck/error.h>

#include "base/clock.h"

#define THREAD_OWNER_BIT (UINT64_C(1) << 63)
#define ANONYMOUS_OWNER_BIT (UINT64_C(1) << 62)

static void unref_slot(struct thread_slot *slot) {
	if (atomic_fetch_sub(&slot->refs, 1) != 1)
		return;
	pthread_mutex_destroy(&slot->mutex);
	free(slot);
}

static void post_thread_gone(sneck_client *client, sneck_hold *hold) {
	struct event_node *node = calloc(1, sizeof *node);
	char shown[128];

	if (!node)
		return; /* the hold turns LOST at the end of its lease, which has an event of its own */
	snecki_list_init(&node->node);
	node->heap = true;
	node->event.type = SNECK_EVENT_THREAD_GONE;
	node->event.hold = hold;
	node->event.state = (int)hold->lock.state;
	node->event.token = hold->lock.token;
	snecki_print_name(shown, sizeof shown, hold->name, hold->name_len);
	snprintf(node->event.text, sizeof node->event.text,
	        "\"%s\": the thread that held it has ended; it is renewed no longer and ends with its lease",
	        shown);
	snecki_event_post(client, node);
}

static void tell_of_holds(sneck_client *client, uint64_t owner) {
	LIST_EACH (at, &client->holds) {
		sneck_hold *hold = LIST_ITEM(at, sneck_hold, all);
		if (hold->lock.grant && hold->lock.owner == owner)
			post_thread_gone(client, hold);
	}
}

/* Thread: the one that ends. */
static void thread_ends(void *arg) {
	struct thread_slot *slot = arg;

	pthread_mutex_lock(&slot->mutex);
	sneck_client *client = slot->client;
	if (client && !snecki_client_forked(client)) {
		snecki_client_lock(client);
		if (snecki_core_owner_gone(client->core, slot->owner, snecki_now_ns()) > 0)
			tell_of_holds(client, slot->owner);
		snecki_client_unlock(client); /* submits: the client's end waits for the slot as long as it is
		                                 in the list */
		pthread_mutex_lock(&client->mutex);
		snecki_list_remove(&slot->node);
		pthread_mutex_unlock(&client->mutex);
		slot->client = NULL;
		pthread_mutex_unlock(&slot->mutex);
		unref_slot(slot); /* the client's */
	} else {
		pthread_mutex_unlock(&slot->mutex);
	}
	unref_slot(slot);
}

int snecki_client_threads_begin(sneck_client *client) {
	snecki_list_init(&client->threads);
	if (pthread_key_create(&client->thread_key, thread_ends) != 0)
		return SNECK_ENOMEM;
	client->have_key = true;
	return 0;
}

int snecki_client_thread_owner(sneck_client *client, uint64_t *ret_owner) {
	struct thread_slot *slot = pthread_getspecific(client->thread_key);

	if (slot) {
		*ret_owner = slot->owner;
		return 0;
	}
	slot = calloc(1, sizeof *slot);
	if (!slot)
		return SNECK_ENOMEM;
	atomic_init(&slot->refs, 2);
	pthread_mutex_init(&slot->mutex, NULL);
	slot->client = client;
	if (pthread_setspecific(client->thread_key, slot) != 0) {
		pthread_mutex_destroy(&slot->mutex);
		free(slot);
		return SNECK_ENOMEM;
	}
	snecki_client_lock(client);
	slot->owner = THREAD_OWNER_BIT | ++client->thread_counter;
	snecki_list_append(&client->threads, &slot->node);
	snecki_client_unlock(client);
	*ret_owner = slot->owner;
	return 0;
}

uint64_t snecki_client_anonymous_owner(sneck_client *client) {
	return ANONYMOUS_OWNER_BIT | ++client->thread_counter;
}

/* The client ends: threads that live on keep a slot that leads nowhere (a few dozen bytes each, freed
 * for the calling thread at once and never for others: their key is gone). */
void snecki_client_threads_end(sneck_client *client) {
	if (!client->have_key)
		return;
	struct thread_slot *own = pthread_getspecific(client->thread_key);
	pthread_key_delete(client->thread_key);
	for (;;) {
		pthread_mutex_lock(&client->mutex);
		if (snecki_list_empty(&client->threads)) {
			pthread_mutex_unlock(&client->mutex);
			break;
		}
		struct thread_slot *slot = LIST_ITEM(client->threads.next, struct thread_slot, node);
		snecki_list_remove(&slot->node);
		atomic_fetch_add(&slot->refs, 1); /* it must outlive the next lines */
		pthread_mutex_unlock(&client->mutex);
		pthread_mutex_lock(&slot->mutex);
		bool ours = slot->client != NULL;
		slot->client = NULL;
		pthread_mutex_unlock(&slot->mutex);
		if (ours)
			unref_slot(slot);
		if (slot == own)
			unref_slot(slot);
		unref_slot(slot);
	}
}
