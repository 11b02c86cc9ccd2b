/* SPDX-License-Identifier: MIT */
/* libsneck as a subject: the public interface and nothing else, so that what is proven is what programs
 * get. Dialects and topologies are the URL's affair. */
#include "worker.h"

#include <string.h>

#include <sneck/sneck.h>

static int subject_open(const char *url, uint32_t command_ms, uint32_t linger_ms, void **ret_session) {
	sneck_client_options options = SNECK_CLIENT_OPTIONS_INIT;
	options.command_ms = command_ms;
	options.connect_ms = command_ms;
	options.linger_ms = linger_ms;
	sneck_client *client = NULL;
	int r = sneck_open(url, &options, &client, NULL);
	if (r == 0)
		*ret_session = client;
	return r;
}

static void subject_close(void *session) {
	sneck_close(session);
}

static sneck_acquire_options options_of(const struct worker_wish *wish) {
	sneck_acquire_options options = SNECK_ACQUIRE_OPTIONS_INIT;
	options.wait_ms = wish->wait_ms;
	options.lease_ms = wish->lease_ms;
	options.fixed = wish->fixed;
	options.policy = wish->prefer_writers ? SNECK_POLICY_PREFER_WRITERS : SNECK_POLICY_FAIR;
	options.tag = wish->tag;
	options.ack_replicas = wish->ack_replicas;
	options.ack_ms = wish->ack_ms;
	return options;
}

static int subject_acquire(void *session, const char *lock, const struct worker_wish *wish, void **ret_hold) {
	sneck_acquire_options options = options_of(wish);
	sneck_hold *hold = NULL;
	int r = sneck_acquire(
	        session, lock, wish->mode == 'R' ? SNECK_READ : SNECK_WRITE, &options, &hold, NULL);
	if (r == 0)
		*ret_hold = hold;
	return r;
}

static int subject_release(void *hold) {
	return sneck_release(hold);
}

static int64_t subject_left_ms(void *hold) {
	return sneck_hold_left_ms(hold);
}

static uint64_t subject_token(void *hold) {
	return sneck_hold_token(hold);
}

static int subject_state(void *hold) {
	return (int)sneck_hold_state(hold);
}

static int subject_fd(void *hold) {
	return sneck_hold_fd(hold);
}

static int subject_renew(void *hold, int64_t lease_ms) {
	return sneck_renew(hold, lease_ms, NULL);
}

static int subject_upgrade(void *hold, const struct worker_wish *wish) {
	sneck_acquire_options options = options_of(wish);
	return sneck_upgrade(hold, &options, NULL);
}

static int subject_downgrade(void *hold) {
	return sneck_downgrade(hold, NULL);
}

static int subject_cancel(void *session, uint64_t tag) {
	return sneck_cancel(session, tag);
}

_Static_assert((int)WORKER_ID_MAX >= (int)SNECK_ID_MAX, "an id fits");

static int subject_detach(void *hold, int64_t lease_ms, char ret_id[WORKER_ID_MAX]) {
	return sneck_detach(hold, lease_ms, ret_id, NULL);
}

static int subject_adopt(
        void *session, const char *lock, const char *id, const struct worker_wish *wish, void **ret_hold) {
	sneck_acquire_options options = options_of(wish);
	sneck_hold *hold = NULL;
	int r = sneck_adopt(session, lock, strlen(lock), id, &options, &hold, NULL);
	if (r == 0)
		*ret_hold = hold;
	return r;
}

const struct worker_subject worker_sneck = {
	.name = "sneck",
	.open = subject_open,
	.close = subject_close,
	.acquire = subject_acquire,
	.release = subject_release,
	.left_ms = subject_left_ms,
	.token = subject_token,
	.state = subject_state,
	.fd = subject_fd,
	.renew = subject_renew,
	.upgrade = subject_upgrade,
	.downgrade = subject_downgrade,
	.cancel = subject_cancel,
	.detach = subject_detach,
	.adopt = subject_adopt,
};
