#!/usr/bin/env bash
# spymemcached, by `clients/java/src/main/java/Spy.java`: over the binary protocol.
version="spymemcached 2.12.3"
tests=21

prepare() {
  java_classes
}

run() {
  server -p 11211
  java -cp "classes:jars/*" Spy binary | tee -a /dev/stderr | outcomes lines
}

source "$(dirname "$0")/../lib/suite.sh" "$@"
