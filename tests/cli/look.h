/* SPDX-License-Identifier: MIT */
/* What the tests of the commands that look at locks share: somebody who holds, somebody who waits,
 * and the JSON that a command printed. */
#ifndef SNECK_TESTS_LOOK_H
#define SNECK_TESTS_LOOK_H

#include <jansson.h>

#include "cli.h"
#include "server.h"

/* Hold `name` by `sneck run OPTIONS… name -- …` until cli_wait(); returns once it is held. */
void look_hold(
        struct cli *cli, const struct test_server *server, const char *name, const char *const *options);
/* Run `sneck run name -- echo got`, and return once it stands in the queue as number `place`. */
void look_queue(struct cli *cli, const struct test_server *server, const char *name, int place);
/* Run a command that must exit with `code` and print one JSON object of schema 1; json_decref() it. */
json_t *look_json(const struct test_server *server, int code, const char *const *args);
/* How many wait for `name`, and how many hold it, as `sneck show` says. */
long long look_count(const struct test_server *server, const char *name, const char *what);
/* "locks.0.holders.0.pid": fails the test when it is not there. */
json_t *look_at(json_t *json, const char *path);
const char *look_text(json_t *json, const char *path);
long long look_number(json_t *json, const char *path);

#endif
