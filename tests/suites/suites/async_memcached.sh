#!/usr/bin/env bash
# The crate `async-memcached`, by its own tests: each starts a memcached for itself, over TCP or a unix socket, and some put
# Toxiproxy between. They ask for memcached 1.6.40; here any version will do, and the reference fails what came later.
version="async-memcached 0.9.0 (crates.io)"
tests=249
source=async-memcached-0.9.0

prepare() {
  need go golang-go
  [ -x bin/server ] || GOBIN=$home/bin go install github.com/Shopify/toxiproxy/v2/cmd/server@v2.5.0
  crate_source async-memcached 0.9.0
  sed -i 's|\[1, 6, 40\]|[0, 0, 0]|' "$source/tests/support/mod.rs"
  crate_tests "$source" --locked --all-features --lib --tests
}

run() {
  cd "$source"
  export TOXIPROXY_BIN=$home/bin/server
  while IFS=$'\t' read -r name program; do
    "$program" --include-ignored --test-threads 4 2>&1 | tee -a /dev/stderr | outcomes rust "$name" || true
  done <"$home/programs"
}

source "$(dirname "$0")/../lib/suite.sh" "$@"
