/* SPDX-License-Identifier: MIT */
/* What a Redis server may answer instead of an answer, word for word as version 7.0 says it (with the ending
 * that it adds to errors inside scripts): X(name, text). In all of these cases nothing was executed. */
#ifndef SNECK_TESTS_SERVER_ERRORS_H
#define SNECK_TESTS_SERVER_ERRORS_H

#define TEST_SERVER_ERRORS(X)                                                                                \
	X("noscript", "NOSCRIPT No matching script. Please use EVAL.")                                       \
	X("loading", "LOADING Redis is loading the dataset in memory")                                       \
	X("readonly", "READONLY You can't write against a read only replica. script: 0, on @user_script:1.") \
	X("masterdown", "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.")  \
	X("busy", "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.")  \
	X("oom", "OOM command not allowed when used memory > 'maxmemory'. script: 0, on @user_script:1.")    \
	X("misconf", "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to "      \
	             "persist to disk.")                                                                     \
	X("noreplicas", "NOREPLICAS Not enough good replicas to write.")                                     \
	X("noauth", "NOAUTH Authentication required.")                                                       \
	X("noperm", "NOPERM this user has no permissions to run the 'evalsha' command")                      \
	X("clusterdown", "CLUSTERDOWN The cluster is down")                                                  \
	X("moved", "MOVED 3999 127.0.0.1:6381")                                                              \
	X("ask", "ASK 3999 127.0.0.1:6381")                                                                  \
	X("tryagain", "TRYAGAIN Multiple keys request during rehashing of slot")                             \
	X("maxclients", "ERR max number of clients reached")                                                 \
	X("unknown", "XYZZY nothing happens")

#endif
