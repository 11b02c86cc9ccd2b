/* SPDX-License-Identifier: MIT */
/* Patterns for names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/glob.h"

static void patterns_match_names(void **state) {
	(void)state;
	static const struct {
		const char *pattern, *text;
		bool match;
	} rows[] = {
		{ "", "", true },
		{ "", "a", false },
		{ "*", "", true },
		{ "*", "anything", true },
		{ "a", "a", true },
		{ "a", "b", false },
		{ "a", "ab", false },
		{ "ab", "a", false },
		{ "a?c", "abc", true },
		{ "a?c", "ac", false },
		{ "orders/*", "orders/42", true },
		{ "orders/*", "order/42", false },
		{ "*42", "orders/42", true },
		{ "*42", "orders/421", false },
		{ "a*b*c", "a-b-b-c", true },
		{ "a*b*c", "a-c-b", false },
		{ "a**c", "ac", true },
		{ "[a-c]x", "bx", true },
		{ "[c-a]x", "bx", true },
		{ "[a-c]x", "dx", false },
		{ "[^a-c]x", "dx", true },
		{ "[^a-c]x", "bx", false },
		{ "[ab-]", "-", true },
		{ "[\\]]", "]", true },
		{ "[ab", "[ab", true }, /* never closed: it stands for itself */
		{ "[ab", "a", false },
		{ "\\*", "*", true },
		{ "\\*", "x", false },
		{ "a\\", "a\\", true },
		{ "*[0-9]", "job7", true },
		{ "*[0-9]", "jobs", false },
	};
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		if (snecki_glob(rows[i].pattern, rows[i].text, strlen(rows[i].text)) != rows[i].match)
			fail_msg("\"%s\" and \"%s\"", rows[i].pattern, rows[i].text);
	assert_true(snecki_glob("a*b", "a\0\n\0b", 5));
	assert_true(snecki_glob("a?b", "a\0b", 3));
	assert_false(snecki_glob("a", "a\0b", 3));
}

/* A pattern that makes a careless matcher try for ever. */
static void stars_are_not_tried_without_end(void **state) {
	(void)state;
	static char text[1024];
	memset(text, 'a', sizeof text);
	assert_false(snecki_glob("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", text, sizeof text));
	assert_true(snecki_glob("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a", text, sizeof text));
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(patterns_match_names),
		cmocka_unit_test(stars_are_not_tried_without_end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
