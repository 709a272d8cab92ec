# Builds lock.so, and runs everything around it; `make help` lists the targets.
# `make` needs only a C compiler, and installs nothing. Every other target first installs what is missing: tools/setup.

PORT        ?= 6379
TEST_JOBS   ?= 8
FUZZ_STEPS  ?= 1000000
COMMANDS    ?= 1000000
MINUTES     ?= 2
SETTING     ?= all
MUTATE_JOBS ?= 1
BASE        ?= origin/main

CFLAGS     ?= -O2 -g
WARNINGS    = -Wall -Wextra -Wpedantic -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wcast-qual \
              -Wwrite-strings -Werror
# Of the module and lockctl. MODULE LIST shows a number: 0.1.0 is 100.
VERSION    := $(shell cat VERSION)
VERSIONED   = -DLOCK_VERSION=$(VERSION) -DLOCK_VERSION_NUMBER=$(shell awk -F. '{ print $$1 * 10000 + $$2 * 100 + $$3 }' VERSION)
COMPILE     = $(CC) -std=c11 $(WARNINGS) $(CFLAGS) $(VERSIONED) -MMD -MP
SANITIZE    = -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer

# The parts that need no server.
UNIT_SOURCES = $(wildcard module/core/*.c) $(wildcard tests/unit/support/*.c)
UNIT_OBJECTS = $(UNIT_SOURCES:%.c=build/unit/%.o)
UNIT_TESTS   = $(patsubst tests/unit/%.c,build/unit/%,$(wildcard tests/unit/test_*.c))
SOURCES      = $(wildcard module/*/*.c)
# The files that only the checking build has: the invariants, which are asserted after every use of a lock, the rules for
# handles of keys, and failpoints.
CHECKING     = module/grant/lockcheck.c module/core/queuecheck.c module/common/failpoint.c module/server/keycheck.c
OBJECTS      = $(patsubst module/%.c,build/obj/%.o,$(filter-out $(CHECKING),$(SOURCES)))
CHECKED_OBJECTS = $(patsubst module/%.c,build/checked/%.o,$(SOURCES))
TRACED_OBJECTS = $(patsubst module/%.c,build/traced/%.o,$(filter-out $(CHECKING),$(SOURCES))) build/traced/record.o
ASAN_OBJECTS = $(patsubst module/%.c,build/asan/%.o,$(SOURCES))
BENCH        = build/bench/lockbench
BENCH_SOURCES = $(wildcard bench/*.c bench/*/*.c)
BENCH_OBJECTS = $(BENCH_SOURCES:bench/%.c=build/bench/%.o)
# Not redismodule.h, which is a list with one item a line, however long the lines are.
C_FILES      = $(wildcard module/*/*.[ch] tests/paths/*.c tests/fuzz/*.[ch] tests/unit/*.[ch] tests/unit/*/*.[ch] bench/*.[ch] bench/*/*.[ch] \
                          lockctl/*.[ch] lockctl/*/*.[ch])
LOCKCTL      = build/lockctl/lockctl
LOCKCTL_STATIC = build/dist/lockctl-$(VERSION)-linux-$(shell uname -m)
LOCKCTL_SOURCES = $(wildcard lockctl/*.c lockctl/*/*.c)
LOCKCTL_OBJECTS = $(LOCKCTL_SOURCES:lockctl/%.c=build/lockctl/%.o)
PREFIX      ?= /usr/local
MODULEDIR   ?= $(PREFIX)/lib/redis/modules
# A single file is run without workers, because each worker would collect all tests first.
TESTS       ?= tests/integration
WORKERS      = $(if $(filter-out 1,$(words $(TESTS)))$(filter-out %.py,$(firstword $(subst ::, ,$(TESTS)))),-n $(TEST_JOBS) --dist worksteal)
PYTEST       = build/venv/bin/python -m pytest $(TESTS) $(WORKERS) $(PYTEST_ARGS)

