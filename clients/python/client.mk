# Python needs no build: the runner uses the package's sources, in an environment of its own.

PYTHON_CLIENT = build/clients/python

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

test-client-python: client-python $(MODULE) ## run the Python package's own tests
	MODULE=$(MODULE) $(PYTHON_CLIENT)/venv/bin/python -m pytest clients/python/tests $(PYTEST_ARGS)
