/* SPDX-License-Identifier: MIT */
/* What can be done with a hold: release, renew, convert, detach, and looking at it. */
#include "api/api.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/options.h"
#include "client/break.h"
#include "client/detached.h"
#include "client/probe.h"

/* A hold of a thread is that thread's. */
static bool is_stranger(sneck_hold *hold) {
	uint64_t owner;

	if (!hold->thread_bound)
		return false;
	return snecki_client_thread_owner(hold->client, &owner) < 0 || owner != hold->lock.owner;
}

static int enter_hold(sneck_hold *hold, sneck_error *reterr) {
	if (!hold)
		return snecki_err(reterr, SNECK_EINVAL, "hold is NULL");
	sneck_client *client = hold->client;
	if (snecki_client_forked(client))
		return snecki_err(reterr, SNECK_EFORKED, "%s", sneck_strerror(SNECK_EFORKED));
	if (is_stranger(hold))
		return snecki_err(reterr, SNECK_ENOTOWNER,
		        "the hold was taken by another thread; do it there, or take it with "
		        "sneck_acquire_options.owner");
	snecki_client_count_in(client);
	return 0;
}

/* Locks. Returns the time. */
static int64_t begin(sneck_hold *hold, struct waiter *waiter, enum wish_kind kind) {
	sneck_client *client = hold->client;

	snecki_waiter_init(waiter);
	waiter->wish.kind = kind;
	waiter->wish.hold = &hold->lock;
	snecki_client_lock(client);
	client->current = waiter;
	waiter->wish.owner = hold->lock.owner;
	waiter->wish.lease_ms = hold->lock.lease_ms;
	waiter->wish.mode = hold->lock.mode;
	return snecki_now_ns();
}

/* Until when the server's answer is waited for. */
static int64_t command_end(const sneck_hold *hold, int64_t now_ns) {
	return snecki_after_ms(now_ns, hold->client->command_ms);
}

static int finish(sneck_hold *hold, struct waiter *waiter, int64_t deadline_ns, int64_t answer_deadline_ns,
        int64_t wait_ms, sneck_error *reterr) {
	sneck_client *client = hold->client;
	int r = snecki_waiter_wait(client, waiter, deadline_ns, answer_deadline_ns);

	snecki_wish_error(client, &waiter->wish, hold->name, hold->name_len, wait_ms, reterr);
	if (r == SNECK_EACCES)
		snecki_probe_name_missing(client, reterr);
	return r;
}

static void free_handle(sneck_hold *hold) {
	sneck_client *client = hold->client;

	snecki_client_lock(client);
	snecki_hold_free(hold);
	snecki_client_unlock(client);
}

int sneck_release(sneck_hold *hold) {
	struct waiter waiter;
	struct farewell farewell;
	int r = enter_hold(hold, NULL);

	if (r == SNECK_EFORKED)
		return r; /* the memory goes with sneck_close */
	if (r < 0)
		return r;
	sneck_client *client = hold->client;
	int64_t now_ns = begin(hold, &waiter, WISH_RELEASE);
	bool broken = snecki_farewell_take(hold, &farewell);
	/* No answer can matter once the lease is over. */
	int64_t until_ns = snecki_hold_valid_until(&hold->lock);
	snecki_core_release(client->core, &waiter.wish, now_ns);
	snecki_hold_free(hold);
	if (!broken && snecki_waiter_done_at_once(client, &waiter))
		return 0;
	int64_t deadline_ns = snecki_after_ms(now_ns, client->command_ms);
	if (until_ns && until_ns < deadline_ns)
		deadline_ns = until_ns;
	r = snecki_waiter_wait(client, &waiter, deadline_ns, deadline_ns);
	if (broken)
		snecki_farewell_say(client, &farewell, deadline_ns);
	snecki_waiter_done(client, &waiter);
	return r;
}

