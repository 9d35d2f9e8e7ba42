#!/usr/bin/env bash
# aiomcache 0.8.2, by the tests of 0.7.0: no later source archive has any. `clients/aiomcache_conftest.py` takes the place of
# fixtures that start the server in a container.
version="aiomcache 0.8.2, tests of 0.7.0"
tests=52

prepare() {
  python_environment aiomcache==0.8.2 pytest==7.1.1 pytest-asyncio==0.20.3
  python_source aiomcache 0.7.0
  rm -rf tests
  cp -r aiomcache-0.7.0/tests tests
  cp "$clients/aiomcache_conftest.py" tests/conftest.py
}

run() {
  server -p 11211
  "$home/venv/bin/python" -m pytest -q -p no:cacheprovider -o python_files='*_test.py' -o asyncio_mode=auto tests \
    --junit-xml "$home/$SERVER.xml" || true
  outcomes junit "$home/$SERVER.xml"
}

source "$(dirname "$0")/../lib/suite.sh" "$@"
