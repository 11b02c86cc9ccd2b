/* SPDX-License-Identifier: MIT */
/* Blocking calls: a wish, a place to wait, and the text of a refusal. */
#include "client/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"

/* After a message others are taken to have to do with our locks for so long. */
enum { QUIET_NS = 100 * 1000 * 1000 };

/* The core sets the rest of the wish before anybody looks at it. All of it is large, and this is on every
 * call's way. */
void snecki_waiter_init(struct waiter *waiter) {
	struct lock_wish *wish = &waiter->wish;

	wish->fixed = wish->prefer = wish->nowait = wish->timed = false;
	wish->tag = 0;
	wish->linger_ms = 0;
	wish->ack_replicas = wish->ack_ms = 0; /* also of wishes that no replica is asked about */
	wish->layout = NULL;
	wish->id[0] = '\0';
	wish->done = false;
	wish->new_attempt = 0;
	waiter->sent_number = 0;
	waiter->async = false;
	waiter->server[0] = '\0';
	waiter->hold = NULL;
	waiter->event = NULL;
	snecki_list_init(&waiter->woken);
	snecki_parker_init(&waiter->parker);
}

/* Requests that were sent for this thread and are still unanswered go on without it; those that are in line
 * to be sent refer to it until then. The last use of the client in a call: once it is counted out,
 * sneck_close may free everything. */
void snecki_waiter_done(sneck_client *client, struct waiter *waiter) {
	snecki_sent_await(client, waiter->sent_number);
	if (atomic_load(&waiter->parker.inflight))
		snecki_servers_orphan_all(client->servers, &waiter->parker);
	snecki_parker_done(&waiter->parker);
	snecki_client_leave(client);
}

/* Whoever looks for its answer has a core that another session's thread may need, which was woken by what was
 * just sent. Messages are how sessions that share locks know of each other. */
static bool may_glance(sneck_client *client) {
	return client->message_ns == 0 || snecki_now_ns() > client->message_ns + QUIET_NS;
}

/* Nobody else has seen the wish yet, nobody has to wake us, and no request was made for us. */
bool snecki_waiter_done_at_once(sneck_client *client, struct waiter *waiter) {
	if (!waiter->wish.done || waiter->wish.code < 0)
		return false;
	snecki_list_remove(&waiter->woken);
	return snecki_client_unlock_and_leave(client);
}

void snecki_end_late(sneck_client *client) {
	bool found = !snecki_list_empty(&client->late);

	while (found) { /* ending one may end others, so the walk starts again after each */
		found = false;
		LIST_EACH (at, &client->late) {
			struct waiter *waiter = LIST_ITEM(at, struct waiter, late);
			if (waiter->wish.done || snecki_wish_unanswered(&waiter->wish))
				continue;
			snecki_core_give_up(client->core, &waiter->wish, SNECK_ETIMEDOUT, snecki_now_ns());
			found = true;
			break;
		}
	}
}

/* Until `deadline_ns`; or, while the server has not answered at all, until it does, or `answer_deadline_ns`
 * if that is later: an answer that nobody waits for would have to be undone. */
int snecki_waiter_wait(
        sneck_client *client, struct waiter *waiter, int64_t deadline_ns, int64_t answer_deadline_ns) {
	struct lock_wish *wish = &waiter->wish;
	bool late = false;

	if (wish->done) { /* at once: nobody else has seen it yet, and nobody has to wake us */
		snecki_list_remove(&waiter->woken);
		snecki_client_unlock(client);
		return wish->code;
	}
	waiter->parker.may_glance = may_glance(client);
	snecki_client_unlock(client);
	/* Once the parker is ready the wish is nobody else's any more: no lock is needed to look at it. And
	 * a wish that is done always makes the parker ready, which must be waited for: somebody is about
	 * to touch it. */
	while (!snecki_servers_park(client->servers, &waiter->parker, deadline_ns)) {
		snecki_client_lock(client);
		if (!wish->done && snecki_wish_unanswered(wish) && deadline_ns < answer_deadline_ns) {
			deadline_ns = answer_deadline_ns;
			snecki_list_append(&client->late, &waiter->late);
			late = true;
		} else {
			if (!wish->done)
				snecki_core_give_up(client->core, wish, SNECK_ETIMEDOUT, snecki_now_ns());
			deadline_ns = NS_NEVER;
		}
		snecki_client_unlock(client);
	}
	if (late) {
		pthread_mutex_lock(&client->mutex);
		snecki_list_remove(&waiter->late);
		pthread_mutex_unlock(&client->mutex);
	}
	return wish->code;
}

/* ---- Handles ------------------------------------------------------------------------------------*/

