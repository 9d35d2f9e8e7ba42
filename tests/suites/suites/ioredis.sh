#!/usr/bin/env bash
# ioredis, by `clients/ioredis.js`: its own tests talk to a server within their process.
version="ioredis 5.9.2"
tests=16

prepare() {
  need redis-server redis-server
  node_client ioredis 5.9.2
}

run() {
  redis_server --port 6379
  node ioredis.js | tee -a /dev/stderr | outcomes lines
}

source "$(dirname "$0")/../lib/suite.sh" "$@"
