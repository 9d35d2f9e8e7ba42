#!/usr/bin/env bash
# gomemcache's own tests. TestLocalhost talks to localhost:11211, TestUnixSocket starts `memcached -s`; the others have
# a server of their own, or need memcached with TLS.
version="gomemcache v0.0.0-20260422231931"
tests=18
module=github.com/bradfitz/gomemcache

prepare() {
  need go golang-go
  [ -f go.mod ] || go mod init suite
  go get "$module@v0.0.0-20260422231931-4d751bb6e37c"
  go test -c -o gomemcache.test "$module/memcache"
}

run() {
  # TestUnixSocket names its socket by its process, whose number is small and comes back in the next run.
  rm -f /tmp/test-gomemcache-*.sock
  server -p 11211
  ./gomemcache.test -test.v | tee -a /dev/stderr | outcomes go || true
}

source "$(dirname "$0")/../lib/suite.sh" "$@"