sneck_hold *snecki_hold_new(sneck_client *client, const void *name, size_t name_len) {
	sneck_hold *hold = malloc(sizeof *hold + name_len + 1);

	if (!hold)
		return NULL;
	/* All but the event, which is large, and is written when there is one. */
	hold->lock.entry = NULL;
	hold->lock.grant = NULL;
	hold->lock.token = 0;
	hold->lock.state = HOLD_HELD;
	hold->dialect = NULL;
	hold->thread_bound = false;
	hold->news.heap = false;
	hold->reason = NULL;
	hold->broken_attempt = 0;
	hold->broken_mode = '\0';
	hold->grace_until_ns = 0;
	hold->client = client;
	hold->fd = -1;
	hold->name_len = name_len;
	memcpy(hold->name, name, name_len);
	hold->name[name_len] = '\0';
	snecki_list_init(&hold->lock.in_grant);
	snecki_list_init(&hold->news.node);
	snecki_list_append(&client->holds, &hold->all);
	return hold;
}

void snecki_hold_free(sneck_hold *hold) {
	snecki_event_drop(hold->client, &hold->news);
	snecki_list_remove(&hold->all);
	if (hold->fd >= 0)
		close(hold->fd);
	free(hold->reason);
	free(hold);
}

/* ---- Texts --------------------------------------------------------------------------------------*/

/* A name for people: bytes that do not print are escaped, long ones are cut. */
void snecki_print_name(char *out, size_t size, const void *bytes, size_t len) {
	const unsigned char *name = bytes;
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		if (n + 8 > size) {
			n += (size_t)snprintf(out + n, size - n, "...");
			break;
		}
		if (name[i] >= 0x20 && name[i] != 0x7f && name[i] != '"' && name[i] != '\\')
			out[n++] = (char)name[i];
		else
			n += (size_t)snprintf(out + n, size - n, "\\x%02x", name[i]);
	}
	out[n] = '\0';
}

static void describe_refusal(sneck_client *client, const struct lock_wish *wish, const char *shown,
        int64_t wait_ms, char *out, size_t size) {
	const char *mode = wish->holder_mode == 'W' ? "write" : "read";
	const char *asked = wish->mode == 'W' || wish->kind == WISH_UPGRADE ? "write" : "read";
	int n = 0;

	if (wish->code == SNECK_ETIMEDOUT && wait_ms >= 0)
		n = snprintf(out, size, "\"%s\" was not obtained in %lld ms: ", shown, (long long)wait_ms);
	else
		n = snprintf(out, size, "\"%s\": ", shown);
	if (n < 0 || (size_t)n >= size)
		return;
	out += n;
	size -= (size_t)n;
	if (wish->local_block)
		snprintf(out, size,
		        "another thread or owner of this session (%s) holds or wants it (%s); asked by %s "
		        "for %s",
		        wish->holder, mode, client->session_id, asked);
	else if (wish->holder[0])
		snprintf(out, size, "held by %s (%s), %u waiting before; asked by %s for %s", wish->holder,
		        mode, (unsigned)wish->ahead, client->session_id, asked);
	else
		snprintf(out, size, "others are waiting for it; asked by %s for %s", client->session_id,
		        asked);
}

/* Told with this answer, or with an earlier one. */
static const char *broken_by(const struct lock_wish *wish) {
	if (wish->detail[0])
		return wish->detail;
	const sneck_hold *hold = wish->hold ? LIST_ITEM(wish->hold, const sneck_hold, lock) : NULL;
	return hold && hold->reason && hold->reason[0] ? hold->reason : "an operator";
}

int snecki_wish_error(sneck_client *client, const struct lock_wish *wish, const void *name, size_t name_len,
        int64_t wait_ms, sneck_error *reterr) {
	const struct waiter *waiter =
	        (const struct waiter *)(const void *)((const char *)wish - offsetof(struct waiter, wish));
	char shown[128], text[400];

	if (wish->code == 0 || !reterr)
		return wish->code;
	snecki_print_name(shown, sizeof shown, name, name_len);
	switch (wish->code) {
	case SNECK_EBUSY:
	case SNECK_ETIMEDOUT:
	case SNECK_EDEADLK:
		if (wish->detail[0])
			return snecki_err(reterr, wish->code, "\"%s\": %s", shown, wish->detail);
		describe_refusal(client, wish, shown, wait_ms, text, sizeof text);
		if (wish->code == SNECK_EDEADLK)
			return snecki_err(reterr, wish->code,
			        "%s. Another reader is upgrading already: release the read hold, then take "
			        "the write lock",
			        text);
		return snecki_err(reterr, wish->code, "%s", text);
	case SNECK_EUNKNOWN:
		return snecki_err(reterr, wish->code,
		        "\"%s\": no answer from %s in time; the request is being withdrawn in the "
		        "background%s%s",
		        shown, client->display, wish->detail[0] ? ": " : "", wish->detail);
	case SNECK_EBROKEN:
		snecki_print_name(text, sizeof text, broken_by(wish), strlen(broken_by(wish)));
		return snecki_err(reterr, wish->code, "\"%s\": broken by %s", shown, text);
	default:
		if (wish->detail[0])
			return snecki_err_server(reterr, wish->code, waiter->server, strlen(waiter->server),
			        "\"%s\": %s", shown, wish->detail);
		return snecki_err(reterr, wish->code, "\"%s\": %s", shown, sneck_strerror(wish->code));
	}
}
