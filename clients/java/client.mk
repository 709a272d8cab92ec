# Everything that is built or downloaded is in build/clients/java.
JAVA_BUILD = $(CURDIR)/build/clients/java
MVN_JAVA   = mvn -B -q -f clients/java/pom.xml -Dmaven.repo.local=$(JAVA_BUILD)/m2 -Dlockso.build=$(JAVA_BUILD) -Ptests

client-java: ## build the Java packages and their runner
	@$(MVN_JAVA) -DskipTests -pl '!redisson,!oldest' package
	@printf '#!/bin/sh\nexec java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "%s/lib/*:%s/lock-so-conformance/*" so.lock.conformance.Runner "$$@"\n' \
	    '$(JAVA_BUILD)' '$(JAVA_BUILD)' > $(JAVA_BUILD)/runner
	@chmod +x $(JAVA_BUILD)/runner

test-client-java: $(MODULE) ## run the tests of the Java packages (SERVER=redis-server)
	@$(MVN_JAVA) -Dlockso.server=$(or $(SERVER),redis-server) -Dlockso.module=$(abspath $(MODULE)) verify

# Versions of the libraries between the oldest and the newest, one of each at a time.
JEDIS   ?= 6.2.0
LETTUCE ?= 6.8.2.RELEASE

.PHONY: test-java-libraries
test-java-libraries: $(MODULE) ## run the tests of the oldest Jedis and Lettuce with other versions (JEDIS=6.2.0, LETTUCE=6.8.2.RELEASE, SERVER=)
	@$(MVN_JAVA) -Djedis.oldest=$(JEDIS) -Dlettuce.oldest=$(LETTUCE) -Dlockso.server=$(or $(SERVER),redis-server) \
	    -Dlockso.module=$(abspath $(MODULE)) -Dtest='Oldest*' -Dsurefire.failIfNoSpecifiedTests=false -pl oldest -am test

# The adapters for frameworks need many packages, so that no other target builds them.
MVN_ADAPTERS = mvn -B -q -f clients/java/pom.xml -Dmaven.repo.local=$(JAVA_BUILD)/m2 -Dlockso.build=$(JAVA_BUILD) -Padapters \
    -Dlockso.server=$(or $(SERVER),redis-server)

.PHONY: test-adapters-java
test-adapters-java: $(MODULE) ## run the tests of the Java adapters for frameworks (SERVER=redis-server)
	@$(MVN_ADAPTERS) -DskipAdapterTests=false -Dlockso.module=$(abspath $(MODULE)) verify

# With the build for users, because the checking build asserts its invariants in each hand-off.
.PHONY: bench-adapters-java
bench-adapters-java: lock.so ## compare the Java adapters with the frameworks' own providers for Redis
	@$(MVN_ADAPTERS) -DskipAdapterTests=false -Dlockso.module=$(abspath lock.so) -Dtest=Comparison \
	    -Dsurefire.failIfNoSpecifiedTests=false verify
