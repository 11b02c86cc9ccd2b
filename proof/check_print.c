/* SPDX-License-Identifier: MIT */
/* A report for people: one line for each invariant, then each violation with its two records in words and
 * what lay between them on that lock, faults included. Times are seconds since the run's first record. */
#include "check.h"

#include <inttypes.h>
#include <string.h>

#include <sneck/sneck.h>

#include "check_world.h"

enum { BETWEEN_MAX = 30 };

static const struct {
	const char *id, *title;
} names[CHECK_INVARIANTS] = {
	[CHECK_EXCLUSION] = { "I1", "exclusion of believed-valid holds" },
	[CHECK_TOKENS] = { "I2", "tokens grow" },
	[CHECK_STORE] = { "I3", "the store that checks tokens" },
	[CHECK_SERVED] = { "I4", "waits served when all is calm" },
	[CHECK_FAIR] = { "I5", "no overtaking of fair waiters" },
	[CHECK_RELEASE] = { "I6", "one effective release, by the owner" },
	[CHECK_NOTICE] = { "I7", "notice before the lease ends" },
	[CHECK_LEFT] = { "I8", "nothing left behind" },
	[CHECK_RETURN] = { "I9", "calls back by their deadline" },
	[CHECK_WITNESS] = { "W", "nobody met inside" },
	[CHECK_WHOLE] = { "H", "histories are whole" },
};

static const char *const excuses[CHECK_EXCUSES] = {
	[CHECK_BY_WIPE] = "by a wipe",
	[CHECK_BY_ROLLBACK] = "by a phase that a failover brought back",
	[CHECK_BY_BREAK] = "by a break",
	[CHECK_BY_STOP] = "by a stop",
	[CHECK_BY_DEATH] = "by a death",
	[CHECK_BY_FAULT] = "by a fault",
	[CHECK_BY_VALIDITY] = "after validity",
	[CHECK_BY_END] = "by the end of the run",
};

const char *check_id(enum check_invariant invariant) {
	return names[invariant].id;
}

const char *check_title(enum check_invariant invariant) {
	return names[invariant].title;
}

/* ---- Records in words ---------------------------------------------------------------------------*/

static double seconds(const struct check_world *world, int64_t ns) {
	return (double)(ns - world->first_ns) / 1e9;
}

static const struct history_file *file_of(
        const struct check_world *world, const struct history_record *record) {
	for (size_t i = 0; i < world->n_files; i++)
		if (record >= world->files[i].records && record < world->files[i].records + world->files[i].n)
			return &world->files[i];
	return NULL;
}

static void print_result(FILE *out, const struct history_record *record) {
	if (!record->return_ns)
		fprintf(out, " and never returned");
	else if (record->op == HISTORY_STATE)
		fprintf(out, ": %s", sneck_state_name((sneck_state)record->result));
	else if (record->op == HISTORY_STORE)
		fprintf(out, ": %s", record->result == 1 ? "taken" : "refused");
	else if (record->op == HISTORY_ENTER || record->op == HISTORY_LEAVE)
		fprintf(out, record->result == 0 ? ": met nobody" : ": met %" PRIx64, record->token);
	else if (record->op < HISTORY_VALID)
		fprintf(out, ": %s", record->result == 0 ? "ok" : sneck_err_name(record->result));
}

/* What the driver has written: a fault, a wipe, a death. */
static void print_event(FILE *out, const struct history_record *record) {
	if (record->op == HISTORY_FAULT)
		fprintf(out, " kind %u%s, struck %" PRId32, record->detail,
		        record->flags & HISTORY_STOPPED ? " (stopped)" : "", record->result);
	if (record->op == HISTORY_LEFT)
		fprintf(out, " kind %u: %" PRIu64, record->detail, record->token);
	else if (record->token)
		fprintf(out, " of process %" PRIu64, record->token);
	else if (record->actor && record->actor != HISTORY_ALL)
		fprintf(out, " of actor %" PRIu32, record->actor);
}

static void print_call(FILE *out, const struct check_world *world, const struct history_record *record) {
	bool witness = record->op == HISTORY_ENTER || record->op == HISTORY_LEAVE;

	fprintf(out, " lock %" PRIu32 " by %" PRIu32 " hold %" PRIx64, record->lock, record->actor,
	        record->hold);
	if (record->mode)
		fprintf(out, " %c", record->mode);
	print_result(out, record);
	if (record->token && !witness)
		fprintf(out, ", token %" PRIu64, record->token);
	if (record->valid_until_ns)
		fprintf(out, ", valid until %.6f", seconds(world, record->valid_until_ns));
	if (record->deadline_ns)
		fprintf(out, ", due by %.6f", seconds(world, record->deadline_ns));
	fprintf(out, "%s%s%s%s%s", record->flags & HISTORY_FIXED ? ", fixed" : "",
	        record->flags & HISTORY_NOWAIT ? ", no wait" : "",
	        record->flags & HISTORY_FAIR ? ", fair" : "", record->flags & HISTORY_OWNER ? ", nested" : "",
	        record->flags & HISTORY_CANCELLED ? ", cancelled" : "");
}

