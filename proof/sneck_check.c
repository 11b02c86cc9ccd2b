/* SPDX-License-Identifier: MIT */
/* sneck-check DIR: check the histories of a run. Every file in DIR that is a history takes part; the others
 * (witness, board, logs) are passed over.
 *
 * Exit status: 0 nothing was violated, 1 something was, 2 it could not be checked. */
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "check.h"
#include "history.h"

struct files {
	struct history_file *items;
	size_t n;
};

static const char usage[] =
        "usage: sneck-check [options] DIR\n"
        "  --served MS     how long after all is calm a wait may last: lease + waiter lease + 2000 (35000)\n"
        "  --late MS       how much after its deadline a call may be back (50)\n"
        "  --queued MS     how long after its call a fair waiter is certainly in the queue (50)\n"
        "  --handovers N   how often one process may overtake one waiter (16)\n"
        "  --keep N        how many violations of each invariant are shown (20)\n";

static int add_file(struct files *files, const char *dir, const char *name) {
	size_t len = strlen(dir) + strlen(name) + 2;
	char *path = malloc(len);
	struct history_file *grown = realloc(files->items, (files->n + 1) * sizeof *grown);
	struct stat st;

	if (grown)
		files->items = grown;
	if (!path || !grown) {
		free(path);
		errno = ENOMEM;
		return -1;
	}
	snprintf(path, len, "%s/%s", dir, name);
	if (lstat(path, &st) == 0 && S_ISREG(st.st_mode)) {
		if (history_open(path, &files->items[files->n]) == 0) {
			files->n++;
			return 0;
		}
		if (errno != EPROTO) {
			fprintf(stderr, "sneck-check: %s: %s\n", path, strerror(errno));
			free(path);
			return -1;
		}
	}
	free(path);
	return 0;
}

static int add_dir(struct files *files, const char *path) {
	DIR *dir = opendir(path);
	struct dirent *entry;
	int r = 0;

	if (!dir) {
		fprintf(stderr, "sneck-check: %s: %s\n", path, strerror(errno));
		return -1;
	}
	while (r == 0 && (entry = readdir(dir)))
		r = add_file(files, path, entry->d_name);
	closedir(dir);
	if (r == 0 && files->n == 0) {
		fprintf(stderr, "sneck-check: %s: there is no history\n", path);
		r = -1;
	}
	return r;
}

static void free_files(struct files *files) {
	for (size_t i = 0; i < files->n; i++) {
		free((char *)files->items[i].path);
		history_unmap(&files->items[i]);
	}
	free(files->items);
}

static int parse(int argc, char **argv, struct check_options *options) {
	static const struct option longs[] = {
		{ "served", required_argument, NULL, 's' },
		{ "late", required_argument, NULL, 'l' },
		{ "queued", required_argument, NULL, 'q' },
		{ "handovers", required_argument, NULL, 'h' },
		{ "keep", required_argument, NULL, 'k' },
		{ 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		char *end;
		long long value = optarg ? strtoll(optarg, &end, 10) : -1;

		if (option == '?' || value < 0 || value > 1000000000 || end == optarg || *end)
			return -1;
		if (option == 's')
			options->served_ns = value * 1000000;
		else if (option == 'l')
			options->late_ns = value * 1000000;
		else if (option == 'q')
			options->fair_ns = value * 1000000;
		else if (option == 'h')
			options->handovers = (uint32_t)value;
		else
			options->keep = (uint32_t)value;
	}
	return argc - optind == 1 ? 0 : -1;
}

int main(int argc, char **argv) {
	struct check_options options = check_defaults;
	struct check_report report;
	struct files files = { 0 };
	int status = 2;

	if (parse(argc, argv, &options) < 0) {
		fputs(usage, stderr);
		return 2;
	}
	if (add_dir(&files, argv[optind]) == 0) {
		if (check_run(files.items, files.n, &options, &report) < 0) {
			fprintf(stderr, "sneck-check: %s\n", strerror(errno));
		} else {
			check_print(stdout, &report);
			status = check_violations(&report) ? 1 : 0;
			check_done(&report);
		}
	}
	free_files(&files);
	if (fflush(stdout) != 0)
		status = 2;
	return status;
}
