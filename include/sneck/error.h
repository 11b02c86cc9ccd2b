/* SPDX-License-Identifier: MIT */
#ifndef SNECK_ERROR_H
#define SNECK_ERROR_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A call ends in one of four ways, and a program must treat each differently. */
enum sneck_outcome {
	SNECK_OUTCOME_OK = 0,
	SNECK_OUTCOME_REFUSED = 1, /* somebody else has it, or the caller gave up: not taken */
	SNECK_OUTCOME_FAILED = 2,  /* nothing happened on the server */
	SNECK_OUTCOME_UNKNOWN = 3, /* sent, no answer; the library settles it in the background */
	SNECK_OUTCOME_LOST = 4     /* the hold is gone: stop the work it protected */
};

/* X(code, number, outcome, text): the only list of results; enum, names and texts come from it. */
#define SNECK_ERROR_MAP(X)                                                                                 \
	X(SNECK_EBUSY, -1, SNECK_OUTCOME_REFUSED, "the lock is held by another")                           \
	X(SNECK_ETIMEDOUT, -2, SNECK_OUTCOME_REFUSED, "the lock was not obtained in time")                 \
	X(SNECK_ECANCELED, -3, SNECK_OUTCOME_REFUSED, "the wait was cancelled")                            \
	X(SNECK_EDEADLK, -4, SNECK_OUTCOME_REFUSED, "another reader is upgrading; waiting would deadlock") \
	X(SNECK_EINVAL, -10, SNECK_OUTCOME_FAILED, "invalid argument")                                     \
	X(SNECK_ENOTOWNER, -11, SNECK_OUTCOME_FAILED, "the hold belongs to another thread or program")     \
	X(SNECK_ENOTHELD, -12, SNECK_OUTCOME_FAILED, "nothing of that kind is held")                       \
	X(SNECK_ENOTSUP, -13, SNECK_OUTCOME_FAILED, "not supported")                                       \
	X(SNECK_ETYPE, -14, SNECK_OUTCOME_FAILED,                                                          \
	        "the key holds something that is not a lock of this protocol")                             \
	X(SNECK_ECONN, -15, SNECK_OUTCOME_FAILED, "the server cannot be reached")                          \
	X(SNECK_EACCES, -16, SNECK_OUTCOME_FAILED, "the server refuses the credentials or the command")    \
	X(SNECK_ESERVER, -17, SNECK_OUTCOME_FAILED, "the server answered with an error")                   \
	X(SNECK_ENOMEM, -18, SNECK_OUTCOME_FAILED, "out of memory")                                        \
	X(SNECK_EFORKED, -19, SNECK_OUTCOME_FAILED,                                                        \
	        "the client was opened before a fork; open another in this process")                       \
	X(SNECK_ECLOSED, -20, SNECK_OUTCOME_FAILED, "the client is being closed")                          \
	X(SNECK_ESYS, -21, SNECK_OUTCOME_FAILED, "a system call failed")                                   \
	X(SNECK_EREPLICAS, -22, SNECK_OUTCOME_FAILED,                                                      \
	        "too few replicas have acknowledged in time; the grant was undone")                        \
	X(SNECK_EUNKNOWN, -30, SNECK_OUTCOME_UNKNOWN,                                                      \
	        "sent, but not answered; being settled in the background")                                 \
	X(SNECK_ELOST, -40, SNECK_OUTCOME_LOST, "the lease has ended or the lock is gone from the server") \
	X(SNECK_EBROKEN, -41, SNECK_OUTCOME_LOST, "the lock was broken by an operator")

enum sneck_code {
	SNECK_OK = 0,
#define SNECK_ERROR_ENUM_(code, number, outcome, text) code = number,
	SNECK_ERROR_MAP(SNECK_ERROR_ENUM_)
#undef SNECK_ERROR_ENUM_
	        SNECK_ERROR_LAST_ = -1000
};

/* Detail of a failed call, in the caller's memory. Filled on failure only; `text` is for people
 * (it says what to do next) and is never to be compared. */
typedef struct sneck_error {
	int code;        /* the SNECK_E… that the call returned */
	int sys_errno;   /* errno behind it, or 0 */
	char server[24]; /* first word of the server's error reply, or "" */
	char text[512];
} sneck_error;

#ifdef __cplusplus
}
#endif

#endif
