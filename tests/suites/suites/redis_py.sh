#!/usr/bin/env bash
# redis-py's own tests that need one server alone, of its clients with and without asyncio: no modules, no cluster.
version="redis-py 8.1.0"
tests=1748

prepare() {
  need redis-server redis-server
  python_environment pytest==8.4.2 pytest-asyncio==1.1.0 pytest-timeout==2.4.0 packaging==25.0 ujson==5.11.0 numpy==2.3.3 \
    hiredis==3.2.1 cryptography==45.0.7 pyOpenSSL==25.1.0 requests==2.32.5 cachetools==6.2.0 xxhash==3.6.0 \
    pybreaker==1.4.0 aiohttp==3.12.15 coverage==7.10.6 redis-entraid==1.2.1 opentelemetry-api==1.37.0 opentelemetry-sdk==1.37.0
  python_source redis 8.1.0
}

run() {
  redis_server --port 6379
  local files=() file
  # The others of its tests talk to no server, or to clusters, sentinels, modules and several servers.
  for file in cache client commands connection connection_pool credentials encoding lock monitor multiprocessing pipeline; do
    files+=("tests/test_$file.py")
  done
  for file in client commands connection connection_pool credentials encoding hash lock monitor pipeline; do
    files+=("tests/test_asyncio/test_$file.py")
  done
  cd redis-8.1.0
  "$home/venv/bin/python" -m pytest "${files[@]}" -v --tb line -p no:cacheprovider -o filterwarnings= -o addopts= --timeout 30 --redis-url redis://127.0.0.1:6379/9 \
    -m "not redismod and not onlycluster" --junit-xml "$home/$SERVER.xml" || true
  outcomes junit "$home/$SERVER.xml"
}

source "$(dirname "$0")/../lib/suite.sh" "$@"
