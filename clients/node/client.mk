# You must install Node and npm yourself. npm and tsc look for packages in the folder of the sources, so the sources are
# copied to a folder that may contain node_modules.
NODE_BUILD = build/clients/node

.PHONY: client-node test-client-node
client-node: ## build the Node package and its runner
	@mkdir -p $(NODE_BUILD)
	@rm -rf $(addprefix $(NODE_BUILD)/,src test conformance dist)
	@cp -R clients/node/. $(NODE_BUILD)
	@cd $(NODE_BUILD) && { cmp -s package-lock.json node_modules/.lock || \
	    { npm ci --ignore-scripts --no-audit --no-fund --loglevel=error && cp package-lock.json node_modules/.lock; }; }
	@cd $(NODE_BUILD) && node_modules/.bin/tsc
	@printf '#!/bin/sh\nexec node --expose-gc --unhandled-rejections=strict "%s/dist/conformance/runner.js" "$$@"\n' \
	    '$(CURDIR)/$(NODE_BUILD)' > $(NODE_BUILD)/runner
	@chmod +x $(NODE_BUILD)/runner

NODE_LIBRARY_TESTS = libraries outage sentinel inspect queue

# With older libraries, only the tests of what depends on them; and a program must compile with their types, all of them.
test-client-node: client-node $(MODULE) ## run the Node package's own tests (SERVER=redis-server)
	@set -e; for libraries in oldest middle; do cd $(CURDIR)/$(NODE_BUILD)/$$libraries; \
	    cmp -s package-lock.json node_modules/.lock || \
	        { npm ci --ignore-scripts --no-audit --no-fund --loglevel=error && cp package-lock.json node_modules/.lock; }; \
	    rm -rf dist && cp -R ../dist . && cp ../test/consumer.ts dist/test && rm dist/test/consumer.d.ts; \
	    ../node_modules/.bin/tsc --ignoreConfig --noEmit --strict --target es2022 --lib es2023,esnext.disposable --module nodenext \
	        --typeRoots ../node_modules/@types --types node dist/test/consumer.ts; \
	    MODULE=$(abspath $(MODULE)) SERVER=$(SERVER) node --test $(NODE_LIBRARY_TESTS:%=dist/test/%.test.js); \
	done
	@cd $(NODE_BUILD) && MODULE=$(abspath $(MODULE)) SERVER=$(SERVER) PAGE=$(CURDIR)/docs/clients/node.md npm test --silent
