#!/usr/bin/env bash
# Debian's redis-benchmark with all of its default tests, pipelined, with many connections and threads; and redis-cli in its several modes.
version="redis-tools 7.0.15 (Debian)"
tests=35

prepare() {
  need redis-server redis-server
  need redis-benchmark redis-tools
}

# check NAME COMMAND...: passes where the command ends well and prints no error.
check() {
  local name=$1
  shift
  if "$@" >"$home/output" 2>&1 && ! grep -qE '^(ERR|\(error\)|Error|WRONGTYPE)' "$home/output"; then
    record pass "$name"
  else
    record fail "$name"
    echo "$name: $*" >&2
    head -20 "$home/output" >&2
  fi
}

run() {
  redis_server --port 6379
  local test
  for test in ping_inline ping_mbulk set get incr lpush rpush lpop rpop sadd hset spop zadd zpopmin lrange_100 lrange_300 lrange_500 \
    lrange_600 mset; do
    check "benchmark_$test" redis-benchmark -q -n 2000 -r 1000 -t "$test"
  done
  check benchmark_pipeline redis-benchmark -q -n 20000 -P 64 -t get,set
  check benchmark_many_connections redis-benchmark -q -n 5000 -c 500 -t get,set
  check benchmark_threads redis-benchmark -q -n 5000 --threads 2 -t get,set
  check benchmark_large_values redis-benchmark -q -n 500 -d 500000 -t get,set
  check benchmark_resp3 redis-benchmark -q -n 2000 -3 -t get,set
  check cli_set redis-cli set name value
  check cli_resp3 redis-cli -3 hello
  check cli_pipe redis-cli --pipe < <(for i in $(seq 1000); do printf 'SET pipe:%s %s\r\n' "$i" "$i"; done)
  check cli_scan redis-cli --scan --pattern 'pipe:*'
  check cli_bigkeys redis-cli --bigkeys
  check cli_memkeys redis-cli --memkeys
  check cli_info redis-cli info all
  check cli_stat timeout -s INT 3 bash -c 'redis-cli -r 3 -i 0.1 info > /dev/null'
  check cli_interactive redis-cli <<<$'set a 1\nincr a\nmulti\nget a\nexec\n'
  check cli_latency timeout -s KILL 5 redis-cli --raw -r 5 ping
  check cli_commands redis-cli command docs get
}

source "$(dirname "$0")/../lib/suite.sh" "$@"
