# Python needs no build: the runner uses the package's sources, in an environment of its own.

PYTHON_CLIENT = build/clients/python
# The tests mostly wait.
PYTHON_WORKERS = -n 4 --dist worksteal

client-python: $(PYTHON_CLIENT)/stamp ## build the Python package's environment and its runner
	@printf '#!/bin/sh\nPYTHONPYCACHEPREFIX=%s PYTHONPATH=%s exec %s %s "$$@"\n' '$(PYTHONPYCACHEPREFIX)' '$(CURDIR)/clients/python' \
	    '$(CURDIR)/$(PYTHON_CLIENT)/venv/bin/python' '$(CURDIR)/clients/python/conformance/runner.py' > $(PYTHON_CLIENT)/runner
	@chmod +x $(PYTHON_CLIENT)/runner

$(PYTHON_CLIENT)/stamp: clients/python/requirements.txt tests/requirements.txt
	@tools/setup client-python
	@rm -rf $(PYTHON_CLIENT)/venv && mkdir -p $(PYTHON_CLIENT)
	@build/venv/bin/python -m venv $(PYTHON_CLIENT)/venv
	@$(PYTHON_CLIENT)/venv/bin/python -m pip install --quiet --disable-pip-version-check \
	    --requirement tests/requirements.txt --requirement clients/python/requirements.txt
	@touch $@

# The oldest redis-py: a runner of its own, with which a part of the conformance suite is played.
PYTHON_OLDEST       = build/clients/python-oldest
PYTHON_OLDEST_REDIS = 5.0.1

$(PYTHON_OLDEST)/stamp: clients/python/client.mk
	@tools/setup client-python
	@rm -rf $(PYTHON_OLDEST)/venv && mkdir -p $(PYTHON_OLDEST)
	@build/venv/bin/python -m venv $(PYTHON_OLDEST)/venv
	@$(PYTHON_OLDEST)/venv/bin/python -m pip install --quiet --disable-pip-version-check redis==$(PYTHON_OLDEST_REDIS)
	@touch $@

.PHONY: client-python-oldest
client-python-oldest: $(PYTHON_OLDEST)/stamp
	@printf '#!/bin/sh\nPYTHONPYCACHEPREFIX=%s PYTHONPATH=%s exec %s %s "$$@"\n' '$(CURDIR)/$(PYTHON_OLDEST)/pycache' '$(CURDIR)/clients/python' \
	    '$(CURDIR)/$(PYTHON_OLDEST)/venv/bin/python' '$(CURDIR)/clients/python/conformance/runner.py' > $(PYTHON_OLDEST)/runner
	@chmod +x $(PYTHON_OLDEST)/runner

test-client-python: client-python client-python-oldest $(MODULE) ## run the Python package's own tests, and a part of the conformance suite with the oldest redis-py
	MODULE=$(MODULE) $(PYTHON_CLIENT)/venv/bin/python -m pytest clients/python/tests $(PYTHON_WORKERS) $(PYTEST_ARGS)
	@$(PYTHON_OLDEST)/venv/bin/python -c 'import redis; assert redis.__version__ == "$(PYTHON_OLDEST_REDIS)", redis.__version__'
	MODULE=$(MODULE) LANGUAGES=python-oldest build/venv/bin/python -m pytest clients/conformance $(OLDEST_PART) -k "not driver"

# The same with other Pythons, from 3.10 on: the tests' harness does not run on 3.9.
.PHONY: test-client-python-with
test-client-python-with: $(MODULE) ## run the Python package's own tests with other Pythons (PYTHONS="python3.12 python3.13")
	@set -e; for python in $(PYTHONS); do \
	    venv=$(PYTHON_CLIENT)-with/$$($$python -c 'import sys; print(sys.implementation.cache_tag)'); \
	    [ -x $$venv/bin/mypy ] || { $$python -m venv $$venv; $$venv/bin/python -m pip install --quiet --disable-pip-version-check \
	        --requirement tests/requirements.txt --requirement clients/python/requirements.txt; }; \
	    MODULE=$(MODULE) $$venv/bin/python -m pytest clients/python/tests $(PYTHON_WORKERS) $(PYTEST_ARGS); done

# The adapters: lock_so.decorator, and the distribution for Celery, in an environment that has Celery.
PYTHON_ADAPTERS = build/clients/python-adapters

$(PYTHON_ADAPTERS)/stamp: clients/python/celery/requirements.txt tests/requirements.txt
	@tools/setup client-python
	@rm -rf $(PYTHON_ADAPTERS)/venv && mkdir -p $(PYTHON_ADAPTERS)
	@build/venv/bin/python -m venv $(PYTHON_ADAPTERS)/venv
	@$(PYTHON_ADAPTERS)/venv/bin/python -m pip install --quiet --disable-pip-version-check \
	    --requirement tests/requirements.txt --requirement clients/python/celery/requirements.txt
	@touch $@

.PHONY: test-adapters-python
test-adapters-python: $(PYTHON_ADAPTERS)/stamp $(MODULE) ## run the tests of the Python decorator and of the adapter for Celery (SERVER=redis-server)
	MODULE=$(MODULE) $(PYTHON_ADAPTERS)/venv/bin/python -m pytest clients/python/tests/test_decorator.py $(PYTEST_ARGS)
	MODULE=$(MODULE) $(PYTHON_ADAPTERS)/venv/bin/python -m pytest clients/python/celery/tests $(PYTEST_ARGS)

# With the build for users, because the checking build asserts its invariants in each hand-off.
.PHONY: bench-adapters-python
bench-adapters-python: $(PYTHON_ADAPTERS)/stamp lock.so ## compare the Python adapters with redis-py's Lock and with RedBeat
	MODULE=lock.so $(PYTHON_ADAPTERS)/venv/bin/python -m pytest -s clients/python/celery/tests/comparison.py $(PYTEST_ARGS)
