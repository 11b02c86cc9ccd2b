/* SPDX-License-Identifier: MIT */
/* The names of holds in the world of the model: mode, session, attempt. */
#include <inttypes.h>
#include <stdio.h>

#include "sim_server.h"

void sim_format_id(char mode, int session, uint64_t attempt, char ret_id[LOCK_ID_MAX]) {
	snprintf(ret_id, LOCK_ID_MAX, "%c%d.%" PRIu64, mode, session, attempt);
}

bool sim_parse_id(const char *id, char *ret_mode, int *ret_session, uint64_t *ret_attempt) {
	return sscanf(id, "%c%d.%" SCNu64, ret_mode, ret_session, ret_attempt) == 3;
}
