# The client packages. Each language's own lines are in clients/LANGUAGE/client.mk: client-LANGUAGE builds the package
# and build/clients/LANGUAGE/runner, test-client-LANGUAGE runs the package's own tests. You must install Go, Java, Maven,
# Node and Rust yourself; tools/setup clients reports what is missing.

LANGUAGES ?= $(patsubst clients/%/client.mk,%,$(wildcard clients/*/client.mk))
FLAVOURS  ?=
HANDOFF_ROUNDS ?= 400
CONFORM    = LANGUAGES='$(LANGUAGES)' FLAVOURS='$(FLAVOURS)' MODULE=$(MODULE) build/venv/bin/python -m pytest clients/conformance

# What the runners with the oldest supported libraries play of the suite: another part with each commit, because .ci/run
# derives LOCK_SEED from it.
OLDEST_PART = -n 4 --dist worksteal --share $$(($${LOCK_SEED:-0} % 32))/32

STEADY     = PYTHONPATH=tests/integration build/venv/bin/python -m harness.steady

.PHONY: clients test-clients conformance handoff packages check-packages $(LANGUAGES:%=client-%) $(LANGUAGES:%=test-client-%)

clients: ## build the client packages and their runners (LANGUAGES="python go")
	@tools/setup test $(LANGUAGES:%=client-%)
	@$(MAKE) --no-print-directory $(LANGUAGES:%=client-%)

test-clients: clients $(MODULE) ## run the tests of each client package, and the conformance suite on all of them (LANGUAGES=, FLAVOURS=, PYTEST_ARGS=)
	@set -e; for language in $(LANGUAGES); do $(STEADY) $(MAKE) --no-print-directory test-client-$$language PYTEST_ARGS=; done
	@$(MAKE) --no-print-directory conformance

conformance: clients $(MODULE) ## run only the conformance suite, also on another server (LANGUAGES=, FLAVOURS=, SERVER=, PYTEST_ARGS=)
	$(CONFORM) -n $(TEST_JOBS) --dist worksteal $(PYTEST_ARGS)

# With the build for users, because the checking build asserts its invariants in each hand-off.
handoff: MODULE = lock.so
handoff: clients lock.so ## measure hand-offs by the client packages, compared with their libraries' BLPOP (LANGUAGES=, FLAVOURS=, HANDOFF_ROUNDS=400)
	$(CONFORM) -s --handoff $(HANDOFF_ROUNDS)

packages: ## make the client packages of the last commit, as their registries take them, in build/packages (LANGUAGES=)
	@tools/make-packages $(LANGUAGES)

check-packages: lock.so packages ## install each of them in an empty project, and run a program with it there (LANGUAGES=)
	@tools/check-packages $(LANGUAGES)

include $(wildcard clients/*/client.mk)
