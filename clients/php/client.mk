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

# The adapters for frameworks need many packages of Debian, so that no other target downloads them. SUITE is the suite from
# which PHP and the frameworks are. SYMFONY_LOCK_TESTS, LARAVEL_TESTS: clients/php/adapters/bootstrap.php.
.PHONY: test-adapters-php bench-adapters-php

PHP_SUITE      = $(or $(SUITE),sid)
PHP_FRAMEWORKS = $(PHP_BUILD)/frameworks-$(PHP_SUITE)
PHP_ADAPTERS   = LOCK_SO_AUTOLOAD=$(PHP_BUILD)/vendor/autoload.php SERVER=$(or $(SERVER),redis-server)

# The package's own tests need PHPUnit 9, the machine's, whose deprecations in a newer PHP are not reported.
test-adapters-php: client-php $(MODULE) ## run the tests of the PHP package and its adapters with another PHP (SERVER=redis-server, SUITE=sid)
	@clients/php/adapters/frameworks $(PHP_SUITE)
	@cat $(PHP_FRAMEWORKS)/versions
	$(PHP_ADAPTERS) MODULE=$(abspath $(MODULE)) PHP=$(PHP_FRAMEWORKS)/php $(PHP_FRAMEWORKS)/php -d error_reporting=24575 \
	    -d include_path=.:/usr/share/php "$$(command -v phpunit)" --configuration clients/php/phpunit.xml \
	    --cache-result-file $(PHP_FRAMEWORKS)/phpunit.cache $(PHPUNIT_ARGS)
	$(PHP_ADAPTERS) MODULE=$(abspath $(MODULE)) $(PHP_FRAMEWORKS)/php $(PHP_FRAMEWORKS)/usr/bin/phpunit \
	    --configuration clients/php/adapters/phpunit.xml $(PHPUNIT_ARGS)

# With the build for users, because the checking build asserts its invariants in each hand-off.
bench-adapters-php: client-php lock.so ## compare the PHP adapters with the frameworks' own locks on Redis (ROUNDS=100)
	@clients/php/adapters/frameworks $(PHP_SUITE)
	@cat $(PHP_FRAMEWORKS)/versions
	$(PHP_ADAPTERS) MODULE=$(CURDIR)/lock.so $(PHP_FRAMEWORKS)/php clients/php/adapters/compare.php $(or $(ROUNDS),100)
