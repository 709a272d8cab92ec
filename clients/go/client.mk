# The Go package: see clients/clients.mk.

GO_CLIENT = build/clients/go
GO_FILES  = $(wildcard clients/go/*.go clients/go/*/*.go) clients/go/go.mod clients/go/go.sum

client-go: $(GO_CLIENT)/runner ## build the Go package and its runner

$(GO_CLIENT)/runner: $(GO_FILES)
	@mkdir -p $(@D)
	cd clients/go && go build -o $(CURDIR)/$(GO_CLIENT)/conformance ./conformance
	printf '#!/bin/sh\nexec "$$(dirname "$$0")/conformance" "$$@"\n' > $@
	chmod +x $@

test-client-go: $(MODULE) ## run the Go package's own tests, gofmt and go vet
	@unformatted=$$(gofmt -l clients/go); test -z "$$unformatted" || { echo "gofmt: $$unformatted"; exit 1; }
	cd clients/go && go vet ./... && MODULE=$(abspath $(MODULE)) go test -race ./...
