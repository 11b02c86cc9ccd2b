/* SPDX-License-Identifier: MIT */
/* The public headers as a program sees them: compiled as C11 and as C++17 with every warning an
 * error. Touches the macros, which nothing else in the headers compiles. */
#include <sneck/sneck.h>

static const char *name_of(int code) {
	switch (code) {
#define NAME_(name, number, outcome, text) \
	case name:                         \
		return text;
		SNECK_ERROR_MAP(NAME_)
#undef NAME_
	default:
		return "";
	}
}

int main(void) {
	sneck_client_options client_options = SNECK_CLIENT_OPTIONS_INIT;
	sneck_acquire_options acquire_options = SNECK_ACQUIRE_OPTIONS_INIT;

	acquire_options.wait_ms = SNECK_WAIT_FOREVER;
	if (client_options.size != sizeof(client_options) || acquire_options.size != sizeof(acquire_options))
		return 1;
	if (SNECK_VERSION_NUM !=
	        SNECK_VERSION_MAJOR * 10000 + SNECK_VERSION_MINOR * 100 + SNECK_VERSION_PATCH)
		return 2;
	return name_of(SNECK_EBUSY)[0] && SNECK_ELOST < 0 ? 0 : 3;
}
