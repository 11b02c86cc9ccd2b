/* SPDX-License-Identifier: MIT */
/* What the checks of `sneck doctor` share. */
#ifndef SNECK_CLI_DOCTOR_H
#define SNECK_CLI_DOCTOR_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>
#include <sneck/sneck.h>

#include "looking.h"

enum result { PASS, WARN, FAIL };

struct doctor {
	const struct looking *looking;
	sneck_role role;
	int64_t lease_ms; /* that shall outlive a failover */
	sneck_probe_info info;
	json_t *checks;
	enum result worst;
	bool color;
	int counts[3];
};

#define NOT_ALLOWED "this user is not allowed to see it"
#define INFO_REMEDY "ACL SETUSER <user> +info"

/* Print it, or note it for JSON. `remedy` may be NULL for PASS. */
void found(struct doctor *doctor, const char *check, enum result result, const char *remedy,
        const char *format, ...) __attribute__((format(printf, 5, 6)));

/* doctor_failover.c */
void doctor_settle_lease(struct doctor *doctor); /* unless it was named */
void check_replicas(struct doctor *doctor);      /* of one server */
/* Sentinels, or the cluster. */
void check_failover(struct doctor *doctor);

#endif
