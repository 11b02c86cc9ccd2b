/* SPDX-License-Identifier: MIT */
/* sneck doctor: is this server fit for locks?
 *
 * Each check is a line: PASS, WARN or FAIL, what was found, and for the latter two what to do. FAIL means
 * that locks do not work, WARN that they work but can be lost or late. The last check takes a lock of
 * its own, for whatever the others overlook. What stands beside the server, for the time when it fails, is
 * looked at in doctor_failover.c. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "doctor.h"
#include "exit.h"
#include "lock_view.h"
#include "rights.h"
#include "server_url.h"
#include "talk.h"

enum {
	ID_ROLE = 1,
	ID_LEASE,
	SLOW_RTT_US = 20000,
	SLOW_MESSAGE_US = 100000,
	CLOCK_MS = 1000,
	LEASE_MS = 2000,
	PAIRS = 21, /* locks taken and released; the middle one counts */
	EXIT_WARN = 1,
	EXIT_FAIL = 2
};

static const char *const result_names[] = { "PASS", "WARN", "FAIL" };
static const char *const result_words[] = { "pass", "warn", "fail" };

static const struct option_row options[] = {
	{ "role", 0, ROLE_VALUES, "what the user shall be able to do (default: holder)", ID_ROLE, 0 },
	{ "lease", 0, "TIME", "the lease that shall outlive a failover (default: 30s)", ID_LEASE, 0 },
	{ NULL, 0, NULL, NULL, 0, 0 },
};

static int take(void *ctx, const struct option_row *row, char *value) {
	struct doctor *doctor = ctx;

	if (row->id == ID_LEASE)
		return option_duration(&command_doctor, row, value, &doctor->lease_ms);
	doctor->role = role_of(value);
	return OPTIONS_OK;
}

/* ---- Findings -------------------------------------------------------------------------------*/

static void print_finding(const struct doctor *doctor, const char *check, enum result result,
        const char *text, const char *remedy) {
	static const char *const colors[] = { "\033[32m", "\033[33m", "\033[31m" };

	printf("%s%s%s  %-12s%s\n", doctor->color ? colors[result] : "", result_names[result],
	        doctor->color ? "\033[0m" : "", check, text);
	if (remedy)
		printf("%18s-> %s\n", "", remedy);
}

void found(struct doctor *doctor, const char *check, enum result result, const char *remedy,
        const char *format, ...) {
	char text[800];
	va_list args;
	int at = 0;

	if (doctor->info.where[0]) /* one of several servers */
		at = snprintf(text, sizeof(text), "%s: ", doctor->info.where);
	va_start(args, format);
	vsnprintf(text + at, sizeof(text) - (size_t)at, format, args);
	va_end(args);
	doctor->counts[result]++;
	if (result > doctor->worst)
		doctor->worst = result;
	if (!doctor->looking->parsed.common.json && (result != PASS || !doctor->looking->parsed.common.quiet))
		print_finding(doctor, check, result, text, remedy);
	json_t *finding = json_object();
	json_object_set_new(finding, "check", json_string(check));
	json_object_set_new(finding, "result", json_string(result_words[result]));
	json_object_set_new(finding, "text", json_text(text));
	json_object_set_new(finding, "remedy", remedy ? json_text(remedy) : json_null());
	json_array_append_new(doctor->checks, finding);
}

/* ---- Checks ---------------------------------------------------------------------------------*/

static void check_reach(struct doctor *doctor) {
	const char *where = doctor->looking->session.settings.url_shown;
	double rtt_ms = (double)doctor->info.rtt_us / 1000;

	if (doctor->info.rtt_us > SLOW_RTT_US)
		found(doctor, "reach", WARN, "every lock costs two round trips: use a server that is nearer",
		        "%s answers in %.1f ms", where, rtt_ms);
	else
		found(doctor, "reach", PASS, NULL, "%s answers in %.2f ms", where, rtt_ms);
}

static void check_version(struct doctor *doctor) {
	const sneck_probe_info *info = &doctor->info;

	/* One that is too old was refused when it was greeted. */
	if (info->version[0])
		found(doctor, "version", PASS, NULL, "%s %s", info->server, info->version);
	else
		found(doctor, "version", PASS, NULL, "7.0 or later");
}

