#!/usr/bin/env bash
# memccapable, libmemcached's conformance test of a server, in text and in binary.
version="libmemcached-tools (Debian) 1.1.4"
tests=54

prepare() {
  need memccapable libmemcached-tools
  need memcached memcached
}

run() {
  server -p 11211
  # Lines read `ascii NAME   [pass]` or `binary NAME   [pass]`; what is wrong stands between.
  memccapable -h 127.0.0.1 -p 11211 | tee -a /dev/stderr |
    sed -nE 's/^((ascii|binary) .*[^ ]) +\[(pass|FAIL|fail|SKIP|skip)\]$/\3 \1/p' | sed -E 's/^FAIL/fail/; s/^SKIP/skip/' |
    while read -r outcome test; do record "$outcome" "$test"; done
}

source "$(dirname "$0")/../lib/suite.sh" "$@"
