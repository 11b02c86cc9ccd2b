/* SPDX-License-Identifier: MIT */
/* What the driver and the allocator that fails (fault_alloc.c) share. */
#ifndef PROOF_FAULT_ALLOC_H
#define PROOF_FAULT_ALLOC_H

#include <stdatomic.h>
#include <stdint.h>

struct alloc_page {
	_Atomic int64_t countdown; /* allocations until the next failure; 0 or less: none fails */
	_Atomic int64_t every;     /* what the countdown begins again with; 0: it fails once */
	_Atomic int64_t failed;
};

#endif
