#!/usr/bin/env bash
# The other tools of libmemcached: memcslap and memcaslap put load on the server, the rest are small clients. What memcaslap
# verifies on its own account (-v) fails on memcached as well, as it compares values with one byte too many;
# and memcslap's --buffer ends in an assertion of its own.
version="libmemcached-tools (Debian) 1.1.4"
tests=16

prepare() {
  need memcslap libmemcached-tools
  need memcached memcached
}

# attempt NAME COMMAND...: a test that passes where the command does.
attempt() {
  local name=$1
  shift
  if timeout 60 "$@"; then record pass "$name"; else record fail "$name"; fi
}

# slap NAME FLAG...: memcslap exits with 0 whatever happens; it says what went wrong on the standard error stream.
slap() {
  local errors
  errors=$(memcslap --servers=127.0.0.1 --flush "$@" 2>&1 >/dev/null) && [ -z "$errors" ] || { echo "$errors"; return 1; }
}

# aslap NAME FLAG...: memcaslap must have done all its operations, and missed nothing.
aslap() {
  local report
  report=$(memcaslap --servers=127.0.0.1:11211 -T 2 -c 16 -x 50000 "$@") || return 1
  echo "$report"
  grep -q 'Ops: 50000 ' <<<"$report" && grep -q 'get_misses: 0$' <<<"$report"
}

copied_and_found() {
  printf 'hello\r\nworld\r\n' >copied && memccp --servers=127.0.0.1 copied && memccat --servers=127.0.0.1 copied | grep -q hello
}

removed() {
  memcrm --servers=127.0.0.1 copied && ! memcexist --servers=127.0.0.1 copied
}

statistics() {
  memcstat --servers=127.0.0.1 "$@" | grep -q .
}

run() {
  server -p 11211 -m 512
  export -f slap aslap copied_and_found removed statistics
  for kind in get set mget; do
    attempt "memcslap $kind" bash -c "slap --test=$kind --concurrency=4 --execute-number=5000"
    attempt "memcslap $kind, non-blocking" bash -c "slap --test=$kind --concurrency=4 --execute-number=5000 --non-blocking --tcp-nodelay"
  done
  attempt "memcslap set, noreply" bash -c "slap --test=set --concurrency=4 --execute-number=5000 --noreply"
  attempt "memcaslap" bash -c aslap
  attempt "memcaslap, 20 keys at once" bash -c "aslap -d 20"
  attempt "memcaslap, large values" bash -c "aslap -X 60000"
  attempt "memcping" memcping --servers=127.0.0.1
  attempt "memccp, memccat" bash -c copied_and_found
  attempt "memctouch" memctouch --servers=127.0.0.1 --expire=100 copied
  attempt "memcrm, memcexist" bash -c removed
  attempt "memcstat" bash -c statistics
  attempt "memcflush" memcflush --servers=127.0.0.1
}

source "$(dirname "$0")/../lib/suite.sh" "$@"
