/* SPDX-License-Identifier: MIT */
/* Taking locks: sneck_acquire, its asynchronous form, adopt, cancel. */
#include "api/api.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "client/detached.h"
#include "client/probe.h"

static void fill_wish(struct lock_wish *wish, sneck_mode mode, const struct acquire_args *args,
        uint64_t owner, sneck_hold *hold) {
	wish->kind = WISH_ACQUIRE;
	wish->mode = mode == SNECK_WRITE ? 'W' : 'R';
	wish->fixed = args->options.fixed != 0;
	wish->prefer = mode == SNECK_WRITE && args->options.policy == SNECK_POLICY_PREFER_WRITERS;
	wish->nowait = args->options.wait_ms == 0;
	wish->owner = owner;
	wish->tag = args->options.tag;
	wish->lease_ms = args->options.lease_ms;
	wish->linger_ms = args->options.linger_ms;
	wish->ack_replicas = args->options.ack_replicas;
	wish->ack_ms = args->options.ack_ms;
	wish->layout = &args->dialect->traits;
	wish->hold = &hold->lock;
	hold->dialect = args->dialect;
}

static int find_owner(
        sneck_client *client, const struct acquire_args *args, uint64_t *ret_owner, sneck_error *reterr) {
	*ret_owner = args->options.owner;
	if (args->options.owner)
		return 0;
	int r = snecki_client_thread_owner(client, ret_owner);
	return r < 0 ? snecki_err(reterr, r, "out of memory") : 0;
}

/* Only what has to be started first takes time. */
static int enter(sneck_client *client, struct acquire_args *args, sneck_error *reterr) {
	if (!snecki_client_ready(client))
		snecki_acquire_deadlines(client, args, snecki_now_ns());
	return snecki_client_enter(client, args->answer_deadline_ns, reterr);
}

/* Takes the lock, or with `id` adopts that hold. */
static int acquire(sneck_client *client, const void *name, size_t name_len, sneck_mode mode, const char *id,
        struct acquire_args *args, sneck_hold **ret_hold, sneck_error *reterr) {
	struct waiter waiter;
	uint64_t owner;
	int r = find_owner(client, args, &owner, reterr);

	if (r < 0) {
		snecki_client_leave(client);
		return r;
	}
	snecki_waiter_init(&waiter);
	snecki_client_lock(client);
	client->current = &waiter;
	sneck_hold *hold = snecki_hold_new(client, name, name_len);
	if (!hold) {
		snecki_client_unlock(client);
		snecki_waiter_done(client, &waiter);
		return snecki_err(reterr, SNECK_ENOMEM, "out of memory");
	}
	int64_t now_ns = snecki_now_ns();
	hold->thread_bound = args->options.owner == 0;
	fill_wish(&waiter.wish, mode, args, owner, hold);
	if (id) {
		waiter.wish.kind = WISH_ADOPT;
		strcpy(waiter.wish.id, id); /* its length was checked */
		snecki_core_adopt(client->core, name, name_len, &waiter.wish, now_ns);
	} else {
		snecki_core_acquire(client->core, name, name_len, &waiter.wish, now_ns);
	}
	if (snecki_waiter_done_at_once(client, &waiter)) {
		*ret_hold = hold;
		return 0;
	}
	if (args->deadline_ns == 0)
		snecki_acquire_deadlines(client, args, now_ns);
	r = snecki_waiter_wait(client, &waiter, args->deadline_ns, args->answer_deadline_ns);
	if (r < 0) {
		snecki_wish_error(client, &waiter.wish, name, name_len, args->options.wait_ms, reterr);
		snecki_probe_name_missing(client, reterr);
		snecki_client_lock(client);
		snecki_hold_free(hold);
		snecki_client_unlock(client);
	} else if (id) {
		snecki_detached_forget(client, id, 0); /* the session's record tells who has it now */
	}
	snecki_waiter_done(client, &waiter);
	if (r == 0)
		*ret_hold = hold;
	return r;
}

int sneck_acquire_n(sneck_client *client, const void *name, size_t name_len, sneck_mode mode,
        const sneck_acquire_options *options, sneck_hold **ret_hold, sneck_error *reterr) {
	struct acquire_args args;
	int r;

	if (!client || !ret_hold)
		return snecki_err(reterr, SNECK_EINVAL, "%s is NULL", client ? "ret_hold" : "client");
	if ((r = snecki_check_acquire(client, name, name_len, mode, options, &args, reterr)) < 0)
		return r;
	r = enter(client, &args, reterr);
	return r < 0 ? r : acquire(client, name, name_len, mode, NULL, &args, ret_hold, reterr);
}

