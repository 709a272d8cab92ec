# Cargo builds the package and its runner; what it makes is under build/, also if it is called by hand in clients/rust.

RUST_CLIENT = build/clients/rust
RUST_JOBS  ?= 2
RUST_CARGO  = cd clients/rust && CARGO_TARGET_DIR='$(CURDIR)/$(RUST_CLIENT)' CARGO_TERM_PROGRESS_WHEN=never cargo

client-rust: ## build the Rust package and its runner
	@$(RUST_CARGO) build --quiet --locked --release -j $(RUST_JOBS) --package lock-so-runner
	@printf '#!/bin/sh\nexec %s "$$@"\n' '$(CURDIR)/$(RUST_CLIENT)/release/lock-so-runner' > $(RUST_CLIENT)/runner
	@chmod +x $(RUST_CLIENT)/runner
