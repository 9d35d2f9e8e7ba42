#!/usr/bin/env bash
# aiocache's own tests with servers, in memcached and in Redis.
version="aiocache 0.12.3"
tests=417

prepare() {
  need redis-server redis-server
  python_environment aiocache==0.12.3 aiomcache==0.8.2 redis==8.1.0 marshmallow==3.26.1 msgpack==1.1.2 \
    pytest==8.4.2 pytest-asyncio==1.1.0 pytest-mock==3.15.1 pytest-timeout==2.4.0
  python_source aiocache 0.12.3
}

run() {
  server -p 11211
  redis_server --port 6379
  cd aiocache-0.12.3
  "$home/venv/bin/python" -m pytest tests/acceptance -q -p no:cacheprovider -o addopts= -o filterwarnings= --timeout 30 \
    --junit-xml "$home/$SERVER.xml" || true
  outcomes junit "$home/$SERVER.xml"
}

source "$(dirname "$0")/../lib/suite.sh" "$@"
