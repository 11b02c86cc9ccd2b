/* SPDX-License-Identifier: MIT */
/* Columns for people. On a terminal the last column is cut to the width of the window; elsewhere
 * nothing is cut. */
#ifndef SNECK_CLI_TABLE_H
#define SNECK_CLI_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { TABLE_COLUMNS_MAX = 10 };

struct table {
	int columns;
	const char *const *headings; /* `columns` of them */
	char **cells;                /* row by row */
	size_t count, cap;
};

/* The cell is copied. Rows are filled from left to right. */
void table_add(struct table *table, const char *cell);
/* With `color` the headings are bold. */
void table_print(const struct table *table, FILE *out, bool color);
void table_free(struct table *table);

#endif
