#!/usr/bin/env bash
# memjs, by `clients/memjs.js`. The tests in its package talk to objects in their own process and to no server.
version="memjs 1.3.2"
tests=11

prepare() {
  node_client memjs 1.3.2
}

run() {
  server -p 11211
  node memjs.js | tee -a /dev/stderr | outcomes lines
}

source "$(dirname "$0")/../lib/suite.sh" "$@"