int sneck_acquire(sneck_client *client, const char *name, sneck_mode mode,
        const sneck_acquire_options *options, sneck_hold **ret_hold, sneck_error *reterr) {
	return sneck_acquire_n(client, name, name ? strlen(name) : 0, mode, options, ret_hold, reterr);
}

/* ---- Asynchronous -------------------------------------------------------------------------------*/

static struct waiter *new_async(void) {
	struct waiter *waiter = calloc(1, sizeof *waiter);
	struct event_node *node = calloc(1, sizeof *node);

	if (!waiter || !node) {
		free(waiter);
		free(node);
		return NULL;
	}
	snecki_list_init(&node->node);
	node->heap = true;
	waiter->async = true;
	waiter->event = node;
	return waiter;
}

static int acquire_start(sneck_client *client, const void *name, size_t name_len, sneck_mode mode,
        const struct acquire_args *args, sneck_error *reterr) {
	struct waiter *waiter = new_async();

	if (!waiter)
		return snecki_err(reterr, SNECK_ENOMEM, "out of memory");
	snecki_client_lock(client);
	waiter->hold = snecki_hold_new(client, name, name_len);
	if (!waiter->hold) {
		snecki_client_unlock(client);
		free(waiter->event);
		free(waiter);
		return snecki_err(reterr, SNECK_ENOMEM, "out of memory");
	}
	uint64_t owner = args->options.owner ? args->options.owner : snecki_client_anonymous_owner(client);
	fill_wish(&waiter->wish, mode, args, owner, waiter->hold);
	waiter->wish.timed = args->deadline_ns != NS_NEVER;
	waiter->wish.deadline_ns = args->deadline_ns;
	snecki_core_acquire(client->core, name, name_len, &waiter->wish, snecki_now_ns());
	snecki_client_unlock(client);
	return 0;
}

int sneck_acquire_start(sneck_client *client, const void *name, size_t name_len, sneck_mode mode,
        const sneck_acquire_options *options, sneck_error *reterr) {
	struct acquire_args args;
	int r;

	if (!client)
		return snecki_err(reterr, SNECK_EINVAL, "client is NULL");
	if ((r = snecki_check_acquire(client, name, name_len, mode, options, &args, reterr)) < 0)
		return r;
	snecki_acquire_deadlines(client, &args, snecki_now_ns());
	r = enter(client, &args, reterr);
	if (r < 0)
		return r;
	r = acquire_start(client, name, name_len, mode, &args, reterr);
	snecki_client_leave(client);
	return r;
}

int sneck_cancel(sneck_client *client, uint64_t tag) {
	if (!client || tag == 0)
		return SNECK_EINVAL;
	if (snecki_client_forked(client))
		return SNECK_EFORKED;
	snecki_client_count_in(client);
	snecki_client_lock(client);
	size_t n = snecki_core_cancel_tag(client->core, tag, snecki_now_ns());
	snecki_client_unlock(client);
	snecki_client_leave(client);
	return (int)n;
}

/* ---- Adopt --------------------------------------------------------------------------------------*/

int sneck_adopt(sneck_client *client, const void *name, size_t name_len, const char *id,
        const sneck_acquire_options *options, sneck_hold **ret_hold, sneck_error *reterr) {
	struct acquire_args args;
	int r;

	if (!client || !ret_hold || !id)
		return snecki_err(reterr, SNECK_EINVAL, "%s is NULL",
		        !client ? "client"
		        : !id   ? "id"
		                : "ret_hold");
	sneck_mode mode = id[0] == 'R' ? SNECK_READ : SNECK_WRITE;
	if ((r = snecki_check_acquire(client, name, name_len, mode, options, &args, reterr)) < 0 ||
	        (r = snecki_check_detached(args.dialect, id, reterr)) < 0)
		return r;
	/* It is there or not: only the server's word is waited for. */
	args.options.wait_ms = 0;
	args.deadline_ns = snecki_after_ms(snecki_now_ns(), client->command_ms);
	args.answer_deadline_ns = args.deadline_ns;
	r = snecki_client_enter(client, args.answer_deadline_ns, reterr);
	return r < 0 ? r : acquire(client, name, name_len, mode, id, &args, ret_hold, reterr);
}
