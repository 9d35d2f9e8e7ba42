#!/usr/bin/env bash
# The crate `memcache`, by its own tests and with the servers that its tests/setup_tests.sh starts. A client without
# `?protocol=ascii` in its address speaks the binary protocol; `exp` is its client of the meta commands.
version="memcache 0.21.0 (crates.io)"
tests=169
source=memcache-0.21.0

prepare() {
  need pkg-config pkg-config
  pkg-config --exists openssl || apt-get install -y -q libssl-dev
  crate_source memcache 0.21.0
  # Its unix sockets stand in the temporary folder that all share.
  sed -i "s|/tmp/memcached|$home/memcached|g" "$source/tests/tests.rs" "$source/src/client.rs"
  # A pool would try for 30 seconds to reach a server that closes its connections.
  sed -i 's|r2d2::Pool::builder()$|r2d2::Pool::builder().connection_timeout(Duration::from_secs(1))|;
    s|r2d2::Pool::builder()\.max_size(size);|r2d2::Pool::builder().connection_timeout(Duration::from_secs(1)).max_size(size);|' \
    "$source/src/client.rs"
  crate_tests "$source" --locked --features tokio,serde_json --lib --tests
}

run() {
  rm -f memcached.sock memcached2.sock
  for port in 12345 12346 12347 12348 12349; do server -p "$port"; done
  server -s "$home/memcached.sock"
  server -s "$home/memcached2.sock"
  local assets=$home/$source/tests/assets
  if memcached --enable-ssl --version; then
    memcached -p 12350 --enable-ssl -o "ssl_key=$assets/localhost.key,ssl_chain_cert=$assets/localhost.crt" &
    memcached -p 12351 --enable-ssl -o \
      "ssl_key=$assets/localhost.key,ssl_chain_cert=$assets/localhost.crt,ssl_verify_mode=2,ssl_ca_cert=$assets/RUST_MEMCACHE_TEST_CERT.crt" &
    memcached -p 22345 -U 22345 &
    sleep 0.5
  fi
  cd "$source"
  # One at a time: several tests flush the server they share.
  while IFS=$'\t' read -r name program; do
    "$program" --test-threads 1 2>&1 | tee -a /dev/stderr | outcomes rust "$name" || true
  done <"$home/programs"
}

source "$(dirname "$0")/../lib/suite.sh" "$@"
