/* SPDX-License-Identifier: MIT */
/* The life of a client: open, start, connect, close, and what is left of it in a forked child. */
#include "client/client.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/options.h"
#include "base/random.h"
#include "net/tls.h"
#include "topology/local.h"

/* While a slot is being moved a message may not reach those who wait, who find their grant by the heartbeat:
 * with it a quarter late they have slept for less than a second. */
enum { CLUSTER_BEAT_MS = 700 };

/* ---- Fork ---------------------------------------------------------------------------------------*/

/* A page that the kernel gives a forked child as zeros: asking costs one load. */
static int make_fork_page(sneck_client *client) {
	long size = sysconf(_SC_PAGESIZE);
	void *page = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return SNECK_ENOMEM;
	if (madvise(page, (size_t)size, MADV_WIPEONFORK) != 0) {
		munmap(page, (size_t)size);
		return SNECK_ESYS;
	}
	client->fork_page = page;
	client->fork_page[0] = 1;
	return 0;
}

/* ---- The session --------------------------------------------------------------------------------*/

/* host:pid:random; the host is cut at the first dot and to 14 characters that need no quoting. */
static int make_session(sneck_client *client, const char *host) {
	static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
	char own[256] = "", clean[15];
	unsigned char random[12];
	char tail[sizeof random + 1];
	size_t n = 0;

	if (!host && gethostname(own, sizeof own - 1) == 0)
		host = own;
	for (const char *at = host ? host : ""; *at && *at != '.' && n < sizeof clean - 1; at++) {
		bool plain = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') ||
		             (*at >= '0' && *at <= '9') || *at == '-' || *at == '_';
		clean[n++] = plain ? *at : '_';
	}
	if (n == 0)
		clean[n++] = '_';
	clean[n] = '\0';
	int r = snecki_random_bytes(random, sizeof random);
	if (r < 0)
		return r;
	for (size_t i = 0; i < sizeof random; i++)
		tail[i] = digits[random[i] % 36];
	tail[sizeof random] = '\0';
	snprintf(client->session_id, sizeof client->session_id, "%s:%d:%s", clean, (int)getpid(), tail);
	return 0;
}

/* A random UUID (version 4), for layouts that name sessions so. */
static int make_uuid(sneck_client *client) {
	unsigned char bytes[16];
	int r = snecki_random_bytes(bytes, sizeof bytes);

	if (r < 0)
		return r;
	bytes[6] = (unsigned char)(0x40 | (bytes[6] & 0x0f));
	bytes[8] = (unsigned char)(0x80 | (bytes[8] & 0x3f));
	char *at = client->uuid;
	for (size_t i = 0; i < sizeof bytes; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*at++ = '-';
		at += snprintf(at, 3, "%02x", bytes[i]);
	}
	return 0;
}

/* The URL says it, or the options do; both must not differ. */
static int set_dialect(sneck_client *client, const sneck_client_options *options, sneck_error *reterr) {
	const char *by_url = client->url.dialect, *by_option = options->dialect;

	if (by_url && by_option && strcmp(by_url, by_option) != 0)
		return snecki_err(reterr, SNECK_EINVAL,
		        "the URL says dialect=%s, the options say %s; name it once", by_url, by_option);
	client->dialect = snecki_dialect_find(by_url ? by_url : by_option, reterr);
	if (!client->dialect)
		return SNECK_EINVAL;
	if (options->linger_ms && client->dialect->traits.polls)
		return snecki_err(reterr, SNECK_ENOTSUP,
		        "%s locks cannot linger: nobody could ask for them back", client->dialect->name);
	if (options->ack_replicas && options->ack_replicas != SNECK_ACK_OFF &&
	        client->dialect != &snecki_native)
		return snecki_err(reterr, SNECK_ENOTSUP, "replicas can acknowledge native locks only, not %s",
		        client->dialect->name);
	const char *prefix = client->url.prefix ? client->url.prefix : options->prefix;
	if (prefix && client->dialect == &snecki_native)
		return snecki_err(reterr, SNECK_EINVAL,
		        "the native dialect has namespaces instead of a prefix; use name_space");
	client->prefix = prefix ? strdup(prefix) : NULL;
	if (prefix && !client->prefix)
		return snecki_err(reterr, SNECK_ENOMEM, "out of memory");
	return 0;
}

