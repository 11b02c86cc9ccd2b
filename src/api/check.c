/* SPDX-License-Identifier: MIT */
/* Arguments: each mistake has its own text, which says what would be right. */
#include "api/api.h"

#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/options.h"

static int check_name(const sneck_client *client, const struct dialect *dialect, const void *name,
        size_t name_len, sneck_error *reterr) {
	if (!name)
		return snecki_err(reterr, SNECK_EINVAL, "the lock's name is NULL");
	if (name_len == 0)
		return snecki_err(reterr, SNECK_EINVAL, "the lock's name is empty; it has 1 to %d bytes",
		        SNECK_NAME_MAX);
	if (name_len > SNECK_NAME_MAX)
		return snecki_err(reterr, SNECK_EINVAL,
		        "the lock's name has %zu bytes; at most %d are allowed", name_len, SNECK_NAME_MAX);
	if (dialect->check_name)
		return dialect->check_name(&client->session, name, name_len, reterr);
	return 0;
}

int snecki_check_name(const sneck_client *client, const void *name, size_t name_len, sneck_error *reterr) {
	return check_name(client, client->dialect, name, name_len, reterr);
}

static int check_mode(const struct dialect *dialect, sneck_mode mode, sneck_error *reterr) {
	if (mode != SNECK_READ && mode != SNECK_WRITE)
		return snecki_err(
		        reterr, SNECK_EINVAL, "mode %d is unknown; use SNECK_READ or SNECK_WRITE", (int)mode);
	if (mode == SNECK_READ && dialect->traits.no_read)
		return snecki_err(reterr, SNECK_EINVAL,
		        "%s has WRITE only; for readers choose a dialect that has them, as native or "
		        "redisson:rwlock",
		        dialect->name);
	return 0;
}

int snecki_check_lease(int64_t lease_ms, bool fixed, sneck_error *reterr) {
	int64_t least = fixed ? SNECK_LEASE_MIN_MS : SNECK_LEASE_RENEW_MIN_MS;

	if (lease_ms >= least && lease_ms <= SNECK_LEASE_MAX_MS)
		return 0;
	return snecki_err(reterr, SNECK_EINVAL,
	        "a lease of %lld ms is out of range: %s leases last %lld ms to %d ms (7 days)",
	        (long long)lease_ms, fixed ? "fixed" : "renewed", (long long)least, SNECK_LEASE_MAX_MS);
}

int snecki_check_detached(const struct dialect *dialect, const char *id, sneck_error *reterr) {
	char session[LOCK_HOLDER_MAX];
	uint64_t attempt;

	if (!dialect->read_id)
		return snecki_err(reterr, SNECK_ENOTSUP, "%s locks cannot be detached", dialect->name);
	if (strnlen(id, LOCK_ID_MAX) >= LOCK_ID_MAX || !dialect->check_id(id))
		return snecki_err(
		        reterr, SNECK_EINVAL, "this is not an id of a hold; sneck_detach makes them");
	dialect->read_id(id, session, &attempt);
	if (!(attempt & LOCK_DETACHED))
		return snecki_err(reterr, SNECK_ENOTOWNER,
		        "%s is not detached: the program that has it keeps it alive, and it alone may end "
		        "it; sneck_break takes it away by force",
		        id);
	return 0;
}

/* What the option asks for, or the client's. */
static int check_linger(const sneck_client *client, const struct dialect *dialect,
        sneck_acquire_options *loaded, sneck_error *reterr) {
	if (loaded->linger_ms < SNECK_LINGER_OFF || loaded->linger_ms > SNECK_LEASE_MAX_MS)
		return snecki_err(reterr, SNECK_EINVAL,
		        "linger_ms is %lld; use a time of up to %d ms (7 days), 0, or SNECK_LINGER_OFF",
		        (long long)loaded->linger_ms, SNECK_LEASE_MAX_MS);
	if (loaded->linger_ms == 0)
		loaded->linger_ms = client->linger_ms;
	if (loaded->linger_ms == SNECK_LINGER_OFF)
		loaded->linger_ms = 0;
	if (loaded->linger_ms > 0 && dialect->traits.polls)
		return snecki_err(reterr, SNECK_ENOTSUP,
		        "%s locks cannot linger: nobody could ask for them back; use native, or set "
		        "linger_ms "
		        "to SNECK_LINGER_OFF",
		        dialect->name);
	return 0;
}

/* The same for the replicas: 0 of both turns it off. */
static int check_ack(const sneck_client *client, const struct dialect *dialect, sneck_acquire_options *loaded,
        sneck_error *reterr) {
	bool own = loaded->ack_replicas != 0;

	if (!own)
		loaded->ack_replicas = client->ack_replicas;
	if (loaded->ack_replicas == SNECK_ACK_OFF || loaded->ack_replicas == 0) {
		loaded->ack_replicas = loaded->ack_ms = 0;
		return 0;
	}
	if (dialect != &snecki_native && !own) { /* a lock of another layout than the client's */
		loaded->ack_replicas = loaded->ack_ms = 0;
		return 0;
	}
	if (dialect != &snecki_native)
		return snecki_err(reterr, SNECK_ENOTSUP, "replicas can acknowledge native locks only, not %s",
		        dialect->name);
	if (loaded->ack_ms == 0)
		loaded->ack_ms = client->ack_ms;
	int64_t half_ms = loaded->lease_ms / 2;
	if (loaded->ack_ms == 0)
		loaded->ack_ms = half_ms < SNECK_ACK_DEFAULT_MS ? (uint32_t)half_ms : SNECK_ACK_DEFAULT_MS;
	if (loaded->ack_ms >= loaded->lease_ms)
		return snecki_err(reterr, SNECK_EINVAL,
		        "ack_ms is %u, and the lease %lld ms: it would be over before the replicas have "
		        "acknowledged it; give them less time, or it more",
		        (unsigned)loaded->ack_ms, (long long)loaded->lease_ms);
	return 0;
}

