/* SPDX-License-Identifier: MIT */
/* A cell's width is its number of characters: UTF-8 bytes that continue one are not counted. */
#include "table.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "exit.h"

enum { GAP = 2, LAST_MIN = 8 };

void table_add(struct table *table, const char *cell) {
	if (table->count == table->cap) {
		table->cap = 2 * table->cap + 64;
		table->cells = realloc(table->cells, table->cap * sizeof(*table->cells));
	}
	char *copy = strdup(cell);
	if (!table->cells || !copy) {
		fputs("sneck: out of memory\n", stderr);
		exit(EXIT_INTERNAL);
	}
	table->cells[table->count++] = copy;
}

static size_t width_of(const char *cell) {
	size_t width = 0;

	for (; *cell; cell++)
		width += ((unsigned char)*cell & 0xc0) != 0x80;
	return width;
}

/* Bytes of the first `width` characters. */
static size_t bytes_of(const char *cell, size_t width) {
	size_t n = 0;

	for (; cell[n]; n++) {
		if (((unsigned char)cell[n] & 0xc0) != 0x80 && width-- == 0)
			break;
	}
	return n;
}

/* How wide the last column may be; 0: as wide as it likes. */
static size_t last_width(const size_t *widths, int columns, FILE *out) {
	struct winsize window;
	size_t before = 0;

	if (!isatty(fileno(out)) || ioctl(fileno(out), TIOCGWINSZ, &window) < 0 || window.ws_col == 0)
		return 0;
	for (int i = 0; i < columns - 1; i++)
		before += widths[i] + GAP;
	return window.ws_col > before + LAST_MIN ? window.ws_col - before : LAST_MIN;
}

static void print_last(const char *cell, size_t most, FILE *out) {
	if (most == 0 || width_of(cell) <= most)
		fprintf(out, "%s\n", cell);
	else
		fprintf(out, "%.*s…\n", (int)bytes_of(cell, most - 1), cell);
}

static void print_row(const char *const *cells, const size_t *widths, int columns, size_t most, FILE *out) {
	for (int i = 0; i < columns - 1; i++)
		fprintf(out, "%s%*s", cells[i], (int)(widths[i] - width_of(cells[i]) + GAP), "");
	print_last(cells[columns - 1], most, out);
}

void table_print(const struct table *table, FILE *out, bool color) {
	size_t widths[TABLE_COLUMNS_MAX] = { 0 };
	int columns = table->columns;

	for (int i = 0; i < columns; i++)
		widths[i] = width_of(table->headings[i]);
	for (size_t i = 0; i < table->count; i++) {
		size_t width = width_of(table->cells[i]);
		if (width > widths[i % (size_t)columns])
			widths[i % (size_t)columns] = width;
	}
	size_t most = last_width(widths, columns, out);
	if (color)
		fputs("\033[1m", out);
	print_row(table->headings, widths, columns, most, out);
	if (color)
		fputs("\033[0m", out);
	for (size_t i = 0; i + (size_t)columns <= table->count; i += (size_t)columns)
		print_row((const char *const *)&table->cells[i], widths, columns, most, out);
}

void table_free(struct table *table) {
	for (size_t i = 0; i < table->count; i++)
		free(table->cells[i]);
	free(table->cells);
	table->cells = NULL;
	table->count = table->cap = 0;
}
