#!/usr/bin/env bash
# The crate `memcache` once more, changed so that a client speaks the text protocol where it would speak the binary one, for a
# server that does not know the latter. Tests of TLS and UDP are left out.
version="memcache 0.21.0, text only"
tests=165
source=memcache-0.21.0

prepare() {
  crate_source memcache 0.21.0
  sed -i "s|/tmp/memcached|$home/memcached|g" "$source/tests/tests.rs" "$source/src/client.rs"
  sed -i 's|let is_ascii = .*;|let is_ascii = true;|' "$source/src/connection.rs"
  sed -i '/memcache+tls:/d' "$source/tests/tests.rs"
  crate_tests "$source" --locked --no-default-features --features tokio,serde_json --lib --tests
}

run() {
  rm -f memcached.sock memcached2.sock
  for port in 12345 12346 12347 12348 12349; do server -p "$port"; done
  server -s "$home/memcached.sock"
  server -s "$home/memcached2.sock"
  cd "$source"
  while IFS=$'\t' read -r name program; do
    "$program" --test-threads 1 --skip udp_test 2>&1 | tee -a /dev/stderr | outcomes rust "$name" || true
  done <"$home/programs"
}

source "$(dirname "$0")/../lib/suite.sh" "$@"