static void check_role(struct doctor *doctor) {
	const sneck_probe_info *info = &doctor->info;

	bool cluster = server_url_is_cluster(doctor->looking->session.settings.url);

	if (info->cluster == 1 && !cluster)
		found(doctor, "role", FAIL,
		        "name it as one, with some of its nodes: redis+cluster://host1,host2,host3",
		        "a node of a cluster, which as a single server has some of the locks only");
	else if (!strcmp(info->role, "replica"))
		found(doctor, "role", FAIL, "connect to the primary", "a replica");
	else
		found(doctor, "role", PASS, NULL, "%s", cluster ? "a primary of a cluster" : "primary");
}

static void check_eviction(struct doctor *doctor) {
	const sneck_probe_info *info = &doctor->info;
	const char *remedy =
	        "CONFIG SET maxmemory-policy noeviction; locks have an expiry, so volatile-* drops them too";

	if (!info->maxmemory_policy[0])
		found(doctor, "eviction", WARN, INFO_REMEDY, NOT_ALLOWED);
	else if (!strcmp(info->maxmemory_policy, "noeviction"))
		found(doctor, "eviction", PASS, NULL, "noeviction");
	else if (info->maxmemory > 0)
		found(doctor, "eviction", WARN, remedy, "%s can drop locks when memory is full",
		        info->maxmemory_policy);
	else
		found(doctor, "eviction", WARN, remedy, "%s can drop locks as soon as maxmemory is set",
		        info->maxmemory_policy);
}

/* What the kernel has been given outlives the server; what the disk has outlives the machine. */
static void check_append_only(struct doctor *doctor) {
	const char *sync = doctor->info.appendfsync;

	if (!*sync)
		found(doctor, "persistence", PASS, NULL,
		        "append-only file; how often it reaches the disk: " NOT_ALLOWED);
	else if (!strcmp(sync, "always"))
		found(doctor, "persistence", PASS, NULL, "append-only file, on the disk before the answer");
	else if (!strcmp(sync, "everysec"))
		found(doctor, "persistence", PASS, NULL,
		        "append-only file, on the disk every second: a power failure forgets the last one");
	else
		found(doctor, "persistence", WARN, "CONFIG SET appendfsync everysec, or always",
		        "append-only file, on the disk whenever the kernel likes: a power failure forgets "
		        "what it has not written");
}

static void check_persistence(struct doctor *doctor) {
	const char *remedy = "CONFIG SET appendonly yes, or let what the lock protects compare tokens";

	if (!strcmp(doctor->looking->session.settings.url, "local:"))
		found(doctor, "persistence", PASS, NULL, "none, as meant: a restart frees all locks");
	else if (doctor->info.persistence == SNECK_PERSISTENCE_AOF)
		check_append_only(doctor);
	else if (doctor->info.persistence == SNECK_PERSISTENCE_RDB)
		found(doctor, "persistence", WARN, remedy,
		        "snapshots alone: a restart forgets the locks taken since the last one");
	else if (doctor->info.persistence == SNECK_PERSISTENCE_NONE)
		found(doctor, "persistence", WARN, remedy, "none: a restart frees all locks");
	else
		found(doctor, "persistence", WARN,
		        "ask the server's administrator for `appendonly`, or ACL SETUSER <user> +info "
		        "+config|get",
		        NOT_ALLOWED);
}

static void check_clock(struct doctor *doctor) {
	int64_t offset_ms = doctor->info.clock_offset_ms;

	if (!doctor->info.clock_known)
		found(doctor, "clock", WARN, "ACL SETUSER <user> +time", NOT_ALLOWED);
	else if (llabs((long long)offset_ms) > CLOCK_MS)
		found(doctor, "clock", WARN, "run NTP on both machines; leases do not depend on it, logs do",
		        "the server's clock is %" PRId64 " ms %s", (int64_t)llabs((long long)offset_ms),
		        offset_ms > 0 ? "ahead" : "behind");
	else
		found(doctor, "clock", PASS, NULL, "%" PRId64 " ms from ours", offset_ms);
}

static void check_rights(struct doctor *doctor) {
	const sneck_probe_info *info = &doctor->info;
	const char *missing = info->missing[doctor->role];
	struct text remedy = { 0 }, allowed = { 0 }, places = { 0 };

	add_places(&places, &doctor->looking->session, doctor->role);
	if (info->rights_known && !*missing) {
		found(doctor, "rights", PASS, NULL, "all that a %s needs", role_name(doctor->role));
	} else if (info->rights_known) {
		add_commands(&allowed, missing);
		text_add(&remedy, "ACL SETUSER <user> %s %s", text_of(&places), text_of(&allowed));
		found(doctor, "rights", FAIL, text_of(&remedy), "this user may not: %s", missing);
	} else {
		text_add(&remedy, "see `sneck acl --role %s` for what this user needs",
		        role_name(doctor->role));
		found(doctor, "rights", FAIL, text_of(&remedy), "this user may run no scripts on %s",
		        text_of(&places));
	}
	text_free(&places);
	text_free(&allowed);
	text_free(&remedy);
}

