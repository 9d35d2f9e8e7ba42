#!/usr/bin/env bash
# gomemcache's own tests. TestLocalhost talks to localhost:11211, TestUnixSocket starts `memcached -s`; the others have
# a server of their own, or start `memcached` with TLS.
version="gomemcache v0.0.0-20260422231931"
tests=18

prepare() {
  need openssl openssl
  go_source github.com/bradfitz/gomemcache v0.0.0-20260422231931-4d751bb6e37c
  (cd source && go test -c -o "$home/gomemcache.test" ./memcache)
}

run() {
  # TestUnixSocket names its socket by its process, whose number is small and comes back in the next run.
  rm -f /tmp/test-gomemcache-*.sock
  server -p 11211
  ./gomemcache.test -test.v | tee -a /dev/stderr | outcomes go || true
}

source "$(dirname "$0")/../lib/suite.sh" "$@"
