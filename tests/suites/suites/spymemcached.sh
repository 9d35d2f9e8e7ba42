#!/usr/bin/env bash
# spymemcached, by `clients/java/src/main/java/Spy.java`: over the text protocol, which is its default.
version="spymemcached 2.12.3"
tests=21

prepare() {
  java_classes
}

run() {
  server -p 11211
  java -cp "classes:jars/*" Spy | tee -a /dev/stderr | outcomes lines
}

source "$(dirname "$0")/../lib/suite.sh" "$@"
