# The Go package: see clients/clients.mk.

GO_CLIENT = build/clients/go
GO_FILES  = $(wildcard clients/go/*.go clients/go/*/*.go clients/go/internal/*/*.go clients/go/go.mod clients/go/*/go.mod clients/go/*/go.sum)

GO_TEST   = MODULE=$(abspath $(MODULE)) go test -race

client-go: $(GO_CLIENT)/runner ## build the Go package and its runner

$(GO_CLIENT)/runner: $(GO_FILES)
	@mkdir -p $(@D)
	cd clients/go/conformance && go build -o $(CURDIR)/$(GO_CLIENT)/conformance .
	printf '#!/bin/sh\nexec "$$(dirname "$$0")/conformance" "$$@"\n' > $@
	chmod +x $@

test-client-go: $(MODULE) ## run the Go package's own tests, gofmt and go vet, with the oldest and newest libraries
	@unformatted=$$(gofmt -l clients/go); test -z "$$unformatted" || { echo "gofmt: $$unformatted"; exit 1; }
	set -e; for module in . goredis rueidis conformance; do (cd clients/go/$$module && go vet ./... && $(GO_TEST) ./...); done
	cd clients/go/conformance && $(GO_TEST) lockso/goredis lockso/rueidis # with the versions of its go.mod, the newest
