/* SPDX-License-Identifier: MIT */
#ifndef SNECK_VERSION_H
#define SNECK_VERSION_H

/* The one source of the version: the build, the package files and the command read it from here. */
#define SNECK_VERSION_MAJOR 0
#define SNECK_VERSION_MINOR 1
#define SNECK_VERSION_PATCH 0
#define SNECK_VERSION "0.1.0"
#define SNECK_VERSION_NUM (SNECK_VERSION_MAJOR * 10000 + SNECK_VERSION_MINOR * 100 + SNECK_VERSION_PATCH)

#endif