PROCESSORS  := $(shell nproc 2> /dev/null || echo 1)

# Where tools/setup and tools/servers put the project's own servers.
export PATH := $(PATH):$(CURDIR)/build/servers

# Compiled Python is kept, regardless of the machine's settings, and outside of the source tree: each of pytest's workers
# reads all tests, which takes 4 s with it and 12 s without it.
export PYTHONPYCACHEPREFIX := $(CURDIR)/build/pycache
unexport PYTHONDONTWRITEBYTECODE

.PHONY: all compiler lockctl lockctl-static install uninstall test-lockctl picture run test test-all release-check unit integration paths fuzz fuzz-commands valgrind mutate lint subjects words versions format format-check tidy cppcheck shellcheck layers \
        header-check model monitoring torture torture-check bench bench-field bench-field-docs test-bench-field dist deb check-deb check-upgrade check-image rpm redis-software clean distclean help FORCE
.DELETE_ON_ERROR:

all: $(if $(CHECKED),build/checked/lock.so,lock.so) ## build lock.so (the default); with CHECKED=1 build/checked/lock.so

lock.so: $(OBJECTS)
	$(CC) -shared $(CFLAGS) $(LDFLAGS) -o $@ $(OBJECTS)

build/checked/lock.so: $(CHECKED_OBJECTS)
	$(CC) -shared $(CFLAGS) $(LDFLAGS) -o $@ $(CHECKED_OBJECTS)

build/traced/lock.so: $(TRACED_OBJECTS)
	$(CC) -shared $(CFLAGS) $(LDFLAGS) -o $@ $(TRACED_OBJECTS)

build/asan/lock.so: $(ASAN_OBJECTS)
	$(CC) -shared $(CFLAGS) $(LDFLAGS) $(SANITIZE) -o $@ $(ASAN_OBJECTS)

# Needed for everything that is compiled. If only files of the build are requested, it is not installed: then
# tools/setup prints what to do.
compiler:
	@tools/setup $(if $(filter-out all lock.so build/%,$(or $(MAKECMDGOALS),all)),,--check) compiler

build/obj/%.o: module/%.c build/obj/flags
	@mkdir -p $(@D)
	$(COMPILE) -fPIC -fvisibility=hidden -I. -Imodule -c -o $@ $<

build/checked/%.o: module/%.c build/checked/flags
	@mkdir -p $(@D)
	$(COMPILE) -DCHECKED -fPIC -fvisibility=hidden -I. -Imodule -c -o $@ $<

TRACE = -finstrument-functions -fPIC -fvisibility=hidden -I. -Imodule
build/traced/%.o: module/%.c build/traced/flags
	@mkdir -p $(@D)
	$(COMPILE) $(TRACE) -c -o $@ $<

build/traced/record.o: tests/paths/record.c build/traced/flags
	$(COMPILE) $(TRACE) -c -o $@ $<

build/asan/%.o: module/%.c build/asan/flags
	@mkdir -p $(@D)
	$(COMPILE) $(SANITIZE) -DCHECKED -fPIC -fvisibility=hidden -I. -Imodule -c -o $@ $<

# Changes when the compiler, a flag or the list of files changes, so that everything is rebuilt.
build/obj/flags build/checked/flags build/traced/flags build/asan/flags build/unit/flags build/bench/flags build/lockctl/flags: FORCE compiler
	@mkdir -p $(@D)
	@echo '$(COMPILE) $(LDFLAGS) $(SOURCES)' | cmp -s - $@ || echo '$(COMPILE) $(LDFLAGS) $(SOURCES)' > $@

build/bench/flags: SOURCES = $(BENCH_SOURCES)
build/lockctl/flags: SOURCES = $(LOCKCTL_SOURCES)

lockctl: ## build lockctl, the command line program: build/lockctl/lockctl
	@tools/setup lockctl
	@$(MAKE) --no-print-directory $(LOCKCTL)

