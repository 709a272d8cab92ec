# The Go package: see clients/clients.mk.

GO_CLIENT = build/clients/go
GO_FILES  = $(wildcard clients/go/*.go clients/go/*/*.go clients/go/internal/*/*.go clients/go/go.mod clients/go/*/go.mod clients/go/*/go.sum)

GO_TEST   = MODULE=$(abspath $(MODULE)) go test -race

client-go: $(GO_CLIENT)/runner ## build the Go package and its runner

# The runner has the newest libraries, or, if GO_RUNNER is oldest, those that goredis and rueidis require.
$(GO_CLIENT)/runner: $(GO_FILES) clients/go/client.mk
	@mkdir -p $(@D)
	cd clients/go/conformance && go build -o $(CURDIR)/$(GO_CLIENT)/newest .
	printf '#!/bin/sh\nexec "$$(dirname "$$0")/$${GO_RUNNER:-newest}" "$$@"\n' > $@
	chmod +x $@

$(GO_CLIENT)/oldest: $(GO_CLIENT)/runner
	@grep -v github.com/redis clients/go/conformance/go.mod > $@.mod
	@cat clients/go/*/go.sum > $@.sum
	cd clients/go/conformance && go build -modfile=$(CURDIR)/$@.mod -mod=mod -o $(CURDIR)/$@ .

test-client-go: $(GO_CLIENT)/oldest $(MODULE) ## run the Go package's own tests, gofmt and go vet, with the oldest and newest libraries, and a part of the conformance suite with the oldest
	@unformatted=$$(gofmt -l clients/go); test -z "$$unformatted" || { echo "gofmt: $$unformatted"; exit 1; }
	set -e; for module in . goredis rueidis conformance; do (cd clients/go/$$module && go vet ./... && $(GO_TEST) ./...); done
	cd clients/go/conformance && $(GO_TEST) lock-so.invalid/lock-so/clients/go/goredis lock-so.invalid/lock-so/clients/go/rueidis # with the versions of its go.mod, the newest
	GO_RUNNER=oldest LANGUAGES=go MODULE=$(MODULE) build/venv/bin/python -m pytest clients/conformance $(OLDEST_PART) -k "not driver"

# The adapters for frameworks need packages that nothing else needs, so that no other target builds them.
GO_ADAPTERS = cd clients/go/gocron/test && export GOMODCACHE=$(CURDIR)/$(GO_CLIENT)/modules GOFLAGS=-modcacherw

.PHONY: test-adapters-go
test-adapters-go: $(MODULE) ## run the tests of the Go adapter for gocron (SERVER=redis-server)
	@$(GO_ADAPTERS) && go vet lock-so.invalid/lock-so/clients/go/gocron . && $(GO_TEST) -count=1 .

# With the build for users, because the checking build asserts its invariants in each hand-off.
.PHONY: bench-adapters-go
bench-adapters-go: lock.so ## compare the Go adapter for gocron with gocron's own way to lock in Redis
	@$(GO_ADAPTERS) && COMPARE=1 MODULE=$(abspath lock.so) go test -count=1 -v -run Comparison .
