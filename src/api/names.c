/* SPDX-License-Identifier: MIT */
/* Names and texts of codes and states, from the one map in error.h. */
#include <sneck/sneck.h>

const char *sneck_err_name(int code) {
	switch (code) {
	case SNECK_OK:
		return "SNECK_OK";
#define CASE(name, number, outcome, text) \
	case name:                        \
		return #name;
		SNECK_ERROR_MAP(CASE)
#undef CASE
	default:
		return "SNECK_E?";
	}
}

const char *sneck_strerror(int code) {
	switch (code) {
	case SNECK_OK:
		return "success";
#define CASE(name, number, outcome, text) \
	case name:                        \
		return text;
		SNECK_ERROR_MAP(CASE)
#undef CASE
	default:
		return "unknown code";
	}
}

int sneck_err_outcome(int code) {
	switch (code) {
	case SNECK_OK:
		return SNECK_OUTCOME_OK;
#define CASE(name, number, outcome, text) \
	case name:                        \
		return outcome;
		SNECK_ERROR_MAP(CASE)
#undef CASE
	default:
		return code >= 0 ? SNECK_OUTCOME_OK : SNECK_OUTCOME_UNKNOWN;
	}
}

const char *sneck_state_name(sneck_state state) {
	switch (state) {
	case SNECK_HELD:
		return "held";
	case SNECK_SUSPECT:
		return "suspect";
	case SNECK_LOST:
		return "lost";
	case SNECK_BROKEN:
		return "broken";
	}
	return "unknown";
}

const char *sneck_version(void) {
	return SNECK_VERSION;
}