$(LOCKCTL): $(LOCKCTL_OBJECTS)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(LOCKCTL_OBJECTS) $$(cat build/hiredis/libs) -levent_core -ljansson -lncursesw

lockctl-static: ## build lockctl without shared libraries, for other Linux machines with this processor, in build/dist
	@tools/setup lockctl
	@$(MAKE) --no-print-directory $(LOCKCTL_STATIC)
	@echo $(LOCKCTL_STATIC)

$(LOCKCTL_STATIC): $(LOCKCTL_OBJECTS)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -static-pie -s -o $@ $(LOCKCTL_OBJECTS) $$(cat build/hiredis/libs) \
	    $$(pkg-config --static --libs libssl libevent_core jansson ncursesw)

build/lockctl/%.o: lockctl/%.c build/lockctl/flags
	@mkdir -p $(@D)
	$(COMPILE) -D_GNU_SOURCE $$(cat build/hiredis/cflags) -Ilockctl -c -o $@ $<

install: lock.so lockctl ## install the module, lockctl, its man page and its completion (PREFIX=/usr/local, MODULEDIR=, DESTDIR=)
	install -D -m 755 lock.so $(DESTDIR)$(MODULEDIR)/lock.so
	install -D -m 755 $(LOCKCTL) $(DESTDIR)$(PREFIX)/bin/lockctl
	install -D -m 644 lockctl/lockctl.1 $(DESTDIR)$(PREFIX)/share/man/man1/lockctl.1
	install -D -m 644 lockctl/completion.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/lockctl

uninstall: ## remove what make install has installed
	rm -f $(DESTDIR)$(MODULEDIR)/lock.so $(DESTDIR)$(PREFIX)/bin/lockctl \
	    $(DESTDIR)$(PREFIX)/share/man/man1/lockctl.1 $(DESTDIR)$(PREFIX)/share/bash-completion/completions/lockctl

dist: ## make build/dist/lock-so-VERSION.tar.gz, the sources of the last commit; made twice, it is the same
	@tools/make-dist

deb: ## make Debian packages of the last commit, for this machine's Debian, in build/dist
	@tools/make-deb

check-deb: ## make the packages on fresh machines, install, upgrade and remove them there
	@tools/check-deb

check-upgrade: compiler ## test upgrades from an earlier module: AOF, RDB, servers one after the other under load (FROM=commit; default: the last release)
	@old=$$(tools/build-old $(FROM)) && OLD_MODULE=$$old $(MAKE) --no-print-directory integration TESTS=tests/integration/server/test_upgrade.py

check-image: ## make the images of packaging/Containerfile, run them, and packaging/compose.yaml with them, as root
	@tools/check-image

rpm: ## check the RPM spec, and make packages with it in build/rpm (not tried on a system with RPM)
	@tools/make-rpm

redis-software: ## make the zip in which Redis Software takes a module, in build/dist (not tried there)
	@tools/make-zip

run: lock.so ## start a server with the module, in the foreground (PORT=6379, SERVER=redis-server)
	@tools/run-server $(PORT)

test: unit integration ## run the module's tests

test-all: ## run everything, including all of what .ci/run runs only a part of: hours
	.ci/run all

release-check: ## run what must pass before a release, test-all too: hours, as root (STEPS="check-packages check-image")
	@tools/release-check $(STEPS)

unit: ## run the unit tests, under AddressSanitizer and UBSan
	@tools/setup test
	@$(MAKE) --no-print-directory -j$(PROCESSORS) $(UNIT_TESTS)
	@$(MAKE) --no-print-directory -j$(PROCESSORS) --keep-going --output-sync=target $(UNIT_TESTS:=.run)

fuzz: ## run the fuzz tests of the unit tests for longer (FUZZ_STEPS=1000000, FUZZ_SEED=)
	@tools/setup test
	@$(MAKE) --no-print-directory $(filter build/unit/test_fuzz%,$(UNIT_TESTS))
	@set -e; for test in $(filter build/unit/test_fuzz%,$(UNIT_TESTS)); do FUZZ_STEPS=$(FUZZ_STEPS) $$test; done

