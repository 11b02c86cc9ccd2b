/* SPDX-License-Identifier: MIT */
/* The thread beside the threads that take turns. It cancels their waits when a seed says so; it sees the
 * notice of a loss while a thread is inside a call on the hold and cannot look itself; and it notices when
 * this process was not scheduled, which excuses what came late. */
#include "worker.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include <sneck/sneck.h>

#include "stall.h"

enum { STALL_NS = 20000000, LOOK_NS = 40000000, ROUND_US = 500, QUIET_ROUND_US = 2000 };

/* ---- Cancelling ---------------------------------------------------------------------------------*/

static void cancel_if_due(struct worker *worker, struct board_thread *place) {
	uint64_t at_ns = atomic_load(&place->cancel_at_ns);
	if (at_ns == 0 || (uint64_t)history_now() < at_ns ||
	        !atomic_compare_exchange_strong(&place->cancel_at_ns, &at_ns, 0))
		return;
	uint64_t tag = atomic_load(&place->cancel_tag);
	struct history_record form = {
		.op = HISTORY_CANCEL, .lock = atomic_load(&place->lock), .actor = (uint32_t)(tag >> 32)
	};
	struct history_record *record = history_begin(worker->history, &form);
	history_end(record, worker->config.subject->cancel(worker->session, tag));
}

/* ---- Watching holds -----------------------------------------------------------------------------*/

/* The descriptor is copied: the hold's own may be closed by the call that is under way. */
static int copy_descriptor(struct worker_thread *thread, struct worker_hold *hold) {
	const struct worker_subject *subject = thread->worker->config.subject;
	int fd = subject->fd && hold->state_told == SNECK_HELD ? subject->fd(hold->handle) : -1;
	return fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

void worker_watch(struct worker_thread *thread, struct worker_hold *hold, bool ends) {
	struct worker_attendant *attendant = &thread->worker->attendant;
	int fd = ends ? copy_descriptor(thread, hold) : -1;
	pthread_mutex_lock(&attendant->mutex);
	attendant->watches[thread->index] = (struct worker_watch){ .thread = thread,
		.hold = ends ? NULL : hold,
		.fd = fd,
		.form = { .op = HISTORY_STATE,
		        .lock = hold->lock,
		        .actor = thread->actor,
		        .hold = hold->number,
		        .mode = (uint8_t)hold->mode,
		        .flags = hold->flags,
		        .detail = HISTORY_NOT_HELD,
		        .result = SNECK_SUSPECT } };
	pthread_mutex_unlock(&attendant->mutex);
}

void worker_unwatch(struct worker_thread *thread) {
	struct worker_attendant *attendant = &thread->worker->attendant;
	struct worker_watch *watch = &attendant->watches[thread->index];
	pthread_mutex_lock(&attendant->mutex);
	if (watch->fd >= 0)
		close(watch->fd);
	*watch = (struct worker_watch){ .fd = -1 };
	pthread_mutex_unlock(&attendant->mutex);
}

/* As its thread would. */
static void look(struct worker *worker, struct worker_watch *watch) {
	struct pollfd pfd = { .fd = watch->fd, .events = POLLIN };
	if (watch->hold) {
		(void)worker_look(watch->thread, watch->hold, 0);
	} else if (watch->fd >= 0 && poll(&pfd, 1, 0) > 0) {
		/* It is no longer HELD; what it is, the thread will see itself. */
		history_mark(worker->history, &watch->form);
		close(watch->fd);
		watch->fd = -1;
	}
}

static void watch_holds(struct worker *worker) {
	pthread_mutex_lock(&worker->attendant.mutex);
	for (uint32_t i = 0; i < worker->config.threads; i++)
		if (worker->attendant.watches[i].thread)
			look(worker, &worker->attendant.watches[i]);
	pthread_mutex_unlock(&worker->attendant.mutex);
}

/* ---- Times when this process was ready to run and did not -----------------------------------------*/

static void note_stall(struct worker *worker, int64_t from_ns) {
	struct history_record form = { .op = HISTORY_FAULT,
		.lock = HISTORY_ALL,
		.token = (uint64_t)getpid(),
		.flags = HISTORY_STOPPED,
		.detail = WORKER_STALL,
		.result = 1,
		.invoke_ns = from_ns };
	history_mark(worker->history, &form);
}

/* One thread of this process, perhaps the library's own, was ready and not scheduled, while others may have
 * been: nobody here is to blame for what came late in that time. */
static void look_at_scheduling(struct worker *worker, struct stall_watch *watch) {
	int64_t now_ns = history_now(), looked_ns = watch->looked_ns;
	if (now_ns - looked_ns < LOOK_NS)
		return;
	int64_t longest_ns = stall_look(watch, now_ns);
	if (longest_ns < STALL_NS || looked_ns == 0)
		return;
	atomic_fetch_add(&worker->place->stalled_ns, (uint64_t)longest_ns);
	note_stall(worker, now_ns - longest_ns < looked_ns ? now_ns - longest_ns : looked_ns);
}

/* ---- The thread ---------------------------------------------------------------------------------*/

static void *attend(void *arg) {
	struct worker *worker = arg;
	struct stall_watch scheduling = { .pid = getpid() };
	bool cancels = worker->config.subject->cancel && worker->config.races == 0 && !worker->config.plain;
	while (!atomic_load(&worker->attendant.stop)) {
		for (uint32_t i = 0; cancels && i < worker->config.threads; i++)
			cancel_if_due(worker, &worker->place->threads[i]);
		watch_holds(worker);
		int64_t from_ns = history_now();
		worker_sleep_us(cancels ? ROUND_US : QUIET_ROUND_US);
		/* Slept for much longer than it wanted to: stopped, or the same. */
		if (history_now() - from_ns >= STALL_NS)
			note_stall(worker, from_ns);
		look_at_scheduling(worker, &scheduling);
	}
	return NULL;
}

void worker_attend(struct worker *worker) {
	pthread_mutex_init(&worker->attendant.mutex, NULL);
	for (int i = 0; i < BOARD_THREADS; i++)
		worker->attendant.watches[i].fd = -1;
	if (pthread_create(&worker->attendant.thread, NULL, attend, worker) != 0)
		abort();
}

void worker_dismiss(struct worker *worker) {
	atomic_store(&worker->attendant.stop, true);
	pthread_join(worker->attendant.thread, NULL);
	pthread_mutex_destroy(&worker->attendant.mutex);
}
