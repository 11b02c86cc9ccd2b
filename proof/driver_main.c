/* SPDX-License-Identifier: MIT */
/* sneck-nemesis: options, and which campaign.
 *
 *   sneck-nemesis [--seed N] [--minutes M] [--only KIND]   faults of all kinds, one after the other
 *   --campaign NAME [--count N]   mixed, kill, stop, silence, cancel, messages, failover, slots
 *   --dialect NAME                on another layout (layout.c)
 *   --topology NAME               sentinel or cluster: mixed and failover, in a cluster slots (site.h)
 *   --linger                      with locks that linger after their release
 *   --acknowledged N              N replicas must have a grant; 0: none, to compare. Nobody runs the command
 *   --campaign control --subject naive|redispy|sneck       what must be found, and what must not
 *   --plan | --list               what would be done; what there is
 */
#include "driver.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fault.h"

static const struct {
	const char *name;
	int (*run)(const struct options *options);
} campaigns[] = {
	{ "mixed", campaign_mixed },
	{ "kill", campaign_groups },
	{ "stop", campaign_groups },
	{ "silence", campaign_groups },
	{ "cancel", campaign_cancel },
	{ "failover", campaign_failover },
	{ "slots", campaign_slots },
	{ "control", campaign_control },
	{ "messages", campaign_messages },
};

/* Longer than most pauses between two turns, shorter than a lease. */
enum { LINGER_MS = 400 };

static int list_faults(enum site_kind site) {
	const struct fault_kind *kinds[FAULT_KINDS_MAX];
	size_t n = fault_list(site, NULL, kinds);
	for (size_t i = 0; i < n; i++)
		printf("%-20s %s\n", kinds[i]->name, kinds[i]->what);
	return 0;
}

static int usage(void) {
	fprintf(stderr,
	        "usage: sneck-nemesis [--campaign "
	        "mixed|failover|slots|kill|stop|silence|cancel|messages|control] "
	        "[--seed N]\n"
	        "       [--count N] [--acquisitions N] [--minutes M] [--only KIND] [--results DIR] [--keep]\n"
	        "       [--subject sneck|naive|redispy] [--dialect NAME] [--topology "
	        "single|sentinel|cluster]\n"
	        "       [--linger] [--acknowledged REPLICAS] [--plan] [--list]\n");
	return 64;
}

static int parse(int argc, char **argv, struct options *options) {
	static const struct option names[] = { { "campaign", 1, 0, 'c' }, { "seed", 1, 0, 's' },
		{ "count", 1, 0, 'n' }, { "acquisitions", 1, 0, 'a' }, { "minutes", 1, 0, 'm' },
		{ "only", 1, 0, 'o' }, { "results", 1, 0, 'r' }, { "plan", 0, 0, 'p' }, { "list", 0, 0, 'l' },
		{ "keep", 0, 0, 'k' }, { "subject", 1, 0, 'S' }, { "dialect", 1, 0, 'd' },
		{ "topology", 1, 0, 't' }, { "linger", 0, 0, 'L' }, { "acknowledged", 1, 0, 'A' },
		{ 0, 0, 0, 0 } };
	for (int c; (c = getopt_long(argc, argv, "", names, NULL)) != -1;) {
		switch (c) {
		case 'c':
			options->campaign = optarg;
			break;
		case 's':
			options->seed = strtoull(optarg, NULL, 0);
			break;
		case 'n':
			options->count = (uint32_t)strtoul(optarg, NULL, 10);
			break;
		case 'a':
			options->acquisitions = strtoull(optarg, NULL, 10);
			break;
		case 'm':
			options->minutes = strtod(optarg, NULL);
			break;
		case 'o':
			options->only = optarg;
			break;
		case 'r':
			options->results = optarg;
			break;
		case 'p':
			options->plan_only = true;
			break;
		case 'k':
			options->keep = true;
			break;
		case 'S':
			options->subject = optarg;
			break;
		case 'd':
			options->layout = proof_layout_find(optarg);
			break;
		case 'A':
			options->ack_replicas = (uint32_t)strtoul(optarg, NULL, 10);
			options->no_commands = true;
			break;
		case 't':
			if (!site_find(optarg, &options->site))
				return -1;
			break;
		case 'L':
			options->linger_ms = LINGER_MS;
			break;
		case 'l':
			exit(list_faults(options->site));
		default:
			return -1;
		}
	}
	return optind == argc ? 0 : -1;
}

static bool is_possible_there(enum site_kind site, const char *campaign) {
	bool failover = strcmp(campaign, "failover") == 0, slots = strcmp(campaign, "slots") == 0;
	if (site == SITE_SINGLE)
		return !failover && !slots;
	return failover || strcmp(campaign, "mixed") == 0 || (slots && site == SITE_CLUSTER);
}

/* Other layouts have no programs for every message, nothing that is known to be wrong, and no place among the
 * results, which are native's. */
static bool is_possible(const struct options *options) {
	if (!is_possible_there(options->site, options->campaign))
		return false;
	if (options->layout == &proof_native)
		return true;
	return options->layout && !options->linger_ms && strcmp(options->campaign, "messages") != 0 &&
	       strcmp(options->campaign, "control") != 0 && !options->results;
}

int main(int argc, char **argv) {
	struct options options = { .campaign = "mixed", .subject = "sneck", .layout = &proof_native };
	options.seed = (uint64_t)time(NULL) * 1000003 + (uint64_t)getpid();
	if (parse(argc, argv, &options) != 0 || !is_possible(&options))
		return usage();
	for (size_t i = 0; i < sizeof(campaigns) / sizeof(*campaigns); i++)
		if (strcmp(campaigns[i].name, options.campaign) == 0) {
			if (!options.plan_only)
				printf("campaign %s, topology %s, dialect %s, seed %llu\n", options.campaign,
				        site_name(options.site), options.layout->dialect,
				        (unsigned long long)options.seed);
			fflush(stdout);
			return campaigns[i].run(&options);
		}
	return usage();
}
