# The PHP package. It has no dependencies to download: composer only creates the autoloader of composer.json.

.PHONY: client-php test-client-php

PHP_BUILD = $(CURDIR)/build/clients/php

client-php: ## build the PHP package and its conformance runner
	@tools/setup client-php
	@mkdir -p $(PHP_BUILD)
	COMPOSER_ALLOW_SUPERUSER=1 COMPOSER_HOME=$(PHP_BUILD)/home COMPOSER_VENDOR_DIR=$(PHP_BUILD)/vendor \
	    composer dump-autoload --dev --quiet --working-dir=clients/php
	@printf '#!/bin/sh\nLOCK_SO_AUTOLOAD=%s exec php %s "$$@"\n' $(PHP_BUILD)/vendor/autoload.php \
	    $(CURDIR)/clients/php/conformance/main.php > $(PHP_BUILD)/runner
	@chmod +x $(PHP_BUILD)/runner

test-client-php: client-php lock.so ## run the PHP package's own tests (SERVER=redis-server)
	LOCK_SO_AUTOLOAD=$(PHP_BUILD)/vendor/autoload.php MODULE=$(CURDIR)/lock.so SERVER=$(or $(SERVER),redis-server) \
	    phpunit --configuration clients/php/phpunit.xml --cache-result-file $(PHP_BUILD)/phpunit.cache
