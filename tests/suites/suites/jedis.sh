#!/usr/bin/env bash
# Jedis, by `clients/java/src/main/java/J.java`.
version="Jedis 6.2.0"
tests=20

prepare() {
  need redis-server redis-server
  java_classes
}

run() {
  redis_server --port 6379
  java -cp "classes:jars/*" J | tee -a /dev/stderr | outcomes lines
}

source "$(dirname "$0")/../lib/suite.sh" "$@"
