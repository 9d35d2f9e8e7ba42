#!/usr/bin/env bash
# miniredis' integration tests: each plays commands on miniredis, a server within the test, and on one that it starts as `redis-server -`,
# and compares the replies.
version="miniredis v2.35.0"
tests=122

prepare() {
  need redis-server redis-server
  go_source github.com/alicebob/miniredis/v2 v2.35.0
  (cd source/integration && go test -c -o "$home/miniredis.test" .)
}

run() {
  cd source/integration
  # What Millpond does not offer (docs/resp.md) waits for messages that do not come: left out on both servers.
  local absent='Stream|Lua|Script|[Ss]ub|Publish|Geo|Hll|Cluster|^TestBr?[lp]|^TestBl'
  INT=1 "$home/miniredis.test" -test.skip "$absent" -test.v -test.timeout 300s 2>&1 | tee -a /dev/stderr | outcomes go || true
}

source "$(dirname "$0")/../lib/suite.sh" "$@"
