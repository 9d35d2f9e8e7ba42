#!/usr/bin/env bash
# pymemcache's own integration tests: three kinds of client, sockets of the standard library and of gevent.
version="pymemcache 4.0.0"
tests=200

prepare() {
  python_environment pymemcache==4.0.0 pytest==7.1.1 Faker==15.1.0 gevent==24.11.1 zstd==1.5.5.1
  python_source pymemcache 4.0.0
}

run() {
  server -p 11211
  cd pymemcache-4.0.0
  # The project's own pytest options name plugins for coverage, and choose the unit tests.
  "$home/venv/bin/python" -m pytest -q -o addopts= -p no:cacheprovider pymemcache/test/test_integration.py \
    --server 127.0.0.1 --port 11211 --junit-xml "$home/$SERVER.xml" || true
  outcomes junit "$home/$SERVER.xml"
}

source "$(dirname "$0")/../lib/suite.sh" "$@"