static void print_record(
        FILE *out, const struct check_world *world, const char *mark, const struct history_record *record) {
	const struct history_file *file = file_of(world, record);

	fprintf(out, "  %s %.6f", mark, seconds(world, record->invoke_ns));
	if (record->return_ns)
		fprintf(out, "..%.6f", seconds(world, record->return_ns));
	fprintf(out, " %s", history_op_name(record->op));
	if (record->op >= HISTORY_FAULT)
		print_event(out, record);
	else
		print_call(out, world, record);
	if (file)
		fprintf(out, "  [process %" PRId32 ", record %zu]", file->pid,
		        (size_t)(record - file->records));
	fputc('\n', out);
}

/* ---- What lay between ---------------------------------------------------------------------------*/

static size_t first_of_lock(const struct check_world *world, uint32_t lock, int64_t from) {
	size_t low = 0, high = world->n_by_lock;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct check_entry *entry = &world->by_lock[middle];

		if (entry->key < lock || (entry->key == lock && entry->at < from))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void print_events_between(FILE *out, const struct check_world *world, const struct check_list *list,
        int64_t from, int64_t to, const struct check_violation *violation) {
	for (size_t i = 0; i < list->n && list->items[i]->invoke_ns <= to; i++)
		if (check_returned(list->items[i]) >= from && list->items[i] != violation->first)
			print_record(out, world, "!", list->items[i]);
}

static void print_between(
        FILE *out, const struct check_world *world, const struct check_violation *violation) {
	const struct history_record *first = violation->first, *second = violation->second;
	const struct history_record *call = first->op < HISTORY_FAULT ? first : second;
	int64_t from = first->invoke_ns, to = first->return_ns > from ? first->return_ns : from;
	size_t shown = 0, more = 0;

	if (second) {
		from = second->invoke_ns < from ? second->invoke_ns : from;
		to = second->invoke_ns > to ? second->invoke_ns : to;
		to = second->return_ns > to ? second->return_ns : to;
	}
	print_events_between(out, world, &world->faults, from, to, violation);
	print_events_between(out, world, &world->wipes, from, to, violation);
	print_events_between(out, world, &world->deaths, from, to, violation);
	if (!call)
		return;
	for (size_t i = first_of_lock(world, call->lock, from); i < world->n_by_lock; i++) {
		const struct check_entry *entry = &world->by_lock[i];

		if (entry->key != call->lock || entry->at > to)
			break;
		if (entry->record == first || entry->record == second)
			continue;
		if (shown < BETWEEN_MAX && ++shown)
			print_record(out, world, "|", entry->record);
		else
			more++;
	}
	if (more)
		fprintf(out, "  | and %zu more records of this lock\n", more);
}

/* ---- The whole ----------------------------------------------------------------------------------*/

static void print_line(FILE *out, const struct check_report *report, enum check_invariant invariant) {
	const struct check_count *count = &report->counts[invariant];
	bool first = true;

	fprintf(out, "%-3s %-38s ", check_id(invariant), check_title(invariant));
	if (count->violations)
		fprintf(out, "VIOLATED       %" PRIu64 " of %" PRIu64, count->violations, count->checked);
	else if (count->checked)
		fprintf(out, "ok             %" PRIu64 " checked", count->checked);
	else
		fprintf(out, "not exercised");
	for (int i = 0; i < CHECK_EXCUSES; i++) {
		if (!count->excused[i])
			continue;
		fprintf(out, "%s%" PRIu64 " %s", first ? "; excused: " : ", ", count->excused[i], excuses[i]);
		first = false;
	}
	if (invariant == CHECK_STORE && count->checked)
		fprintf(out, "; refused %" PRIu64 ", stale taken by the store that does not check %" PRIu64,
		        report->stores_refused, report->stores_stale);
	fputc('\n', out);
}

void check_print(FILE *out, const struct check_report *report) {
	const struct check_world *world = report->world;

	fprintf(out,
	        "%zu histories, %.3f s, %" PRIu64 " records (%" PRIu64 " not filled), %" PRIu64
	        " grants, %" PRIu64 " faults (%" PRIu64 " struck), %" PRIu64 " wipes, %" PRIu64 " deaths\n",
	        world->n_files, report->records ? seconds(world, world->last_ns) : 0.0, report->records,
	        report->unfilled, report->grants, report->faults, report->faults_bit, report->wipes,
	        report->deaths);
	for (int i = 0; i < CHECK_INVARIANTS; i++)
		print_line(out, report, (enum check_invariant)i);
	for (size_t i = 0; i < report->n_violations; i++) {
		const struct check_violation *violation = &report->violations[i];

		fprintf(out, "\n%s: %s\n", check_id(violation->invariant), violation->what);
		print_record(out, world, "1", violation->first);
		print_between(out, world, violation);
		if (violation->second)
			print_record(out, world, "2", violation->second);
	}
}
