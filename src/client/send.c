/* SPDX-License-Identifier: MIT */
/* Who submits: one thread at a time, for everybody.
 *
 * Requests reach the connections in the order in which the core made them. So what an event has put into the
 * outbox is moved to the end of `line` before `mutex` is let go, and the line is submitted from its head by
 * the one thread that has set `sending`. Who finds it set leaves its requests there and goes on to wait for
 * the answer: nobody waits for another's request to be written down, least of all with `mutex` in its hand.
 *
 * What holds
 *   - `line`, `sending`, `lined_up` are under send_mutex, which is held for a few instructions only, never
 *     while something is submitted. Requests are added with `mutex` held as well: their order is the core's.
 *   - A line that is not empty has somebody who submits it: `sending` is set, and whoever has set it looks
 *     again before it clears it; or the background thread has been told (FOR_OTHERS_MAX), which comes at the
 *     end of its turn, unless another thread has something to send before that.
 *   - Requests are numbered as they are lined up; `submitted` is the number of the last that the connection
 *     has. No call ends before its own requests have been submitted (snecki_sent_await in
 *     snecki_waiter_done): a request in line refers to its thread's parker. Until then the parker counts
 *     nothing in flight, and its thread, should it sleep already, is not asked to lead; submitting hands it
 *     the role if nobody reads.
 *   - Who submits for others is inside a call of its own, or is the background thread: the client cannot be
 *     closed under it.
 *   - What did not run and is sent again must not be overtaken by what the core makes afterwards: who does
 *     that waits for its turn with `mutex` in its hand (snecki_turn_begin). That is rare.
 *   - What is not made by the core (a look at a lock, the session's record) does not stand in line, and
 *     overtakes what does. The record must not: it waits (snecki_sent_await, snecki_sent_await_all). */
#include "client/carry.h"

/* One who submits for others does not do so for ever. */
enum { FOR_OTHERS_MAX = 256 };

/* With send_mutex locked. There is something in line. */
static void take_line(sneck_client *client, struct list *ret) {
	snecki_list_init(ret);
	snecki_list_splice(ret, &client->line);
}

bool snecki_line_up(sneck_client *client, uint64_t *ret_number, struct list *ret) {
	pthread_mutex_lock(&client->send_mutex);
	snecki_list_splice(&client->line, &client->outbox);
	client->lined_up += client->outbox_n;
	client->outbox_n = 0;
	*ret_number = client->lined_up;
	bool ours = !client->sending;
	if (ours) {
		client->sending = true;
		take_line(client, ret);
	}
	pthread_mutex_unlock(&client->send_mutex);
	return ours;
}

/* With send_mutex locked. */
static void stop_sending(sneck_client *client) {
	client->sending = false;
	if (client->awaiting)
		pthread_cond_broadcast(&client->sent);
}

void snecki_send_line(sneck_client *client, struct list *batch) {
	uint64_t first = atomic_load(&client->submitted);

	for (;;) {
		snecki_submit_all(client, batch);
		pthread_mutex_lock(&client->send_mutex);
		bool more = !snecki_list_empty(&client->line);
		bool enough = atomic_load(&client->submitted) - first >= FOR_OTHERS_MAX;
		if (!more || enough)
			stop_sending(client);
		else
			take_line(client, batch);
		if (more && !enough && client->awaiting) /* perhaps for what was in the last batch */
			pthread_cond_broadcast(&client->sent);
		pthread_mutex_unlock(&client->send_mutex);
		if (more && enough)
			snecki_client_wake_for_deferred(client);
		if (!more || enough)
			return;
	}
}

void snecki_send_rest(sneck_client *client) {
	struct list batch;

	pthread_mutex_lock(&client->send_mutex);
	bool ours = !client->sending && !snecki_list_empty(&client->line);
	if (ours) {
		client->sending = true;
		take_line(client, &batch);
	}
	pthread_mutex_unlock(&client->send_mutex);
	if (ours)
		snecki_send_line(client, &batch);
}

/* ---- In turn ------------------------------------------------------------------------------------*/

void snecki_turn_begin(sneck_client *client) {
	struct list before;

	pthread_mutex_lock(&client->send_mutex);
	client->awaiting++;
	while (client->sending)
		pthread_cond_wait(&client->sent, &client->send_mutex);
	client->awaiting--;
	client->sending = true;
	take_line(client, &before);
	pthread_mutex_unlock(&client->send_mutex);
	pthread_mutex_unlock(&client->mutex);
	snecki_submit_all(client, &before);
}

void snecki_turn_end(sneck_client *client) {
	struct list none;

	snecki_list_init(&none);
	snecki_send_line(client, &none);
}

/* Nobody is sending, but there is something in line: see to it, instead of waiting for the background thread,
 * which this one may be. */
void snecki_sent_await(sneck_client *client, uint64_t number) {
	while (atomic_load(&client->submitted) < number) {
		snecki_send_rest(client);
		pthread_mutex_lock(&client->send_mutex);
		client->awaiting++;
		while (atomic_load(&client->submitted) < number && client->sending)
			pthread_cond_wait(&client->sent, &client->send_mutex);
		client->awaiting--;
		pthread_mutex_unlock(&client->send_mutex);
	}
}

void snecki_sent_await_all(sneck_client *client) {
	pthread_mutex_lock(&client->send_mutex);
	uint64_t number = client->lined_up;
	pthread_mutex_unlock(&client->send_mutex);
	snecki_sent_await(client, number);
}
