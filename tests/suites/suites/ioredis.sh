#!/usr/bin/env bash
# ioredis, by `clients/ioredis.js`: its own tests talk to a server within their process.
version="ioredis 5.9.2"
tests=16

prepare() {
  need node nodejs
  need npm npm
  need redis-server redis-server
  npm install --no-save --no-package-lock --prefix "$home" ioredis@5.9.2
  cp "$clients/ioredis.js" "$clients/trial.js" .
}

run() {
  redis_server --port 6379
  node ioredis.js | tee -a /dev/stderr | outcomes lines
}

source "$(dirname "$0")/../lib/suite.sh" "$@"
