/* SPDX-License-Identifier: MIT */
/* sneck-worker: the options, and which part to play. Started by sneck-nemesis, not by people. */
#include "worker.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct worker_subject *find_subject(const char *name) {
	static const struct worker_subject *const subjects[] = { &worker_sneck, &worker_naive,
		&worker_redispy };
	for (size_t i = 0; i < sizeof(subjects) / sizeof(*subjects); i++)
		if (strcmp(subjects[i]->name, name) == 0)
			return subjects[i];
	return NULL;
}

static uint32_t number(const char *text) {
	return (uint32_t)strtoul(text, NULL, 10);
}

static bool set(struct worker_config *config, const char *name, const char *value) {
	const struct {
		const char *name;
		uint32_t *field;
	} numbers[] = { { "slot", &config->slot }, { "threads", &config->threads },
		{ "first-lock", &config->first_lock }, { "fast-locks", &config->fast_locks },
		{ "slow-locks", &config->slow_locks }, { "command-ms", &config->command_ms },
		{ "linger-ms", &config->linger_ms }, { "lease-scale", &config->lease_scale },
		{ "ack-replicas", &config->ack_replicas }, { "races", &config->races },
		{ "holding-ms", &config->holding_ms } };
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		if (strcmp(numbers[i].name, name) == 0) {
			*numbers[i].field = number(value);
			return true;
		}
	if (strcmp(name, "url") == 0)
		config->url = value;
	else if (strcmp(name, "dir") == 0)
		config->dir = value;
	else if (strcmp(name, "seed") == 0)
		config->seed = strtoull(value, NULL, 10);
	else if (strcmp(name, "began") == 0)
		config->began_ns = strtoll(value, NULL, 10);
	else if (strcmp(name, "subject") == 0)
		config->subject = find_subject(value);
	else if (strcmp(name, "dialect") == 0)
		config->layout = proof_layout_find(value);
	else if (strcmp(name, "commands") == 0)
		config->commands = true;
	else if (strcmp(name, "plain") == 0)
		config->plain = true;
	else
		return false;
	return true;
}

int main(int argc, char **argv) {
	static const struct option options[] = { { "url", 1, 0, 0 }, { "dir", 1, 0, 0 }, { "seed", 1, 0, 0 },
		{ "subject", 1, 0, 0 }, { "dialect", 1, 0, 0 }, { "slot", 1, 0, 0 }, { "threads", 1, 0, 0 },
		{ "first-lock", 1, 0, 0 }, { "fast-locks", 1, 0, 0 }, { "slow-locks", 1, 0, 0 },
		{ "command-ms", 1, 0, 0 }, { "linger-ms", 1, 0, 0 }, { "ack-replicas", 1, 0, 0 },
		{ "races", 1, 0, 0 }, { "lease-scale", 1, 0, 0 }, { "holding-ms", 1, 0, 0 },
		{ "commands", 0, 0, 0 }, { "began", 1, 0, 0 }, { "plain", 0, 0, 0 }, { "child", 0, 0, 'c' },
		{ 0, 0, 0, 0 } };
	struct worker_config config = { .subject = &worker_sneck,
		.layout = &proof_native,
		.threads = 4,
		.fast_locks = 4,
		.command_ms = 300,
		.holding_ms = 500 };
	bool child = false;
	for (;;) {
		int index = 0;
		int c = getopt_long(argc, argv, "", options, &index);
		if (c == -1)
			break;
		if (c == 'c')
			child = true;
		else if (c != 0 || !set(&config, options[index].name, optarg))
			return 64;
	}
	if (!config.dir || !config.subject || !config.layout || (!child && !config.url)) {
		fprintf(stderr,
		        "sneck-worker: --dir, --url a known --subject and a known --dialect are needed\n");
		return 64;
	}
	if (config.subject->run)
		return config.subject->run(&config);
	return child ? worker_child(&config) : worker_run(&config);
}
