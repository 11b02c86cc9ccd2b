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

enum { STALL_NS = 20000000, ROUND_US = 500, QUIET_ROUND_US = 2000 };

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
void worker_watch(struct worker_thread *thread, const struct worker_hold *hold) {
	struct worker_attendant *attendant = &thread->worker->attendant;
	const struct worker_subject *subject = thread->worker->config.subject;
	int fd = subject->fd && hold->state_told == SNECK_HELD ? subject->fd(hold->handle) : -1;
	if (fd < 0 || (fd = fcntl(fd, F_DUPFD_CLOEXEC, 0)) < 0)
		return;
	pthread_mutex_lock(&attendant->mutex);
	attendant->watches[thread->index] = (struct worker_watch){ .fd = fd,
		.form = { .op = HISTORY_STATE,
		        .lock = hold->lock,
		        .actor = thread->actor,
		        .hold = hold->number,
		        .mode = (uint8_t)hold->mode,
		        .flags = hold->flags,
		        .result = SNECK_SUSPECT } };
	pthread_mutex_unlock(&attendant->mutex);
}

void worker_unwatch(struct worker_thread *thread) {
	struct worker_attendant *attendant = &thread->worker->attendant;
	struct worker_watch *watch = &attendant->watches[thread->index];
	pthread_mutex_lock(&attendant->mutex);
	if (watch->fd >= 0)
		close(watch->fd);
	watch->fd = -1;
	pthread_mutex_unlock(&attendant->mutex);
}

/* The descriptor says that the hold is no longer HELD; which state it is the thread will see itself. */
static void watch_holds(struct worker *worker) {
	struct worker_attendant *attendant = &worker->attendant;
	pthread_mutex_lock(&attendant->mutex);
	for (uint32_t i = 0; i < worker->config.threads; i++) {
		struct worker_watch *watch = &attendant->watches[i];
		struct pollfd pfd = { .fd = watch->fd, .events = POLLIN };
		if (watch->fd < 0 || poll(&pfd, 1, 0) <= 0)
			continue;
		history_mark(worker->history, &watch->form);
		close(watch->fd);
		watch->fd = -1;
	}
	pthread_mutex_unlock(&attendant->mutex);
}

/* ---- The thread ---------------------------------------------------------------------------------*/

/* Wanted to sleep for a moment and slept long: nobody here is to blame for what came late in that time. */
static void note_stall(struct worker *worker, int64_t slept_from_ns) {
	if (history_now() - slept_from_ns < STALL_NS)
		return;
	struct history_record form = { .op = HISTORY_FAULT,
		.lock = HISTORY_ALL,
		.token = (uint64_t)getpid(),
		.flags = HISTORY_STOPPED,
		.detail = WORKER_STALL,
		.result = 1,
		.invoke_ns = slept_from_ns };
	history_mark(worker->history, &form);
}

static void *attend(void *arg) {
	struct worker *worker = arg;
	bool cancels = worker->config.subject->cancel && worker->config.races == 0 && !worker->config.plain;
	while (!atomic_load(&worker->attendant.stop)) {
		for (uint32_t i = 0; cancels && i < worker->config.threads; i++)
			cancel_if_due(worker, &worker->place->threads[i]);
		watch_holds(worker);
		int64_t from_ns = history_now();
		worker_sleep_us(cancels ? ROUND_US : QUIET_ROUND_US);
		note_stall(worker, from_ns);
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
