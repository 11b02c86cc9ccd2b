/* SPDX-License-Identifier: MIT */
/* Judging a rig's histories, and what remains of a campaign: a file of figures. The file says which sources
 * it speaks of, by the sum over them (tools/proof-doc.sh makes the same sum and marks what is stale). */
#include "driver.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <sneck/sneck.h>

#include "check.h"

enum { FILES_MAX = 8192, SERVED_MS = 8000, LEASE_MS = 900, LATE_MS = 100, NS_PER_MS = 1000000 };

/* ---- Judging ------------------------------------------------------------------------------------*/

static size_t open_histories(const char *dir, struct history_file *files, char (*paths)[320]) {
	DIR *list = opendir(dir);
	size_t n = 0;
	for (struct dirent *entry; list && n < FILES_MAX && (entry = readdir(list));) {
		if (!strstr(entry->d_name, ".history"))
			continue;
		snprintf(paths[n], sizeof(paths[n]), "%s/%s", dir, entry->d_name);
		if (history_open(paths[n], &files[n]) == 0)
			n++;
		else
			fprintf(stderr, "%s: %s\n", paths[n], strerror(errno));
	}
	if (list)
		closedir(list);
	return n;
}

static void add_report(struct verdict *verdict, const struct check_report *report) {
	verdict->violations += check_violations(report);
	for (unsigned i = 0; i < CHECK_INVARIANTS; i++)
		verdict->broken |= (uint32_t)(report->counts[i].violations > 0) << i;
	verdict->acquisitions += report->grants;
	verdict->records += report->records;
	verdict->stale_taken += report->stores_stale;
	verdict->stale_refused += report->stores_refused;
	verdict->notices += report->counts[CHECK_NOTICE].checked;
	verdict->lost += report->lost_in_failover;
	verdict->all_lost += report->lost;
	verdict->unrenewed += report->unrenewed;
	verdict->held_up += report->held_up;
	if (report->longest_sleep_ns > verdict->sleep_ns)
		verdict->sleep_ns = report->longest_sleep_ns;
	verdict->old_numbers += report->counts[CHECK_TOKENS].excused[CHECK_BY_ROLLBACK];
	if (report->longest_gap_ns > verdict->gap_ns)
		verdict->gap_ns = report->longest_gap_ns;
	verdict->excused += report->counts[CHECK_EXCLUSION].excused[CHECK_BY_WIPE];
}

void driver_judge(struct rig *rig, struct verdict *verdict) {
	struct history_file *files = calloc(FILES_MAX, sizeof(*files));
	char(*paths)[320] = calloc(FILES_MAX, sizeof(*paths));
	struct check_options options = check_defaults;
	struct check_report report;
	options.served_ns = (INT64_C(1) * SERVED_MS + rig->shape.lease_scale * LEASE_MS) * NS_PER_MS;
	options.settle_ns = INT64_C(1) * (SNECK_RECONNECT_MAX_MS + 200) * NS_PER_MS;
	options.late_ns = INT64_C(1) * LATE_MS * NS_PER_MS;
	if (!files || !paths)
		abort();
	size_t n = open_histories(rig->dir, files, paths);
	if (check_run(files, n, &options, &report) != 0) {
		fprintf(stderr, "the checker failed: %s\n", strerror(errno));
		verdict->violations++;
	} else {
		check_print(stdout, &report);
		add_report(verdict, &report);
		/* Histories that are gone would otherwise pass for a run without a fault. */
		if (report.grants == 0) {
			printf("nothing was granted in %zu histories: this run says nothing\n", n);
			verdict->violations++;
		}
		check_done(&report);
	}
	if (rig->crashed) {
		printf("workers that crashed or did not end: %u\n", rig->crashed);
		verdict->violations += rig->crashed;
	}
	fflush(stdout);
	for (size_t i = 0; i < n; i++)
		history_unmap(&files[i]);
	free(files);
	free(paths);
}

void driver_kept(const struct rig *rig, const struct options *options) {
	printf("histories kept in %s; again: --campaign %s --topology %s --dialect %s --seed %llu%s\n",
	        rig->dir, options->campaign, site_name(options->site), options->layout->dialect,
	        (unsigned long long)options->seed, options->linger_ms ? " --linger" : "");
}

void driver_say(const char *format, ...) {
	static const char *end = NULL;
	va_list args;
	if (!end)
		end = isatty(STDERR_FILENO) ? "\033[K\r" : "\n";
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputs(end, stderr);
	fflush(stderr);
}

/* ---- Results ------------------------------------------------------------------------------------*/

struct result {
	FILE *file; /* NULL: none is wanted */
	char path[256];
	char part[264]; /* written first, then renamed */
};

/* The first line that a command prints. */
static void read_command(const char *command, char *out, size_t size) {
	FILE *pipe = popen(command, "r");
	out[0] = '\0';
	if (pipe && fgets(out, (int)size, pipe))
		out[strcspn(out, "\n")] = '\0';
	if (pipe)
		pclose(pipe);
}

void result_text(struct result *result, const char *name, const char *value) {
	if (result->file)
		fprintf(result->file, ",\n  \"%s\": \"%s\"", name, value);
}

void result_number(struct result *result, const char *name, uint64_t value) {
	if (result->file)
		fprintf(result->file, ",\n  \"%s\": %llu", name, (unsigned long long)value);
}

struct result *result_open(const struct options *options) {
	struct result *result = calloc(1, sizeof(*result));
	char text[160];
	if (!result)
		abort();
	if (!options->results)
		return result;
	bool single = options->site == SITE_SINGLE;
	snprintf(result->path, sizeof(result->path), "%s/%s%s%s%s.json", options->results, options->campaign,
	        single ? "" : "-", single ? "" : site_name(options->site),
	        options->ack_replicas ? "-acknowledged" : "");
	snprintf(result->part, sizeof(result->part), "%s.part", result->path);
	result->file = fopen(result->part, "we");
	if (!result->file) {
		fprintf(stderr, "%s: %s\n", result->part, strerror(errno));
		exit(1);
	}
	time_t now = time(NULL);
	struct tm utc;
	fprintf(result->file, "{\n  \"campaign\": \"%s\"", options->campaign);
	strftime(text, sizeof(text), "%Y-%m-%d %H:%M UTC", gmtime_r(&now, &utc));
	result_text(result, "date", text);
	read_command("git -C '" PROOF_SOURCE "' rev-parse --short=12 HEAD 2>/dev/null", text, sizeof(text));
	result_text(result, "commit", text);
	read_command("'" PROOF_SOURCE "/tools/proof-doc.sh' --sum", text, sizeof(text));
	result_text(result, "sources", text);
	result_text(result, "topology", site_name(options->site));
	result_number(result, "seed", options->seed);
	return result;
}

int result_close(struct result *result, const struct verdict *verdict, uint64_t more) {
	uint64_t violations = verdict->violations + more;
	result_number(result, "acquisitions", verdict->acquisitions);
	result_number(result, "records", verdict->records);
	result_number(result, "violations", violations);
	if (result->file) {
		fputs("\n}\n", result->file);
		if (fclose(result->file) != 0 || rename(result->part, result->path) != 0)
			fprintf(stderr, "%s: %s\n", result->path, strerror(errno));
	}
	free(result);
	printf("%llu acquisitions, %llu violations\n", (unsigned long long)verdict->acquisitions,
	        (unsigned long long)violations);
	return violations ? 1 : 0;
}
