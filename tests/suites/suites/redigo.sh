#!/usr/bin/env bash
# redigo's own tests, which start `redis-server`.
version="redigo v1.9.3"
tests=130

prepare() {
  need redis-server redis-server
  go_source github.com/gomodule/redigo v1.9.3
  (cd source && go test -c -o "$home/redigo.test" ./redis)
}

run() {
  cd source/redis
  "$home/redigo.test" -test.v -test.timeout 300s 2>&1 | tee -a /dev/stderr | outcomes go || true
}

source "$(dirname "$0")/../lib/suite.sh" "$@"
