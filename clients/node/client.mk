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
	@printf '#!/bin/sh\nexec node --expose-gc --unhandled-rejections=strict "%s/$${NODE_LIBRARIES:-.}/dist/conformance/runner.js" "$$@"\n' \
	    '$(CURDIR)/$(NODE_BUILD)' > $(NODE_BUILD)/runner
	@chmod +x $(NODE_BUILD)/runner

NODE_LIBRARY_TESTS = libraries outage sentinel inspect queue

# A program must compile in each way in which TypeScript finds the types of an installed package.
NODE_RESOLUTIONS = nodenext/nodenext bundler/es2022 node10/commonjs

# With older libraries, only the tests of what depends on them; and a program must compile with their types, all of them.
# With the oldest, also a part of the conformance suite, which changes with the commit. node-redis 4 has no Sentinels.
NODE_OLDEST = NODE_LIBRARIES=oldest LANGUAGES=node FLAVOURS= MODULE=$(MODULE) build/venv/bin/python -m pytest clients/conformance \
    -k "not driver and not node-redis-sentinel"

test-client-node: client-node $(MODULE) ## run the Node package's own tests (SERVER=redis-server)
	@set -e; for libraries in oldest middle; do cd $(CURDIR)/$(NODE_BUILD)/$$libraries; \
	    cmp -s package-lock.json node_modules/.lock || \
	        { npm ci --ignore-scripts --no-audit --no-fund --loglevel=error && cp package-lock.json node_modules/.lock; }; \
	    rm -rf dist && cp -R ../dist . && cp ../test/consumer.ts dist/test && rm dist/test/consumer.d.ts; \
	    mkdir -p node_modules/lock-so && cp ../package.json node_modules/lock-so && ln -sfn ../../dist node_modules/lock-so/dist; \
	    for way in $(NODE_RESOLUTIONS); do \
	        node_modules/.bin/tsc --noEmit --strict --target es2022 --lib es2023,esnext.disposable --esModuleInterop \
	            --moduleResolution $${way%/*} --module $${way#*/} --typeRoots ../node_modules/@types --types node dist/test/consumer.ts; \
	    done; \
	    node -e "require('lock-so/ioredis'), require('lock-so/node-redis')"; \
	    MODULE=$(abspath $(MODULE)) SERVER=$(SERVER) node --test $(NODE_LIBRARY_TESTS:%=dist/test/%.test.js); \
	done
	@cd $(NODE_BUILD) && MODULE=$(abspath $(MODULE)) SERVER=$(SERVER) PAGE=$(CURDIR)/docs/clients/node.md npm test --silent
	@$(NODE_OLDEST) $(OLDEST_PART)