/* ---- Open ---------------------------------------------------------------------------------------*/

#define OPEN_FLAGS ((uint32_t)SNECK_OPEN_CONNECT | SNECK_OPEN_VERIFY_GRANTS)

static int check_options(const sneck_client_options *options, sneck_error *reterr) {
	const char *name_space = options->name_space;

	if (options->policy > SNECK_POLICY_PREFER_WRITERS)
		return snecki_err(reterr, SNECK_EINVAL,
		        "policy %u is unknown; use SNECK_POLICY_FAIR or SNECK_POLICY_PREFER_WRITERS",
		        options->policy);
	if (options->flags & ~OPEN_FLAGS)
		return snecki_err(reterr, SNECK_EINVAL, "flags 0x%x are unknown to this version (%s)",
		        options->flags & ~OPEN_FLAGS, SNECK_VERSION);
	if (options->lease_ms &&
	        (options->lease_ms < SNECK_LEASE_MIN_MS || options->lease_ms > SNECK_LEASE_MAX_MS))
		return snecki_err(reterr, SNECK_EINVAL, "a lease lasts %d ms to %d ms (7 days)",
		        SNECK_LEASE_MIN_MS, SNECK_LEASE_MAX_MS);
	if (options->linger_ms < 0 || options->linger_ms > SNECK_LEASE_MAX_MS)
		return snecki_err(
		        reterr, SNECK_EINVAL, "linger_ms is 0 to %d ms (7 days)", SNECK_LEASE_MAX_MS);
	if (!name_space)
		return 0;
	if (!name_space[0] || strlen(name_space) > SNECK_NAMESPACE_MAX)
		return snecki_err(reterr, SNECK_EINVAL, "a namespace has 1 to %d bytes", SNECK_NAMESPACE_MAX);
	if (name_space[strcspn(name_space, "{}%")])
		return snecki_err(reterr, SNECK_EINVAL, "a namespace must not contain '{', '}' or '%%'");
	return 0;
}

static int replace(char **at, const char *text) {
	char *copy = strdup(text);

	if (!copy)
		return SNECK_ENOMEM;
	free(*at);
	*at = copy;
	return 0;
}

static int set_url(
        sneck_client *client, const char *url, const sneck_client_options *options, sneck_error *reterr) {
	int r = snecki_url_parse(url, &client->url, reterr);

	if (r < 0)
		return r;
	if ((options->user && replace(&client->url.user, options->user) < 0) ||
	        (options->password && replace(&client->url.password, options->password) < 0) ||
	        (options->sentinel_user && replace(&client->url.sentinel_user, options->sentinel_user) < 0) ||
	        (options->sentinel_password &&
	                replace(&client->url.sentinel_password, options->sentinel_password) < 0))
		return snecki_err(reterr, SNECK_ENOMEM, "out of memory");
	snecki_url_display(&client->url, client->display, sizeof client->display);
	if (client->url.tls) {
		r = snecki_tls_context_new(&client->url, &client->tls, reterr);
		if (r < 0)
			return r;
	}
	client->server = client->url; /* borrows; `local:` gets its path when it is started */
	return 0;
}

static uint32_t or_default(uint32_t value, uint32_t standard) {
	return value ? value : standard;
}

static void set_options(sneck_client *client, const sneck_client_options *options) {
	client->connect_ms = or_default(options->connect_ms, SNECK_CONNECT_DEFAULT_MS);
	client->command_ms = or_default(options->command_ms, SNECK_COMMAND_DEFAULT_MS);
	client->policy = or_default(options->policy, SNECK_POLICY_FAIR);
	client->flags = options->flags;
	client->lease_ms = options->lease_ms ? options->lease_ms : SNECK_LEASE_DEFAULT_MS;
	client->linger_ms = options->linger_ms;
	client->ack_replicas = options->ack_replicas == SNECK_ACK_OFF ? 0 : options->ack_replicas;
	client->ack_ms = options->ack_ms;
	client->handover_max = options->handover_max == SNECK_HANDOVER_OFF
	                               ? 0
	                               : or_default(options->handover_max, SNECK_HANDOVER_MAX);
	client->handover_ms = or_default(options->handover_ms, SNECK_HANDOVER_MS);
	bool one_server = client->url.kind != URL_SENTINEL && client->url.kind != URL_CLUSTER;
	client->skew_ms = or_default(options->skew_ms, SNECK_SKEW_MS);
	if (one_server || options->skew_ms == SNECK_SKEW_NONE)
		client->skew_ms = 0;
	client->session = (struct dialect_session){
		.name_space = client->name_space,
		.id = client->session_id,
		.keep_ms = or_default(options->keep_ms, SNECK_KEEP_MS),
		.bury_ms = SNECK_BURY_MS,
		.uuid = client->uuid,
		.prefix = client->prefix ? client->prefix : "",
		.sharded = client->url.kind == URL_CLUSTER,
	};
}

