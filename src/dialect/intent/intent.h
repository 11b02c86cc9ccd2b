/* SPDX-License-Identifier: MIT */
/* The intent layout, for the list of dialects and for tests. */
#ifndef SNECK_DIALECT_INTENT_H
#define SNECK_DIALECT_INTENT_H

#include "dialect/dialect.h"

extern const struct dialect snecki_intent;

#endif