static void check_messages(struct doctor *doctor) {
	int64_t us = doctor->info.message_us;
	const char *remedy = "allow SUBSCRIBE and PUBLISH on the channels of the namespace; see `sneck acl`";

	if (us == -1)
		return; /* the dialect has no channel that could be tried without a lock */
	if (us < 0)
		found(doctor, "messages", WARN, remedy,
		        "they do not arrive: who waits for a lock gets it up to a second late");
	else if (us > SLOW_MESSAGE_US)
		found(doctor, "messages", WARN, "look for what keeps the server or the network busy",
		        "arrive after %.1f ms", (double)us / 1000);
	else
		found(doctor, "messages", PASS, NULL, "arrive after %.2f ms", (double)us / 1000);
}

static int compare_times(const void *a, const void *b) {
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static int64_t now_us(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* Locks in earnest, under a name that no other doctor uses. */
static void check_lock(struct doctor *doctor) {
	sneck_client *client = doctor->looking->session.client;
	sneck_acquire_options acquire = SNECK_ACQUIRE_OPTIONS_INIT;
	sneck_error error = { 0, 0, "", "" };
	int64_t times[PAIRS];
	char name[96];

	/* A user who may take but not release leaves it behind for no longer than this. */
	acquire.lease_ms = LEASE_MS;
	acquire.fixed = 1;
	snprintf(name, sizeof(name), "sneck-doctor/%s", sneck_client_session(client));
	for (int i = 0; i < PAIRS; i++) {
		sneck_hold *hold = NULL;
		int64_t begun_us = now_us();
		int r = sneck_acquire(client, name, SNECK_WRITE, &acquire, &hold, &error);
		if (r == 0)
			r = sneck_release(hold);
		if (r < 0) {
			found(doctor, "lock", FAIL, "see the checks above, and the server's log",
			        "cannot be taken: %s", error.text[0] ? error.text : sneck_strerror(r));
			return;
		}
		times[i] = now_us() - begun_us;
	}
	qsort(times, PAIRS, sizeof(times[0]), compare_times);
	found(doctor, "lock", PASS, NULL, "taken and released in %.2f ms", (double)times[PAIRS / 2] / 1000);
}

/* ---- The command ----------------------------------------------------------------------------*/

static void print_verdict(const struct doctor *doctor) {
	static const char *const verdicts[] = { "OK: this server is fit for locks",
		"usable: locks work here, but see the warnings", "NOT usable: see what failed" };

	if (!doctor->looking->parsed.common.quiet)
		printf("%s (%d pass, %d warn, %d fail)\n", verdicts[doctor->worst], doctor->counts[PASS],
		        doctor->counts[WARN], doctor->counts[FAIL]);
}

static int finish(struct doctor *doctor) {
	int code = 0;

	if (doctor->looking->parsed.common.json) {
		json_t *json = json_head(&doctor->looking->session);
		json_object_set_new(json, "verdict", json_string(result_words[doctor->worst]));
		json_object_set_new(json, "rtt_us", json_integer(doctor->info.rtt_us));
		json_object_set(json, "checks", doctor->checks);
		code = print_json(json);
	} else {
		print_verdict(doctor);
	}
	if (code)
		return EXIT_INTERNAL;
	return doctor->worst == PASS ? 0 : doctor->worst == WARN ? EXIT_WARN : EXIT_FAIL;
}

/* What is asked of every server that has locks. */
static void check_server(struct doctor *doctor) {
	check_version(doctor);
	check_role(doctor);
	check_eviction(doctor);
	check_persistence(doctor);
	check_replicas(doctor);
	if (doctor->info.nodes > 1 && doctor->info.wanted & SNECK_PROBE_RIGHTS)
		check_rights(doctor); /* each has users of its own */
}

/* One primary of several. */
static int probe_node(struct doctor *doctor, int32_t node, uint32_t wanted, sneck_error *error) {
	doctor->info = (sneck_probe_info)SNECK_PROBE_INFO_INIT;
	doctor->info.wanted = wanted;
	doctor->info.node = node;
	return sneck_probe(doctor->looking->session.client, &doctor->info, error);
}

static void missing_node(struct doctor *doctor, const sneck_error *error) {
	found(doctor, "reach", FAIL, "start it, or look for what cuts it off; its locks cannot be taken",
	        "%s", error->text);
}

/* The first was asked everything; the others are asked about themselves. */
static void check_servers(struct doctor *doctor) {
	const sneck_probe_info first = doctor->info;

	check_server(doctor);
	for (int32_t node = 1; node < first.nodes; node++) {
		sneck_error error = { 0, 0, "", "" };
		if (probe_node(doctor, node, SNECK_PROBE_SERVER | SNECK_PROBE_RIGHTS, &error) == 0)
			check_server(doctor);
		else
			missing_node(doctor, &error);
	}
	doctor->info = first;
	doctor->info.where[0] = '\0'; /* what follows is about all of them */
}

/* Of a cluster: something could not be found out, because one of its servers does not answer. What can be is.
 */
static bool check_what_is_left(struct doctor *doctor) {
	int32_t nodes = doctor->info.nodes;
	bool any = false;

	for (int32_t node = 0; node < nodes; node++) {
		sneck_error error = { 0, 0, "", "" };
		if (probe_node(doctor, node, SNECK_PROBE_TOPOLOGY, &error) < 0) {
			missing_node(doctor, &error);
			continue;
		}
		check_server(doctor);
		doctor->info.where[0] = '\0';
		if (!any)
			check_failover(doctor);
		any = true;
	}
	return any;
}

static int unreachable(struct doctor *doctor, int code, sneck_error *error) {
	(void)looking_failed(doctor->looking, code, error);
	found(doctor, "reach", FAIL, "see the message above", "%s",
	        error->text[0] ? error->text : sneck_strerror(code));
	return finish(doctor);
}

static int examine(struct doctor *doctor) {
	sneck_error error = { 0, 0, "", "" };
	int r = sneck_probe(doctor->looking->session.client, &doctor->info, &error);

	if (r < 0 && doctor->info.nodes > 1 && check_what_is_left(doctor))
		return finish(doctor);
	if (r < 0)
		return unreachable(doctor, r, &error);
	check_reach(doctor);
	check_servers(doctor);
	check_failover(doctor);
	check_clock(doctor);
	if (doctor->info.nodes == 1)
		check_rights(doctor);
	if (doctor->role == SNECK_ROLE_HOLDER) {
		check_messages(doctor);
		check_lock(doctor);
	}
	return finish(doctor);
}

/* Its own exit codes count here: a server that cannot be reached at all is a finding. */
static int doctor_main(const struct command *self, int argc, char **argv) {
	struct looking looking;
	struct doctor doctor = { .looking = &looking, .info = SNECK_PROBE_INFO_INIT, .checks = json_array() };

	int code = looking_begin(&looking, self, argc, argv, take, &doctor, 0, false);
	doctor.color = use_color(looking.parsed.common.color, stdout);
	if (code == OPTIONS_OK) {
		if (doctor.role != SNECK_ROLE_HOLDER)
			doctor.info.wanted = SNECK_PROBE_TOPOLOGY | SNECK_PROBE_TIME | SNECK_PROBE_RIGHTS;
		doctor_settle_lease(&doctor);
		code = examine(&doctor);
	} else if (code == EXIT_UNREACHABLE || code == EXIT_NOPERM) {
		found(&doctor, "reach", FAIL, "see the message above", "%s cannot be used",
		        looking.session.settings.url_shown);
		code = finish(&doctor);
	}
	json_decref(doctor.checks);
	session_close(&looking.session);
	return code;
}

static const char *const examples[] = {
	"sneck doctor                             the server that sneck would use",
	"sneck doctor --server redis://cache-1    another one",
	NULL,
};

static const char *const notes[] = {
	"Exit status: 0 all is well, 1 there are warnings, 2 something failed; 64 and 78 as elsewhere.",
	NULL,
};

const struct command command_doctor = {
	.name = "doctor",
	.synopsis = "[--role " ROLE_VALUES "] [--lease TIME]",
	.summary = "Check whether a server is fit for locks, and say what to do if it is not.",
	.examples = examples,
	.notes = notes,
	.options = options,
	.common = COMMON_SERVER | COMMON_TALK | COMMON_JSON,
	.main = doctor_main,
};
