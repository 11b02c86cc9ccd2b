/* SPDX-License-Identifier: MIT */
/* The list of faults, and the one way to strike with one: its record begins before the harm and ends when
 * it is undone, and says how much was touched. */
#include "fault.h"

#include <string.h>

/* Proxies, and what is done to the one server by name, need that there is one. */
static const struct fault_kind *const on_single[] = { fault_proxy_kinds, fault_error_kinds,
	fault_process_kinds, fault_server_kinds, fault_host_kinds, NULL };
static const struct fault_kind *const on_sentinel[] = { fault_sentinel_kinds, fault_process_kinds,
	fault_host_kinds, NULL };
static const struct fault_kind *const on_cluster[] = { fault_cluster_kinds, fault_process_kinds,
	fault_host_kinds, NULL };
static const struct fault_kind *const *const groups[SITE_KINDS] = { on_single, on_sentinel, on_cluster };

size_t fault_list(
        enum site_kind site, const char *only, const struct fault_kind *ret_kinds[FAULT_KINDS_MAX]) {
	size_t n = 0;
	for (const struct fault_kind *const *group = groups[site]; *group; group++)
		for (const struct fault_kind *kind = *group; kind->name && n < FAULT_KINDS_MAX; kind++)
			if (!only || strncmp(kind->name, only, strlen(only)) == 0)
				ret_kinds[n++] = kind;
	return n;
}

/* The kind's number in the list of all. */
static uint8_t kind_number(enum site_kind site, const struct fault_kind *kind) {
	const struct fault_kind *all[FAULT_KINDS_MAX];
	size_t n = fault_list(site, NULL, all);
	for (size_t i = 0; i < n; i++)
		if (all[i] == kind)
			return (uint8_t)(i + 1);
	return 0;
}

void fault_strike(struct strike *strike) {
	struct history_record form = { .op = HISTORY_FAULT,
		.lock = HISTORY_ALL,
		.detail = kind_number(strike->rig->shape.site, strike->kind) };
	rig_look_at_primary(strike->rig);
	strike->begin_ns = history_now();
	struct history_record *record = history_begin(strike->rig->history, &form);
	strike->kind->strike(strike);
	record->token = (uint64_t)strike->victim_pid;
	if (strike->stopped)
		record->flags |= HISTORY_STOPPED;
	history_end(record, (int32_t)(strike->bite > INT32_MAX ? INT32_MAX : strike->bite));
}
