# SPDX-License-Identifier: MIT
# A thin front of CMake: what people type. Each build has its own directory below build/.

PREFIX ?= /usr/local
DESTDIR ?=
# Options for ctest, e.g. make test CTEST='-R local'
CTEST ?=
# Options for bench/compare, e.g. make bench BENCH='--only pair --peers sneck,redsync'
BENCH ?=
BENCH_MINUTES ?=
# Options and names for tools/mutants, e.g. make mutants MUTANTS=no-tombstone
MUTANTS ?=

.DEFAULT_GOAL := all
.PHONY: all test topologies topologies-quick asan tsan mutants mutants-quick install bench bench-quick bench-doc fault fault-quick fault-dialects proof proof-doc format check-format layers size ci clean help setup-run setup-dev setup-interop

all: setup-run ## build the library and the command into build/release
	@tools/build.sh release

test: setup-dev ## install what is missing, build, run every test
	@tools/build.sh dev
	@tools/run-tests.sh build/dev -LE topology $(CTEST)

topologies: setup-dev ## the lock conformance suite on every topology, with and without TLS, in MINUTES (45) at most
	@tools/build.sh dev
	@tools/run-tests.sh build/dev -L topology --stop-time "$$(date -d '+$(or $(MINUTES),45) minutes' +%T)" $(CTEST)

topologies-quick: setup-dev ## the native dialect on every topology, each other dialect on one, about two minutes
	@tools/build.sh dev
	@tools/run-tests.sh build/dev -L topology-ci --stop-time "$$(date -d '+$(or $(MINUTES),10) minutes' +%T)" $(CTEST)

# What sanitizers are spared: tests of the rigs themselves, other libraries, and long waits for servers that run no
# code of ours.
UNSANITIZED := ^(control_naive|control_redispy.*|test_half_open|test_cluster_rig|test_doctor_failover|test_cli_sentinel|test_sentinel_stale|test_secrets|mutants_.*)$$

asan: setup-dev ## the tests with AddressSanitizer and UndefinedBehaviorSanitizer
	@tools/build.sh asan
	@tools/run-tests.sh build/asan -LE "dialect|topology" -E "$(UNSANITIZED)" $(CTEST)

tsan: setup-dev ## the tests with ThreadSanitizer
	@tools/build.sh tsan
	@tools/run-tests.sh build/tsan -LE "no-tsan|dialect|topology" -E "$(UNSANITIZED)" $(CTEST)

mutants: setup-dev ## put known defects into a copy, one by one; each must be caught by its test
	@tools/mutants --json=build/mutants/mutants.json $(MUTANTS)

mutants-quick: setup-dev ## the same with a few, others every day
	@tools/mutants --quick $(MUTANTS)

interop: setup-interop ## the real Redisson from Maven and sneck on one server, and in a cluster
	@tools/build.sh dev
	@tests/interop/run.sh build/dev

install: setup-run ## install below PREFIX (and DESTDIR)
	@tools/build.sh release
	@DESTDIR='$(DESTDIR)' cmake --install build/release --prefix '$(PREFIX)'

bench: setup-dev ## sneck beside its peers, an hour (or BENCH_MINUTES); writes docs/performance.md
	@bench/compare $(if $(BENCH_MINUTES),--minutes $(BENCH_MINUTES)) $(BENCH)

bench-quick: setup-dev ## the same without peers, two minutes; writes no document
	@bench/compare --quick $(BENCH)

bench-doc: ## the tables and plots of docs/performance.md, from its results
	@bench/compare --report

fault: setup-dev ## faults of all kinds for MINUTES (5), from SEED (chosen and printed)
	@tools/build.sh dev
	@build/dev/proof/sneck-nemesis --minutes $(or $(MINUTES),5) $(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only $(ONLY))

fault-quick: setup-dev ## a short form of the campaigns, about two minutes
	@tools/build.sh dev
	@proof/run quick build/dev

fault-dialects: setup-dev ## the campaigns on the layouts of other programs, about four minutes
	@tools/build.sh dev
	@proof/run dialects build/dev

proof: setup-dev ## the campaigns on one server in full, about an hour; writes docs/proof/*.json and docs/proof.md
	@tools/build.sh dev
	@proof/run full build/dev

proof-doc: ## the figures of docs/proof.md, from the results
	@tools/proof-doc.sh

format: ## format every C file
	@tools/check-format.sh --fix

check-format: ## fail when a C file is not formatted
	@tools/check-format.sh

layers: ## fail when an include goes upwards
	@tools/check-layers.sh

size: ## fail when a file is too long
	@tools/check-size.sh

ci: ## everything that must pass
	@.ci/run

clean: ## remove build/
	@rm -rf build

help: ## this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1\t\2/p' Makefile | expand -t 16

setup-run:
	@tools/setup run

setup-dev:
	@tools/setup dev

setup-interop:
	@tools/setup interop