/* The public log function has an enum where base has an int. */
struct log_bridge {
	sneck_log_fn fn;
	void *ctx;
};

static void bridge_log(void *ctx, int level, const char *text) {
	const struct log_bridge *bridge = ctx;
	bridge->fn(bridge->ctx, (sneck_log_level)level, text);
}

static int set_log(sneck_client *client, const sneck_client_options *options) {
	if (!options->log_fn)
		return 0;
	struct log_bridge *bridge = malloc(sizeof *bridge);
	if (!bridge)
		return SNECK_ENOMEM;
	*bridge = (struct log_bridge){ options->log_fn, options->log_ctx };
	client->log.fn = bridge_log;
	client->log.ctx = bridge;
	client->log.level = options->log_level ? (int)options->log_level : LOG_WARN_;
	return 0;
}

static int make_core(sneck_client *client) {
	struct lock_core_config config = {
		.hooks = &snecki_client_hooks,
		.ctx = client,
		.call_extra = snecki_client_call_extra(),
		.session = client->session_id,
		.wait_lease_ms = SNECK_WAITER_LEASE_MS,
		.beat_ms = client->session.sharded ? CLUSTER_BEAT_MS : SNECK_WAITER_BEAT_MS,
		.lock_channels = client->session.sharded,
		.handover_max = client->handover_max,
		.skew_ms = client->skew_ms,
		.handover_ns = client->handover_ms * NS_PER_MS,
		.verify_grants = (client->flags & SNECK_OPEN_VERIFY_GRANTS) != 0,
		.layout = &client->dialect->traits,
		.seed = snecki_random_u64(),
	};
	return snecki_core_new(&config, &client->core);
}

static void init_members(sneck_client *client) {
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&client->changed, &attr);
	pthread_cond_init(&client->sent, NULL);
	pthread_condattr_destroy(&attr);
	pthread_mutex_init(&client->mutex, NULL);
	pthread_mutex_init(&client->send_mutex, NULL);
	pthread_mutex_init(&client->defer_mutex, NULL);
	snecki_list_init(&client->outbox);
	snecki_list_init(&client->line);
	snecki_list_init(&client->done);
	snecki_list_init(&client->late);
	snecki_list_init(&client->holds);
	snecki_list_init(&client->events);
	snecki_list_init(&client->deferred);
	snecki_list_init(&client->threads);
	client->background_due_ns = NS_NEVER;
	atomic_init(&client->submitter, 0);
	atomic_init(&client->submitted, 0);
	client->event_fd = -1;
	client->wake_fd = -1;
}

static void free_client(sneck_client *client) {
	LIST_EACH (at, &client->holds) {
		sneck_hold *hold = LIST_ITEM(at, sneck_hold, all);
		snecki_list_remove(at);
		if (hold->fd >= 0)
			close(hold->fd);
		snecki_list_remove(&hold->news.node);
		free(hold->reason);
		free(hold);
	}
	snecki_events_free(client);
	snecki_core_free(client->core);
	if (client->event_fd >= 0)
		close(client->event_fd);
	if (client->wake_fd >= 0)
		close(client->wake_fd);
	if (client->fork_page)
		munmap(client->fork_page, (size_t)sysconf(_SC_PAGESIZE));
	if (client->server.path != client->url.path)
		free(client->server.path);
	snecki_tls_context_free(client->tls);
	snecki_url_done(&client->url);
	snecki_record_done(client);
	free(client->name_space);
	free(client->prefix);
	free(client->log.ctx);
	free(client);
}

