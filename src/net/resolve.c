/* SPDX-License-Identifier: MIT */
/* Name resolution that cannot hold up the background thread.
 *
 * getaddrinfo() may take many seconds and cannot be interrupted, while the same thread has leases to
 * renew. So it runs on a thread of its own that ends with the answer and tells through an eventfd.
 * The memory is shared by both sides and freed by whoever leaves last. Normally the asker joins the
 * thread; only when it is freed before the answer has come is the thread left to end alone, since
 * closing a client must not wait for a name server. */
#include "net/resolve.h"

#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <errno.h>

#include "base/err.h"

struct resolver {
	pthread_mutex_t mutex;
	pthread_t thread;
	bool answered;  /* under mutex: gai, sys_errno and found are valid, the thread is about to end */
	bool abandoned; /* under mutex: the asker has gone, the thread frees */
	int gai;
	int sys_errno;
	struct addresses found;
	int fd; /* eventfd */
	char port[8];
	char host[];
};

static void take(const struct addrinfo *list, struct addresses *ret) {
	ret->n = 0;
	for (; list && ret->n < RESOLVE_MAX; list = list->ai_next) {
		if (list->ai_addrlen > sizeof(ret->addr[0]))
			continue;
		memcpy(&ret->addr[ret->n], list->ai_addr, list->ai_addrlen);
		ret->len[ret->n] = list->ai_addrlen;
		ret->n++;
	}
}

static int look_up(const char *host, const char *port, int flags, struct addresses *ret) {
	struct addrinfo hints = { .ai_flags = flags | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM };
	struct addrinfo *list = NULL;
	int gai = getaddrinfo(host, port, &hints, &list);
	if (gai != 0)
		return gai;
	take(list, ret);
	freeaddrinfo(list);
	return ret->n ? 0 : EAI_NONAME;
}

bool snecki_resolve_numeric(const char *host, uint16_t port, struct addresses *ret) {
	char port_text[8];
	snprintf(port_text, sizeof(port_text), "%u", port);
	return look_up(host, port_text, AI_NUMERICHOST, ret) == 0;
}

static void destroy(struct resolver *resolver) {
	pthread_mutex_destroy(&resolver->mutex);
	close(resolver->fd);
	free(resolver);
}

static void *run(void *arg) {
	struct resolver *resolver = arg;
	struct addresses found;
	int gai = look_up(resolver->host, resolver->port, AI_ADDRCONFIG, &found);
	int sys_errno = errno;
	pthread_mutex_lock(&resolver->mutex);
	resolver->gai = gai;
	resolver->sys_errno = gai == EAI_SYSTEM ? sys_errno : 0;
	if (gai == 0)
		resolver->found = found;
	resolver->answered = true;
	bool abandoned = resolver->abandoned;
	if (!abandoned) {
		uint64_t one = 1;
		ssize_t n = write(resolver->fd, &one, sizeof(one));
		(void)n; /* an eventfd at zero takes it */
	}
	pthread_mutex_unlock(&resolver->mutex);
	if (abandoned)
		destroy(resolver);
	return NULL;
}

/* The program's signals are for the program's threads. */
static int start_thread(struct resolver *resolver) {
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int r = pthread_create(&resolver->thread, NULL, run, resolver);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return r;
}

int snecki_resolver_new(const char *host, uint16_t port, struct resolver **ret, struct sneck_error *reterr) {
	struct resolver *resolver = calloc(1, sizeof(*resolver) + strlen(host) + 1);
	if (!resolver)
		return snecki_err(reterr, SNECK_ENOMEM, "out of memory");
	strcpy(resolver->host, host);
	snprintf(resolver->port, sizeof(resolver->port), "%u", port);
	resolver->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (resolver->fd < 0) {
		int r = snecki_err_sys(reterr, SNECK_ESYS, errno, "eventfd");
		free(resolver);
		return r;
	}
	pthread_mutex_init(&resolver->mutex, NULL);
	int failed = start_thread(resolver);
	if (failed) {
		destroy(resolver);
		return snecki_err_sys(reterr, SNECK_ESYS, failed, "cannot start a thread");
	}
	*ret = resolver;
	return 0;
}

int snecki_resolver_fd(const struct resolver *resolver) {
	return resolver->fd;
}

int snecki_resolver_result(struct resolver *resolver, struct addresses *ret, struct sneck_error *reterr) {
	pthread_mutex_lock(&resolver->mutex);
	bool answered = resolver->answered;
	pthread_mutex_unlock(&resolver->mutex);
	if (!answered)
		return 0;
	if (resolver->gai == 0) {
		*ret = resolver->found;
		return 1;
	}
	if (resolver->gai == EAI_SYSTEM)
		return snecki_err_sys(reterr, SNECK_ECONN, resolver->sys_errno,
		        "cannot find the address of host %s", resolver->host);
	return snecki_err(reterr, SNECK_ECONN, "cannot find the address of host %s: %s; is the name right?",
	        resolver->host, gai_strerror(resolver->gai));
}

void snecki_resolver_free(struct resolver *resolver) {
	if (!resolver)
		return;
	pthread_t thread = resolver->thread;
	pthread_mutex_lock(&resolver->mutex);
	bool answered = resolver->answered;
	resolver->abandoned = true;
	pthread_mutex_unlock(&resolver->mutex);
	if (answered) {
		pthread_join(thread, NULL);
		destroy(resolver);
	} else {
		pthread_detach(thread);
	}
}