int sneck_renew(sneck_hold *hold, int64_t lease_ms, sneck_error *reterr) {
	struct waiter waiter;
	int r;

	if (hold && lease_ms == 0)
		lease_ms = hold->lock.lease_ms;
	if ((r = snecki_check_lease(lease_ms, true, reterr)) < 0 || (r = enter_hold(hold, reterr)) < 0)
		return r;
	int64_t now_ns = begin(hold, &waiter, WISH_RENEW), deadline_ns = command_end(hold, now_ns);
	waiter.wish.lease_ms = lease_ms;
	snecki_core_renew(hold->client->core, &waiter.wish, now_ns);
	r = finish(hold, &waiter, deadline_ns, deadline_ns, -1, reterr);
	snecki_waiter_done(hold->client, &waiter);
	return r;
}

int sneck_upgrade(sneck_hold *hold, const sneck_acquire_options *options, sneck_error *reterr) {
	struct acquire_args args;
	struct waiter waiter;
	int r;

	if (!hold)
		return snecki_err(reterr, SNECK_EINVAL, "hold is NULL");
	if ((r = snecki_load_upgrade(hold, options, &args, reterr)) < 0 || (r = enter_hold(hold, reterr)) < 0)
		return r;
	int64_t now_ns = begin(hold, &waiter, WISH_UPGRADE);
	snecki_acquire_deadlines(hold->client, &args, now_ns);
	waiter.wish.nowait = args.options.wait_ms == 0;
	waiter.wish.tag = args.options.tag;
	waiter.wish.ack_replicas = args.options.ack_replicas;
	waiter.wish.ack_ms = args.options.ack_ms;
	snecki_core_upgrade(hold->client->core, &waiter.wish, now_ns);
	r = finish(hold, &waiter, args.deadline_ns, args.answer_deadline_ns, args.options.wait_ms, reterr);
	snecki_waiter_done(hold->client, &waiter);
	return r;
}

int sneck_downgrade(sneck_hold *hold, sneck_error *reterr) {
	struct waiter waiter;
	int r = enter_hold(hold, reterr);

	if (r < 0)
		return r;
	int64_t now_ns = begin(hold, &waiter, WISH_DOWNGRADE), deadline_ns = command_end(hold, now_ns);
	snecki_core_downgrade(hold->client->core, &waiter.wish, now_ns);
	r = finish(hold, &waiter, deadline_ns, deadline_ns, -1, reterr);
	snecki_waiter_done(hold->client, &waiter);
	return r;
}

int sneck_detach(sneck_hold *hold, int64_t lease_ms, char ret_id[SNECK_ID_MAX], sneck_error *reterr) {
	struct waiter waiter;
	int r;

	if (!ret_id)
		return snecki_err(reterr, SNECK_EINVAL, "ret_id is NULL");
	if (hold && lease_ms == 0)
		lease_ms = hold->lock.lease_ms;
	if ((r = snecki_check_lease(lease_ms, true, reterr)) < 0 || (r = enter_hold(hold, reterr)) < 0)
		return r;
	sneck_client *client = hold->client;
	if (!hold->dialect->read_id) { /* before the core counts on the shorter lease */
		snecki_client_leave(client);
		return snecki_err(reterr, SNECK_ENOTSUP, "%s locks cannot be detached", hold->dialect->name);
	}
	int64_t now_ns = begin(hold, &waiter, WISH_DETACH), deadline_ns = command_end(hold, now_ns);
	waiter.wish.lease_ms = lease_ms;
	snecki_core_detach(client->core, &waiter.wish, now_ns);
	r = finish(hold, &waiter, deadline_ns, deadline_ns, -1, reterr);
	if (r == 0) {
		memcpy(ret_id, waiter.wish.id, SNECK_ID_MAX);
		free_handle(hold);
		snecki_detached_record(client, ret_id, lease_ms, deadline_ns);
	}
	snecki_waiter_done(client, &waiter);
	return r;
}

/* ---- Looking ------------------------------------------------------------------------------------*/