paths: build/traced/lock.so ## show how much code acquiring, releasing and the end of a lease run through (VERBOSE=1)
	@tools/setup test
	@MODULE=build/traced/lock.so VERBOSE='$(VERBOSE)' PYTHONPATH=tests/integration build/venv/bin/python tests/paths/paths.py

# With ASan's library loaded before the server's allocator: tests/fuzz/README.md.
fuzz-commands: $(if $(filter build/asan/lock.so,$(MODULE)),build/asan/preload.so)
fuzz-commands: $(MODULE) ## send random commands of all kinds to a server (COMMANDS=1000000, SEED=, SERVER=, MODULE=build/asan/lock.so, CLUSTER=1, IO_THREADS=3, REPLAY=file)
	@tools/setup test
	@COMMANDS='$(COMMANDS)' SEED='$(SEED)' CLUSTER='$(CLUSTER)' IO_THREADS='$(IO_THREADS)' REPLAY='$(REPLAY)' MODULE=$(MODULE) \
	    PRELOAD='$(if $(filter build/asan/lock.so,$(MODULE)),$(ASAN_PRELOAD))' build/venv/bin/python tests/fuzz/fuzz.py

ASAN_PRELOAD = $(CURDIR)/build/asan/preload.so $(foreach name,asan ubsan,$(shell $(CC) -print-file-name=lib$(name).so))

build/asan/preload.so: tests/fuzz/preload.c build/asan/flags
	@mkdir -p $(@D)
	$(COMPILE) -fPIC -shared -o $@ $<

# One archive, so that a change compiles only one file, and links.
build/unit/%.o: %.c build/unit/flags
	@mkdir -p $(@D)
	$(COMPILE) $(SANITIZE) -Imodule -Itests/unit -c -o $@ $<

build/unit/common.a: $(UNIT_OBJECTS)
	@rm -f $@
	ar rc $@ $^

build/unit/%: build/unit/tests/unit/%.o build/unit/common.a
	$(CC) $(CFLAGS) $(LDFLAGS) $(SANITIZE) -o $@ $^ -lcmocka

.SECONDARY: $(UNIT_TESTS:build/unit/%=build/unit/tests/unit/%.o)

build/unit/%.run: build/unit/%
	@$<

# The module that the integration tests load.
MODULE ?= build/checked/lock.so

integration: $(MODULE) ## run the integration tests with the checking build (TESTS=: files or folders; MODULE=lock.so: the build for users; SERVER=redis-server, PYTEST_ARGS=)
	@tools/setup test
	MODULE=$(MODULE) $(PYTEST)

test-lockctl: $(MODULE) lockctl ## run the tests of lockctl (TESTED_LOCKCTL=: another one; PYTEST_ARGS=; --valgrind: with every lockctl under Valgrind)
	@tools/setup test-lockctl
	$(if $(TESTED_LOCKCTL),LOCKCTL=$(TESTED_LOCKCTL)) MODULE=$(MODULE) build/venv/bin/python -m pytest tests/lockctl -n $(TEST_JOBS) --dist worksteal $(PYTEST_ARGS)

picture: lock.so lockctl ## regenerate docs/lockctl-top.svg
	@tools/setup test-lockctl
	build/venv/bin/python tests/lockctl/look/picture.py

valgrind: lock.so ## run the integration tests with every server under Valgrind
	@tools/setup valgrind
	$(PYTEST) --valgrind -k 'not resp3' $$(sed -nE 's|^([^# ]+).*|--ignore-glob=tests/integration/\1.py|p' tests/valgrind.without)

