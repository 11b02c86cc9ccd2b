/* SPDX-License-Identifier: MIT */
#ifndef TESTS_MODEL_NATIVE_MUTANTS_H
#define TESTS_MODEL_NATIVE_MUTANTS_H

#include "native_world.h"

struct mutant {
	const char *name;
	const char *faults[5]; /* see native_server_load() */
	enum careless careless;
	const char *config; /* found by every order of events within these bounds; NULL: by random walks */
};
/* Ends with one without a name. */
extern const struct mutant mutants[];

#endif