static int build(
        sneck_client *client, const char *url, const sneck_client_options *options, sneck_error *reterr) {
	int r = set_url(client, url, options, reterr);

	if (r == 0)
		r = set_dialect(client, options, reterr);
	if (r < 0)
		return r;
	client->name_space = strdup(options->name_space ? options->name_space : "sneck");
	client->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	client->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (client->event_fd < 0 || client->wake_fd < 0)
		return snecki_err_sys(reterr, SNECK_ESYS, errno, "cannot make an eventfd");
	set_options(client, options);
	snecki_record_init(client, options);
	if (!client->name_space || set_log(client, options) < 0)
		return snecki_err(reterr, SNECK_ENOMEM, "out of memory");
	if (client->url.verify_none)
		snecki_log(&client->log, LOG_WARN_,
		        "verify=none: the certificate of %s is not looked at; anybody may pose as it",
		        client->display);
	r = make_fork_page(client);
	if (r < 0)
		return snecki_err_sys(reterr, r, errno, "cannot set up the detection of fork()");
	r = make_session(client, options->session_host);
	if (r == 0)
		r = make_uuid(client);
	if (r == 0)
		r = snecki_client_threads_begin(client);
	if (r == 0)
		r = make_core(client);
	return r < 0 ? snecki_err(reterr, r, "%s", sneck_strerror(r)) : 0;
}

int snecki_client_open(
        const char *url, const sneck_client_options *options, sneck_client **ret, sneck_error *reterr) {
	int r = check_options(options, reterr);

	if (r < 0)
		return r;
	sneck_client *client = calloc(1, sizeof *client);
	if (!client)
		return snecki_err(reterr, SNECK_ENOMEM, "out of memory");
	init_members(client);
	r = build(client, url, options, reterr);
	if (r == 0 && (client->flags & SNECK_OPEN_CONNECT))
		r = snecki_client_connect(client, reterr);
	if (r < 0) {
		snecki_client_close(client);
		return r;
	}
	*ret = client;
	return 0;
}

/* ---- Start --------------------------------------------------------------------------------------*/

static int find_local(sneck_client *client, int64_t deadline_ns, sneck_error *reterr) {
	char path[128];
	int r = snecki_local_ensure(path, sizeof path, deadline_ns, reterr);

	if (r < 0 || client->server.kind == URL_UNIX)
		return r;
	char *copy = strdup(path);
	if (!copy)
		return snecki_err(reterr, SNECK_ENOMEM, "out of memory");
	client->server.kind = URL_UNIX;
	client->server.path = copy;
	return 0;
}

/* Signals are the program's affair: none is delivered on our thread. */
static int start_thread(sneck_client *client) {
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int r = pthread_create(&client->background, NULL, snecki_client_background, client);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return r;
}

static int start_locked(sneck_client *client, int64_t deadline_ns, sneck_error *reterr) {
	if (client->started)
		return 0;
	if (client->closing)
		return snecki_err(reterr, SNECK_ECLOSED, "the client is being closed");
	if (client->url.kind == URL_LOCAL) {
		int r = find_local(client, deadline_ns, reterr);
		if (r < 0)
			return r;
	}
	if (!client->servers) {
		int r = snecki_client_links(client);
		if (r < 0)
			return snecki_err(reterr, r, "%s", sneck_strerror(r));
	}
	int r = start_thread(client);
	if (r != 0)
		return snecki_err_sys(reterr, SNECK_ESYS, r, "cannot start the background thread");
	atomic_store(&client->started, true);
	return 0;
}

int snecki_client_start(sneck_client *client, int64_t deadline_ns, sneck_error *reterr) {
	if (!atomic_load(&client->started)) {
		pthread_mutex_lock(&client->mutex);
		int r = start_locked(client, deadline_ns, reterr);
		pthread_mutex_unlock(&client->mutex);
		return r;
	}
	/* The private server may have been stopped since: it is started again on demand. */
	if (client->url.kind == URL_LOCAL && !snecki_servers_up(client->servers))
		return find_local(client, deadline_ns, reterr);
	return 0;
}