/* `in_grace`: count what is left to a hold that was broken. */
static int64_t left_ms_of(const sneck_hold *hold, bool in_grace) {
	if (!hold || snecki_client_forked(hold->client))
		return 0;
	pthread_mutex_lock(&hold->client->mutex);
	int64_t until_ns = snecki_hold_valid_until(&hold->lock);
	if (in_grace && hold->lock.state == HOLD_BROKEN)
		until_ns = hold->grace_until_ns;
	pthread_mutex_unlock(&hold->client->mutex);
	int64_t left_ns = until_ns - snecki_now_ns(); /* after the lock: waiting for it counts */
	return until_ns && left_ns > 0 ? left_ns / NS_PER_MS : 0;
}

int64_t sneck_hold_left_ms(const sneck_hold *hold) {
	return left_ms_of(hold, true);
}

bool sneck_check(const sneck_hold *hold, int64_t need_ms) {
	int64_t left_ms = left_ms_of(hold, false);
	return left_ms > 0 && left_ms >= need_ms;
}

uint64_t sneck_hold_token(const sneck_hold *hold) {
	if (!hold || snecki_client_forked(hold->client))
		return 0;
	pthread_mutex_lock(&hold->client->mutex);
	uint64_t token = hold->lock.token;
	pthread_mutex_unlock(&hold->client->mutex);
	return token;
}

sneck_state sneck_hold_state(const sneck_hold *hold) {
	if (!hold || snecki_client_forked(hold->client))
		return SNECK_LOST;
	pthread_mutex_lock(&hold->client->mutex);
	sneck_state state = (sneck_state)hold->lock.state;
	int64_t until_ns = snecki_hold_valid_until(&hold->lock);
	pthread_mutex_unlock(&hold->client->mutex);
	/* The timer may not have run yet; what cannot be vouched for is lost. */
	return state <= SNECK_SUSPECT && snecki_now_ns() >= until_ns ? SNECK_LOST : state;
}

const char *sneck_hold_reason(const sneck_hold *hold) {
	if (!hold || snecki_client_forked(hold->client))
		return "";
	pthread_mutex_lock(&hold->client->mutex);
	const char *reason = hold->reason; /* written once: it stays while the handle does */
	pthread_mutex_unlock(&hold->client->mutex);
	return reason ? reason : "";
}

sneck_mode sneck_hold_mode(const sneck_hold *hold) {
	if (!hold)
		return (sneck_mode)0;
	if (snecki_client_forked(hold->client))
		return (sneck_mode)0;
	pthread_mutex_lock(&hold->client->mutex);
	sneck_mode mode = hold->lock.mode == 'W' ? SNECK_WRITE : SNECK_READ;
	pthread_mutex_unlock(&hold->client->mutex);
	return mode;
}

int sneck_hold_id(const sneck_hold *hold, char ret_id[SNECK_ID_MAX]) {
	if (!hold || !ret_id)
		return SNECK_EINVAL;
	if (snecki_client_forked(hold->client))
		return SNECK_EFORKED;
	pthread_mutex_lock(&hold->client->mutex);
	bool held = snecki_hold_id(hold->client->core, &hold->lock, ret_id);
	pthread_mutex_unlock(&hold->client->mutex);
	return held ? 0 : SNECK_ELOST;
}

const char *sneck_hold_name(const sneck_hold *hold, size_t *ret_len) {
	if (!hold)
		return NULL;
	if (ret_len)
		*ret_len = hold->name_len;
	return hold->name;
}

int sneck_hold_fd(sneck_hold *hold) {
	if (!hold)
		return SNECK_EINVAL;
	if (snecki_client_forked(hold->client))
		return SNECK_EFORKED;
	pthread_mutex_lock(&hold->client->mutex);
	if (hold->fd < 0)
		hold->fd = eventfd(hold->lock.state == HOLD_HELD ? 0 : 1, EFD_CLOEXEC | EFD_NONBLOCK);
	int fd = hold->fd;
	pthread_mutex_unlock(&hold->client->mutex);
	return fd < 0 ? SNECK_ESYS : fd;
}
