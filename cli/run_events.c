/* SPDX-License-Identifier: MIT */
/* Lines for programs: {"schema":1,"event":"acquired","time":"2026-11-15T10:00:00.123Z",…}. Times are
 * RFC 3339 in UTC, durations integer milliseconds. A reader that does not read must not hold up
 * the lease: a line for which there is no room is dropped. A name that is no UTF-8 is also there as
 * name_hex, byte by byte. */
#include "run_events.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>
#include <sneck/sneck.h>

enum { SCHEMA = 1, FIRST_OWN_FD = 3 };

void run_events_init(
        struct run_events *events, int fd, const char *name, const char *mode, const char *server) {
	*events = (struct run_events){ .fd = fd, .name = name, .mode = mode, .server = server };
	if (fd >= FIRST_OWN_FD)
		(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
}

static void set_time(json_t *object) {
	struct timespec now;
	struct tm utc;
	char text[64];

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &utc);
	size_t len = strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &utc);
	snprintf(text + len, sizeof(text) - len, ".%03ldZ", now.tv_nsec / 1000000);
	json_object_set_new(object, "time", json_string(text));
}

static void set_text(json_t *object, const char *key, const char *text) {
	json_t *value = json_string(text);
	char *hex;
	char hex_key[32];
	size_t len = strlen(text);

	if (value) {
		json_object_set_new(object, key, value);
		return;
	}
	hex = calloc(2 * len + 1, 1);
	for (size_t i = 0; hex && i < len; i++)
		snprintf(hex + 2 * i, 3, "%02x", (unsigned char)text[i]);
	snprintf(hex_key, sizeof(hex_key), "%s_hex", key);
	if (hex)
		json_object_set_new(object, hex_key, json_string(hex));
	free(hex);
}

/* NULL: nobody listens. */
static json_t *begin(const struct run_events *events, const char *event) {
	if (events->fd < 0)
		return NULL;
	json_t *object = json_object();
	json_object_set_new(object, "schema", json_integer(SCHEMA));
	json_object_set_new(object, "event", json_string(event));
	set_time(object);
	set_text(object, "name", events->name);
	json_object_set_new(object, "mode", json_string(events->mode));
	set_text(object, "server", events->server);
	return object;
}

static void set_number(json_t *object, const char *key, int64_t number) {
	json_object_set_new(object, key, json_integer(number));
}

static void finish(const struct run_events *events, json_t *object) {
	struct pollfd room = { .fd = events->fd, .events = POLLOUT };
	char *text = json_dumps(object, JSON_COMPACT | JSON_PRESERVE_ORDER);
	char *line = NULL;
	int len = text ? asprintf(&line, "%s\n", text) : -1;

	if (len > 0 && poll(&room, 1, 0) == 1 && (room.revents & POLLOUT))
		(void)!write(events->fd, line, (size_t)len);
	if (len > 0)
		free(line);
	free(text);
	json_decref(object);
}

void run_events_waiting(const struct run_events *events) {
	json_t *object = begin(events, "waiting");

	if (object)
		finish(events, object);
}

void run_events_acquired(const struct run_events *events, const char *id, uint64_t token, int64_t waited_ms,
        int64_t lease_ms) {
	json_t *object = begin(events, "acquired");

	if (!object)
		return;
	set_text(object, "id", id);
	set_number(object, "token", (int64_t)token);
	set_number(object, "waited_ms", waited_ms);
	set_number(object, "lease_ms", lease_ms);
	finish(events, object);
}

void run_events_refused(const struct run_events *events, int code) {
	json_t *object = begin(events, "refused");

	if (!object)
		return;
	set_text(object, "code", sneck_err_name(code));
	finish(events, object);
}

void run_events_state(const struct run_events *events, int state, int64_t left_ms) {
	static const char *const names[] = { [SNECK_HELD] = "held",
		[SNECK_SUSPECT] = "suspect",
		[SNECK_LOST] = "lost",
		[SNECK_BROKEN] = "lost" };
	json_t *object = begin(events, names[state]);

	if (!object)
		return;
	if (state == SNECK_LOST || state == SNECK_BROKEN)
		set_text(object, "cause", state == SNECK_BROKEN ? "broken" : "lost");
	set_number(object, "left_ms", left_ms);
	finish(events, object);
}

void run_events_released(const struct run_events *events, int64_t held_ms, int exit_code, int result) {
	json_t *object = begin(events, "released");

	if (!object)
		return;
	set_number(object, "held_ms", held_ms);
	set_number(object, "exit", exit_code);
	set_text(object, "result", result == 0 ? "released" : sneck_err_name(result));
	finish(events, object);
}