mutate: ## show which mutants of the lines that differ from BASE no test notices (BASE=origin/main, ALL=1, COUNT=, SEED=)
	@tools/setup mutate
	@CC='$(CC)' SANITIZE='$(SANITIZE)' VERSIONED='$(VERSIONED)' UNIT_SOURCES='$(UNIT_SOURCES)' CHECKING='$(CHECKING)' TEST_JOBS='$(TEST_JOBS)' \
	    MUTATE_JOBS='$(MUTATE_JOBS)' BASE='$(BASE)' ALL='$(ALL)' COUNT='$(COUNT)' SEED='$(SEED)' \
	    build/venv/bin/python tests/mutation/run.py

# Only the torture test needs Go. It downloads the packages of go.sum with the machine's settings, but no other Go.
GO = cd tests/torture && GOTOOLCHAIN=local go

torture: $(MODULE) torture-check ## run random commands while servers fail, and check the history (MINUTES=2, SEED=, SETTING=unprotected|replicas|quarantine|frozen|calm|all, SERVER=)
	@$(GO) build -buildvcs=false -o $(CURDIR)/build/torture/torture .
	@build/torture/torture -minutes $(MINUTES) -seed $(or $(SEED),0) -setting $(SETTING) -module $(MODULE) \
	    $(if $(SERVER),-server $(SERVER)) $(TORTURE_ARGS)

torture-check: ## check the format of the torture test, and test its history checker
	@tools/setup torture
	@mkdir -p build/torture
	@cd tests/torture && bad=$$(gofmt -l .) && [ -z "$$bad" ] || { echo "gofmt -w $$bad"; exit 1; }
	@$(GO) vet -buildvcs=false ./...
	@$(GO) test ./...

# Each check records in build/lint which files have passed, and checks only files that have changed since.
lint: subjects words versions format-check tidy cppcheck shellcheck layers ## run all checks of the source, for files that have changed since the last time

format: ## format the source according to .clang-format
	@tools/setup lint
	clang-format -i $(C_FILES)

