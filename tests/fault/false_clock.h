/* SPDX-License-Identifier: MIT */
/* What lies in the file of a false clock. Zeros are the true time; a file that ends behind `step_us` does
 * not drift. */
#ifndef TESTS_FAULT_FALSE_CLOCK_H
#define TESTS_FAULT_FALSE_CLOCK_H

#include <stdint.h>

struct false_clock_page {
	int64_t step_us;        /* added to the wall clock */
	int64_t drift_ppm;      /* it runs faster by this; 0: at the true rate */
	int64_t drift_since_us; /* the true time at which the drift began */
};

#endif
