# The client packages. Each language's own lines are in clients/LANGUAGE/client.mk: client-LANGUAGE builds the package
# and build/clients/LANGUAGE/runner, test-client-LANGUAGE runs the package's own tests. Go, Java, Maven, Node and Rust
# are the caller's affair; tools/setup clients says what is missing.

LANGUAGES ?= $(patsubst clients/%/client.mk,%,$(wildcard clients/*/client.mk))
FLAVOURS  ?=
HANDOFF_ROUNDS ?= 400
CONFORM    = LANGUAGES='$(LANGUAGES)' FLAVOURS='$(FLAVOURS)' MODULE=$(MODULE) build/venv/bin/python -B -m pytest clients/conformance

.PHONY: clients test-clients $(LANGUAGES:%=client-%) $(LANGUAGES:%=test-client-%)

clients: $(LANGUAGES:%=client-%) ## build the client packages and their runners (LANGUAGES="python go")

test-clients: $(MODULE) ## run the tests of the client packages, and the suite for all of them (LANGUAGES=, FLAVOURS=, PYTEST_ARGS=; HANDOFF=1: the speed)
	@tools/setup test $(LANGUAGES:%=client-%)
	@$(MAKE) --no-print-directory $(LANGUAGES:%=client-%)
	$(if $(HANDOFF),,@set -e; for language in $(LANGUAGES); do $(MAKE) --no-print-directory test-client-$$language; done)
	$(CONFORM) $(if $(HANDOFF),-s --handoff $(HANDOFF_ROUNDS),-n $(TEST_JOBS) --dist worksteal) $(PYTEST_ARGS)

include $(wildcard clients/*/client.mk)