static int load_options(
        const sneck_acquire_options *options, sneck_acquire_options *ret, sneck_error *reterr) {
	if (snecki_options_load(ret, sizeof *ret, options) == 0)
		return 0;
	return snecki_err(reterr, SNECK_EINVAL,
	        "sneck_acquire_options: start from SNECK_ACQUIRE_OPTIONS_INIT; fields unknown to this "
	        "version "
	        "(%s) must be zero",
	        SNECK_VERSION);
}

int snecki_load_acquire(const sneck_client *client, const sneck_acquire_options *options,
        struct acquire_args *ret, sneck_error *reterr) {
	sneck_acquire_options *loaded = &ret->options;
	int r = load_options(options, loaded, reterr);

	if (r < 0)
		return r;
	if (loaded->lease_ms == 0)
		loaded->lease_ms = client->lease_ms;
	ret->dialect = loaded->dialect ? snecki_dialect_find(loaded->dialect, reterr) : client->dialect;
	if (!ret->dialect)
		return SNECK_EINVAL;
	if (loaded->need_token && ret->dialect->traits.no_tokens)
		return snecki_err(reterr, SNECK_ENOTSUP,
		        "%s locks have no fencing tokens; use native or redisson:fenced, or ask for none",
		        ret->dialect->name);
	r = snecki_check_lease(loaded->lease_ms, loaded->fixed != 0, reterr);
	if (r == 0)
		r = check_linger(client, ret->dialect, loaded, reterr);
	if (r == 0)
		r = check_ack(client, ret->dialect, loaded, reterr);
	if (r < 0)
		return r;
	if (loaded->wait_ms < SNECK_WAIT_FOREVER)
		return snecki_err(reterr, SNECK_EINVAL,
		        "wait_ms is %lld; use 0, a time, or SNECK_WAIT_FOREVER", (long long)loaded->wait_ms);
	if (loaded->policy > SNECK_POLICY_PREFER_WRITERS)
		return snecki_err(reterr, SNECK_EINVAL,
		        "policy %u is unknown; use SNECK_POLICY_FAIR or SNECK_POLICY_PREFER_WRITERS",
		        loaded->policy);
	if (loaded->owner >> 62)
		return snecki_err(reterr, SNECK_EINVAL,
		        "owner must be below 2^62: larger numbers are the library's own");
	if (loaded->policy == SNECK_POLICY_DEFAULT)
		loaded->policy = client->policy;
	ret->deadline_ns = ret->answer_deadline_ns = 0;
	return 0;
}

int snecki_load_upgrade(const sneck_hold *hold, const sneck_acquire_options *options,
        struct acquire_args *ret, sneck_error *reterr) {
	sneck_acquire_options given;
	int r = snecki_load_acquire(hold->client, options, ret, reterr);

	if (r == 0)
		r = load_options(options, &given, reterr);
	if (r < 0)
		return r;
	if (given.ack_replicas == 0 && hold->lock.ack_replicas) {
		ret->options.ack_replicas = hold->lock.ack_replicas;
		ret->options.ack_ms = hold->lock.ack_ms;
	}
	if (hold->dialect != &snecki_native)
		ret->options.ack_replicas = ret->options.ack_ms = 0;
	return 0;
}

/* Replicas get their time on top of the wait, which is for the lock. */
void snecki_acquire_deadlines(const sneck_client *client, struct acquire_args *args, int64_t now_ns) {
	int64_t wait_ms = args->options.wait_ms;
	int64_t answer_ns = snecki_after_ms(now_ns, client->command_ms);

	args->deadline_ns = wait_ms == SNECK_WAIT_FOREVER ? NS_NEVER
	                    : wait_ms == 0                ? answer_ns
	                                                  : snecki_after_ms(now_ns, wait_ms);
	if (answer_ns < args->deadline_ns)
		answer_ns = args->deadline_ns;
	args->answer_deadline_ns = snecki_after_ms(answer_ns, args->options.ack_ms);
	if (wait_ms == 0)
		args->deadline_ns = args->answer_deadline_ns;
}

int snecki_check_acquire(const sneck_client *client, const void *name, size_t name_len, sneck_mode mode,
        const sneck_acquire_options *options, struct acquire_args *ret, sneck_error *reterr) {
	int r = snecki_load_acquire(client, options, ret, reterr);

	if (r == 0)
		r = check_name(client, ret->dialect, name, name_len, reterr);
	return r < 0 ? r : check_mode(ret->dialect, mode, reterr);
}