TIDIED  = $(patsubst %,build/lint/%.tidied,$(filter %.c,$(C_FILES)))
SCRIPTS = $(filter-out %.list,$(wildcard tools/*)) .ci/run lockctl/completion.bash

subjects: ## check that the subjects of commits are at most 72 characters long
	@tools/check-subjects

words: ## check that no word of the old vocabulary comes back: tools/words.list
	@tools/check-words

versions: ## check that all manifests have the version of the file VERSION and the address of the file REPOSITORY
	@tools/check-version

format-check: ## check the format of the source
	@tools/setup lint
	@$(MAKE) --no-print-directory --silent build/lint/format

build/lint/format: $(C_FILES) .clang-format
	@mkdir -p $(@D)
	clang-format --dry-run --Werror $(if $(filter .clang-format,$?),$(C_FILES),$?)
	@touch $@

tidy: ## run clang-tidy
	@tools/setup lint lockctl
	@$(MAKE) --no-print-directory --silent -j$(PROCESSORS) --keep-going --output-sync=target $(TIDIED)

# One process for each file: in one process for all, the analyzer confuses the va_lists of different files.
build/lint/%.tidied: TIDY = -std=c11 -I. -Imodule -Itests/unit -Ibench -Ilockctl -D_GNU_SOURCE $(VERSIONED) $$(cat build/hiredis/cflags)
build/lint/%.tidied: % .clang-tidy
	@mkdir -p $(@D)
	@echo clang-tidy $<
	@clang-tidy --quiet $< -- $(TIDY)
	@$(CC) $(TIDY) -MM -MP -MT $@ -MF $@.d $<
	@touch $@

cppcheck: ## run cppcheck
	@tools/setup lint
	@mkdir -p build/lint/cppcheck
	cppcheck --quiet --cppcheck-build-dir=build/lint/cppcheck --std=c11 --enable=warning,performance,portability --inline-suppr \
	    --error-exitcode=1 -I. -Imodule module

shellcheck: ## check the shell scripts
	@tools/setup lint
	@$(MAKE) --no-print-directory --silent build/lint/scripts

build/lint/scripts: $(SCRIPTS)
	@mkdir -p $(@D)
	shellcheck --shell=bash --external-sources $?
	@touch $@

layers: ## check that every file includes only files of lower layers
	@$(MAKE) --no-print-directory --silent build/lint/layers

build/lint/layers: $(C_FILES) $(wildcard module/README.md module/*/README.md bench/README.md bench/*/README.md \
                   lockctl/README.md lockctl/*/README.md) tools/check-layers
	@mkdir -p $(@D)
	@tools/check-layers
	@touch $@

header-check: ## compare redismodule.h with the official header of Redis 7.0
	@tools/check-header

model: ## check the claims of docs/safety.md with a model checker, spin (CLAIMS="4 6"; THOROUGH=1: two failovers)
	@CC='$(CC)' THOROUGH='$(THOROUGH)' tools/check-model $(CLAIMS)

monitoring: $(MODULE) ## test docs/monitoring with a real Prometheus and redis_exporter (SUITE= of Debian, SERVER=redis-server, PYTEST_ARGS=)
	@tools/setup test
	@tools/monitoring $(SUITE)
	MODULE=$(MODULE) SUITE=$(or $(SUITE),machine) build/venv/bin/python -m pytest tests/monitoring $(PYTEST_ARGS)

bench: lock.so $(BENCH) ## measure what the module costs (BENCH_ARGS=, SERVER=redis-server)
	MODULE=$(CURDIR)/lock.so $(BENCH) $(BENCH_ARGS)

$(BENCH): $(BENCH_OBJECTS)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(BENCH_OBJECTS) -lhiredis -lm

build/bench/%.o: bench/%.c build/bench/flags | build/bench/ready
	@mkdir -p $(@D)
	$(COMPILE) -Ibench -c -o $@ $<

# Done once, before anything is compiled.
build/bench/ready: | compiler
	@tools/setup bench
	@mkdir -p $(@D)
	@touch $@

# Java, Maven, Go, Node and npm must be installed by you: nothing else needs them. Downloads go to build/field.
# Measurements whose tools are missing are skipped, and the exit status is 1.
FIELD_PARTS ?= locks delay scale
FIELD_PYTHON = build/field/venv/bin/python
bench-field: lock.so ## compare with other locks and queues; needs Java, Maven, Go, Node (FIELD_ARGS=--quick, FIELD_PARTS=, SERVER=)
	@tools/setup bench-field
	@status=0; for part in $(FIELD_PARTS); do $(FIELD_PYTHON) bench/field/$$part.py $(FIELD_ARGS) || status=1; done; exit $$status

bench-field-docs: ## write docs/benchmarks.md, docs/scale.md and their plots from the last run of bench-field
	@tools/setup bench-field
	@$(FIELD_PYTHON) bench/field/report.py

test-bench-field: ## test the code that draws the plots, which is not part of make test
	@tools/setup bench-field
	@$(FIELD_PYTHON) -m pytest -q -p no:cacheprovider tests/field

clean: ## remove what was built
	rm -rf lock.so build/obj build/checked build/asan build/fuzz-commands build/unit build/bench build/bench-field build/lockctl build/lint build/run build/tests \
	    build/model build/torture

distclean: clean ## remove everything that is not in the repository, including the Python environment and the servers
	rm -rf build tests/.pytest_cache
	find tests -name __pycache__ -exec rm -rf {} +

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

include clients/clients.mk

-include $(OBJECTS:.o=.d) $(CHECKED_OBJECTS:.o=.d) $(TRACED_OBJECTS:.o=.d) $(ASAN_OBJECTS:.o=.d) $(UNIT_OBJECTS:.o=.d) $(UNIT_TESTS:build/unit/%=build/unit/tests/unit/%.d) $(BENCH_OBJECTS:.o=.d) $(LOCKCTL_OBJECTS:.o=.d) $(TIDIED:=.d)
