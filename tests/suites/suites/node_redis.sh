#!/usr/bin/env bash
# node-redis, by `clients/node_redis.js`: its own tests start servers in containers.
version="redis (node-redis) 5.9.0"
tests=11

prepare() {
  need node nodejs
  need npm npm
  need redis-server redis-server
  npm install --no-save --no-package-lock --prefix "$home" redis@5.9.0
  cp "$clients/node_redis.js" "$clients/trial.js" .
}

run() {
  redis_server --port 6379
  node node_redis.js | tee -a /dev/stderr | outcomes lines
}

source "$(dirname "$0")/../lib/suite.sh" "$@"
