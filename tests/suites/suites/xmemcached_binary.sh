#!/usr/bin/env bash
# xmemcached, by `clients/java/src/main/java/X.java`: over the binary protocol.
version="xmemcached 2.4.8"
tests=23

prepare() {
  java_classes
}

run() {
  server -p 11211
  java -cp "classes:jars/*" X binary | tee -a /dev/stderr | outcomes lines
}

source "$(dirname "$0")/../lib/suite.sh" "$@"
