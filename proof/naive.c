/* SPDX-License-Identifier: MIT */
/* A lock as it is found in many programs: SET key value NX PX lease, and DEL. It is here to be caught.
 *
 * What is wrong with it, and must show: the lease counts from the reply instead of from the request; nothing
 * renews it and nobody is told of its end; DEL does not ask whose lock it deletes; a request whose reply is
 * lost leaves a lock that nobody knows of; there is no token.
 *
 * None of this is exaggerated: each step does what such programs do, and a worker treats this lock like any
 * other (worker.h). */
#include "worker.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>
#include <sneck/sneck.h>

enum { POLL_US = 2000, NS_PER_MS = 1000000 };

struct session {
	pthread_mutex_t mutex; /* one command at a time */
	redisContext *context; /* NULL: connect first */
	char path[128];
	struct timeval timeout;
};

struct hold {
	struct session *session;
	int64_t until_ns;
	char lock[WORKER_NAME_MAX];
};

static int naive_open(const char *url, uint32_t command_ms, uint32_t linger_ms, void **ret_session) {
	static const char scheme[] = "unix://";
	struct session *session = calloc(1, sizeof *session);

	(void)linger_ms;
	if (!session)
		return SNECK_ENOMEM;
	if (strncmp(url, scheme, sizeof scheme - 1) != 0 || strlen(url) >= sizeof session->path) {
		free(session);
		return SNECK_EINVAL;
	}
	strcpy(session->path, url + sizeof scheme - 1);
	session->timeout = (struct timeval){ command_ms / 1000, (suseconds_t)(command_ms % 1000) * 1000 };
	pthread_mutex_init(&session->mutex, NULL);
	*ret_session = session;
	return 0;
}

static void disconnect(struct session *session) {
	if (session->context)
		redisFree(session->context);
	session->context = NULL;
}

static void naive_close(void *opaque) {
	struct session *session = opaque;

	disconnect(session);
	pthread_mutex_destroy(&session->mutex);
	free(session);
}

static bool connected(struct session *session) {
	if (session->context)
		return true;
	session->context = redisConnectUnixWithTimeout(session->path, session->timeout);
	if (session->context && !session->context->err &&
	        redisSetTimeout(session->context, session->timeout) == REDIS_OK)
		return true;
	disconnect(session);
	return false;
}

/* The type of the reply; -1: there was none. */
static int command(struct session *session, const char *format, const char *lock, long long lease_ms) {
	redisReply *reply = NULL;
	int type = -1;

	pthread_mutex_lock(&session->mutex);
	if (connected(session))
		reply = redisCommand(session->context, format, lock, lease_ms);
	if (reply)
		type = reply->type;
	else
		disconnect(session);
	freeReplyObject(reply);
	pthread_mutex_unlock(&session->mutex);
	return type;
}

static int naive_acquire(void *opaque, const char *lock, const struct worker_wish *wish, void **ret_hold) {
	struct session *session = opaque;
	int64_t deadline_ns = history_now() + wish->wait_ms * NS_PER_MS;
	struct hold *hold = calloc(1, sizeof *hold);
	int type;

	if (!hold)
		return SNECK_ENOMEM;
	while ((type = command(session, "SET %s held NX PX %lld", lock, (long long)wish->lease_ms)) ==
	        REDIS_REPLY_NIL) {
		if (history_now() >= deadline_ns) {
			free(hold);
			return wish->wait_ms ? SNECK_ETIMEDOUT : SNECK_EBUSY;
		}
		worker_sleep_us(POLL_US);
	}
	if (type != REDIS_REPLY_STATUS) {
		free(hold);
		return type < 0 ? SNECK_EUNKNOWN : SNECK_ESERVER;
	}
	hold->session = session;
	hold->until_ns = history_now() + wish->lease_ms * NS_PER_MS;
	strncpy(hold->lock, lock, sizeof hold->lock - 1);
	*ret_hold = hold;
	return 0;
}

static int naive_release(void *opaque) {
	struct hold *hold = opaque;
	int type = command(hold->session, "DEL %s", hold->lock, 0);

	free(hold);
	return type < 0 ? SNECK_EUNKNOWN : 0;
}

static int64_t naive_left_ms(void *opaque) {
	int64_t left_ns = ((struct hold *)opaque)->until_ns - history_now();

	return left_ns > 0 ? left_ns / NS_PER_MS : 0;
}

static uint64_t naive_token(void *opaque) {
	(void)opaque;
	return 0;
}

static int naive_state(void *opaque) {
	(void)opaque;
	return SNECK_HELD;
}

const struct worker_subject worker_naive = {
	.name = "naive",
	.open = naive_open,
	.close = naive_close,
	.acquire = naive_acquire,
	.release = naive_release,
	.left_ms = naive_left_ms,
	.token = naive_token,
	.state = naive_state,
};
