/* SPDX-License-Identifier: MIT */
/* SNECK_TEST_FILTER=pattern: run only the tests of a program whose names match. Linked into every test
 * program, so that tools/mutants (and a person with one failing test) need not run the others. A
 * pattern that matches nothing is a run without tests, which cmocka counts as passed: whoever sets it
 * must look for the test's name in the output. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

__attribute__((constructor)) static void filter_tests(void) {
	const char *pattern = getenv("SNECK_TEST_FILTER");

	if (pattern && pattern[0])
		cmocka_set_test_filter(pattern);
}
