#!/usr/bin/env bash
# The crate `redis` (redis-rs), by its own tests of commands and types. They start `redis-server` through `redis-test`, which is named in
# the project's workspace but not in what crates.io holds.
version="redis-rs 0.32.7 (crates.io)"
tests=193
source=redis-0.32.7

prepare() {
  need redis-server redis-server
  crate_source redis 0.32.7
  if ! grep -q redis-test "$source/Cargo.toml"; then
    printf '\n[dev-dependencies.redis-test]\nversion = "=0.12.0"\n\n[patch.crates-io]\nredis = { path = "." }\n' >>"$source/Cargo.toml"
    sed -i 's/"=3.21.0"/"3.20.0"/' "$source/Cargo.toml"
    rm -f "$source/Cargo.lock"
    # One case of a runtime that is not built here stands without its condition.
    sed -i '/#\[case::async_std(RuntimeType::AsyncStd)\]/d' "$source/tests/test_async.rs"
  fi
  crate_tests "$source" --no-default-features --features acl,script,tokio-comp,connection-manager,cache-aio,safe_iterators \
    --test test_basic --test test_types --test test_async --test test_cache
}

run() {
  cd "$source"
  local test
  while IFS=$'\t' read -r name program; do
    # Each in a process of its own, so that one that waits for ever does not keep others from running.
    for test in $("$program" --list --format terse | sed -n 's/: test$//p'); do
      REDISRS_SERVER_TYPE=tcp timeout --kill-after 1 60 "$program" --test-threads 2 --exact "$test" 2>&1 </dev/null |
        tee -a /dev/stderr | outcomes rust "$name" || true
    done
  done <"$home/programs"
}

source "$(dirname "$0")/../lib/suite.sh" "$@"
