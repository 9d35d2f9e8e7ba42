#!/usr/bin/env bash
# redigo's own tests, which start `redis-server`.
version="redigo v1.9.3"
tests=130
module=github.com/gomodule/redigo

prepare() {
  need go golang-go
  need redis-server redis-server
  [ -f go.mod ] || go mod init suite
  go get "$module@v1.9.3"
  rm -rf source && cp -r "$(go list -m -f '{{.Dir}}' "$module")" source
  chmod -R u+w source
  (cd source && go test -c -o "$home/redigo.test" ./redis)
}

run() {
  cd source/redis
  "$home/redigo.test" -test.v -test.timeout 300s 2>&1 | tee -a /dev/stderr | outcomes go || true
}

source "$(dirname "$0")/../lib/suite.sh" "$@"
