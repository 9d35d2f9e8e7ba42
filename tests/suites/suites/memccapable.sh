#!/usr/bin/env bash
# memccapable, libmemcached's conformance test of a server; `-a` runs its ASCII tests.
version="libmemcached-tools (Debian) 1.1.4"
tests=27

prepare() {
  need memccapable libmemcached-tools
  need memcached memcached
}

run() {
  server -p 11211
  # Lines read `ascii NAME   [pass]`; what is wrong stands between.
  memccapable -h 127.0.0.1 -p 11211 -a | tee -a /dev/stderr |
    sed -nE 's/^(ascii .*[^ ]) +\[(pass|FAIL|fail|SKIP|skip)\]$/\2 \1/p' | sed -E 's/^FAIL/fail/; s/^SKIP/skip/' |
    while read -r outcome test; do record "$outcome" "$test"; done
}

source "$(dirname "$0")/../lib/suite.sh" "$@"
