/* SPDX-License-Identifier: MIT */
/* The command's exit codes: the one list. --help prints it, sneck(1) and the tests repeat it.
 *
 * When the command that was run ended by itself, its own code is passed on, or 128+N when signal N
 * ended it; the codes here say that sneck has something to say instead. They follow sysexits.h,
 * and env(1) and timeout(1) from 124 on. */
#ifndef SNECK_CLI_EXIT_H
#define SNECK_CLI_EXIT_H

/* X(name, number, text) */
#define EXIT_MAP(X)                                                                 \
	X(EXIT_USAGE, 64, "wrong usage")                                            \
	X(EXIT_UNREACHABLE, 69, "the server cannot be reached or used")             \
	X(EXIT_BUSY, 75, "somebody else has the lock (another number with -E)")     \
	X(EXIT_NOPERM, 77, "the server refuses the password or a command")          \
	X(EXIT_CONFIG, 78, "wrong server URL or configuration file")                \
	X(EXIT_LOST, 79, "the lock was lost while the command ran; it was stopped") \
	X(EXIT_MAX_HOLD, 124, "--max-hold was exceeded; the command was stopped")   \
	X(EXIT_INTERNAL, 125, "sneck itself failed")                                \
	X(EXIT_CANNOT_RUN, 126, "the command was found but cannot be run")          \
	X(EXIT_NOT_FOUND, 127, "the command was not found")

enum exit_code {
#define EXIT_ENUM_(name, number, text) name = number,
	EXIT_MAP(EXIT_ENUM_)
#undef EXIT_ENUM_
	        EXIT_SIGNAL_BASE = 128 /* plus the signal's number */
};

#endif
