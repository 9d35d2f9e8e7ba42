#!/usr/bin/env bash
# cachelib's own tests of its caches in memcached, by three clients, and in Redis; they start the servers.
version="cachelib 0.17.0"
tests=176

prepare() {
  need redis-server redis-server
  python_environment cachelib==0.17.0 redis==8.1.0 pymemcache==4.0.0 pylibmc==1.6.3 python-memcached==1.62 \
    pytest==8.4.2 pytest-xprocess==1.0.2 pytest-timeout==2.4.0
  python_source cachelib 0.17.0
}

run() {
  cd cachelib-0.17.0
  "$home/venv/bin/python" -m pytest -q --timeout 30 tests/test_memcached_cache.py tests/test_redis_cache.py \
    --junit-xml "$home/$SERVER.xml" || true
  outcomes junit "$home/$SERVER.xml"
}

source "$(dirname "$0")/../lib/suite.sh" "$@"
