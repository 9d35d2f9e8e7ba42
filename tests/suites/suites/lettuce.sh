#!/usr/bin/env bash
# Lettuce, by `clients/java/src/main/java/L.java`.
version="Lettuce 6.8.1"
tests=12

prepare() {
  need redis-server redis-server
  java_classes
}

run() {
  redis_server --port 6379
  java -cp "classes:jars/*" L | tee -a /dev/stderr | outcomes lines
}

source "$(dirname "$0")/../lib/suite.sh" "$@"
