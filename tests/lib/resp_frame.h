/* SPDX-License-Identifier: MIT */
/* Where a protocol message ends. Only what the proxy needs: it trusts both of its peers. */
#ifndef TESTS_LIB_RESP_FRAME_H
#define TESTS_LIB_RESP_FRAME_H

#include <stdbool.h>
#include <stddef.h>

/* Length of the first whole message in `data`, or 0 when it is not complete yet. */
size_t test_resp_frame(const char *data, size_t len);
/* Is the `index`-th element of the array at `data` the string `word`, in any case? */
bool test_resp_element_is(const char *data, size_t len, int index, const char *word);
/* Elements of the array at `data`, or -1 when it is something else. */
long test_resp_elements(const char *data, size_t len);

#endif
