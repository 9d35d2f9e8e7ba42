#!/usr/bin/env bash
# node-redis, by `clients/node_redis.js`: its own tests start servers in containers.
version="redis (node-redis) 5.9.0"
tests=11

prepare() {
  need redis-server redis-server
  node_client redis 5.9.0
}

run() {
  redis_server --port 6379
  node node_redis.js | tee -a /dev/stderr | outcomes lines
}

source "$(dirname "$0")/../lib/suite.sh" "$@"
