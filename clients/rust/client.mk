# Cargo builds the package and its runner. Its output is in build/, also if you run cargo in clients/rust directly.

RUST_CLIENT = build/clients/rust
RUST_JOBS  ?= 2
IN_RUST     = cd clients/rust && MODULE='$(abspath $(MODULE))' CARGO_TARGET_DIR='$(CURDIR)/$(RUST_CLIENT)'
RUST_FLAGS  = --quiet --locked -j $(RUST_JOBS)

client-rust: ## build the Rust package and its runner
	@$(IN_RUST) cargo build $(RUST_FLAGS) --release --package lock-so-runner
	@printf '#!/bin/sh\nexec %s "$$@"\n' '$(CURDIR)/$(RUST_CLIENT)/release/lock-so-runner' > $(RUST_CLIENT)/runner
	@chmod +x $(RUST_CLIENT)/runner

test-client-rust: $(MODULE) ## run the Rust package's own tests, the examples of its pages, and its lints
	@$(IN_RUST) cargo fmt --all --check
	@$(IN_RUST) cargo clippy $(RUST_FLAGS) --workspace --all-targets --all-features -- -D warnings
	@$(IN_RUST) cargo test $(RUST_FLAGS) --package lock-so --all-features --lib --tests
	@$(IN_RUST) cargo clippy $(RUST_FLAGS) --package lock-so --no-default-features --features sync -- -D warnings
	@$(IN_RUST) cargo clippy $(RUST_FLAGS) --package lock-so --no-default-features --features tokio -- -D warnings
	@$(IN_RUST) tests/with-server cargo test $(RUST_FLAGS) --package lock-so --all-features --doc
	@$(IN_RUST) tests/readme
	@$(MAKE) --no-print-directory --silent test-client-rust-oldest

RUST_OLDEST = build/clients/rust-oldest

test-client-rust-oldest: $(MODULE) ## run the Rust package's own tests with the oldest redis-rs, and check it with the oldest Rust
	@rm -rf $(RUST_OLDEST)/source && mkdir -p $(RUST_OLDEST) && cp -r clients/rust $(RUST_OLDEST)/source
	@cd $(RUST_OLDEST)/source && CARGO_RESOLVER_INCOMPATIBLE_RUST_VERSIONS=fallback cargo update --quiet && \
	    cargo update --quiet --precise 1.0.0 redis
	@cd $(RUST_OLDEST)/source && MODULE='$(abspath $(MODULE))' CARGO_TARGET_DIR='$(CURDIR)/$(RUST_OLDEST)' \
	    cargo test $(RUST_FLAGS) --package lock-so --all-features --lib --test threads --test tasks
	@if cargo +1.85 --version > /dev/null 2>&1; then cd $(RUST_OLDEST)/source && \
	    CARGO_TARGET_DIR='$(CURDIR)/$(RUST_OLDEST)' cargo +1.85 check $(RUST_FLAGS) --package lock-so --all-features; \
	else echo 'Rust 1.85 is not installed: not checked with it'; fi
