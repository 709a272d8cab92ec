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

test-client-node: client-node $(MODULE) ## run the Node package's own tests (SERVER=redis-server)
	@cd $(NODE_BUILD)/oldest && { cmp -s package-lock.json node_modules/.lock || \
	    { npm ci --ignore-scripts --no-audit --no-fund --loglevel=error && cp package-lock.json node_modules/.lock; }; }
	@cd $(NODE_BUILD)/oldest && rm -rf dist && cp -R ../dist . && MODULE=$(abspath $(MODULE)) SERVER=$(SERVER) \
	    node --test dist/test/libraries.test.js dist/test/outage.test.js
	@cd $(NODE_BUILD) && MODULE=$(abspath $(MODULE)) SERVER=$(SERVER) PAGE=$(CURDIR)/docs/clients/node.md npm test --silent