/* The cheapest question there is: one whose answer tells that commands flow. */
int snecki_client_connect(sneck_client *client, sneck_error *reterr) {
	int64_t deadline_ns = snecki_after_ms(snecki_now_ns(), client->connect_ms + client->command_ms);
	int r = snecki_client_start(client, deadline_ns, reterr);

	if (r < 0)
		return r;
	snecki_servers_want(client->servers);
	pthread_mutex_lock(&client->mutex);
	while (client->down.code == 0 && !snecki_servers_up(client->servers))
		if (!snecki_client_await_change(client, deadline_ns))
			break;
	struct sneck_error down = client->down;
	pthread_mutex_unlock(&client->mutex);
	if (snecki_servers_up(client->servers))
		return 0;
	if (down.code == 0)
		return snecki_err(reterr, SNECK_ECONN, "no connection to %s in time", client->display);
	if (reterr)
		*reterr = down;
	return down.code;
}

bool snecki_client_await_change(sneck_client *client, int64_t deadline_ns) {
	struct timespec until;

	if (snecki_now_ns() >= deadline_ns)
		return false;
	snecki_monotonic_deadline(deadline_ns, &until);
	pthread_cond_timedwait(&client->changed, &client->mutex, &until);
	return true;
}

int snecki_client_enter(sneck_client *client, int64_t deadline_ns, sneck_error *reterr) {
	if (snecki_client_forked(client))
		return snecki_err(reterr, SNECK_EFORKED, "%s", sneck_strerror(SNECK_EFORKED));
	snecki_client_count_in(client);
	int r = snecki_client_start(client, deadline_ns, reterr);
	if (r < 0)
		snecki_client_leave(client);
	return r;
}

void snecki_client_leave(sneck_client *client) {
	if (!atomic_load(&client->closing)) {
		atomic_fetch_sub(&client->inside, 1);
		return;
	}
	pthread_mutex_lock(&client->mutex);
	atomic_fetch_sub(&client->inside, 1);
	pthread_cond_broadcast(&client->changed);
	pthread_mutex_unlock(&client->mutex);
}

/* ---- Close --------------------------------------------------------------------------------------*/

/* Let the server hear of the releases, for as long as one command may take. */
static void say_goodbye(sneck_client *client) {
	int64_t deadline_ns = snecki_after_ms(snecki_now_ns(), client->command_ms);

	snecki_client_lock(client);
	atomic_store(&client->closing, true);
	snecki_core_close(client->core, snecki_now_ns());
	snecki_client_unlock(client);
	snecki_sent_await_all(client); /* another thread may be sending the releases */
	snecki_record_end(client);     /* behind them: a holder is known to the end */
	pthread_mutex_lock(&client->mutex);
	while ((!snecki_core_idle(client->core) || client->record.busy) && client->down.code == 0)
		if (!snecki_client_await_change(client, deadline_ns))
			break;
	/* Calls of other threads have been ended; they need no more than to get out. One that had not
	 * seen `closing` when it left does not tell, hence the short steps. */
	while (atomic_load(&client->inside) != client->left)
		snecki_client_await_change(client, snecki_after_ms(snecki_now_ns(), 5));
	pthread_mutex_unlock(&client->mutex);
}

void snecki_client_close(sneck_client *client) {
	snecki_client_threads_end(client);
	if (client->started) {
		say_goodbye(client);
		atomic_store(&client->stop, true);
		snecki_client_wake(client);
		pthread_join(client->background, NULL);
	}
	if (client->servers) {
		snecki_send_rest(client);
		snecki_servers_close(client->servers); /* answers what is left: the core frees the calls */
		snecki_client_run_deferred(client);
		snecki_servers_free(client->servers);
	}
	pthread_cond_destroy(&client->changed);
	pthread_mutex_destroy(&client->mutex);
	pthread_cond_destroy(&client->sent);
	pthread_mutex_destroy(&client->send_mutex);
	pthread_mutex_destroy(&client->defer_mutex);
	free_client(client);
}

void snecki_client_abandon(sneck_client *client) {
	/* No thread of the parent exists here, and its mutexes may be locked for ever: just free. */
	if (client->have_key)
		pthread_key_delete(client->thread_key);
	snecki_servers_abandon(client->servers);
	free_client(client);
}
