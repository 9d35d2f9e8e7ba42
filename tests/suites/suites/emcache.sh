#!/usr/bin/env bash
# emcache: what PyPI holds has no tests, so `clients/test_emcache.py` exercises the client.
version="emcache 1.3.3"
tests=35

prepare() {
  python_environment emcache==1.3.3 pytest==7.1.1
}

run() {
  server -p 11211
  "$home/venv/bin/python" -m pytest -q -p no:cacheprovider "$clients/test_emcache.py" --junit-xml "$home/$SERVER.xml" || true
  outcomes junit "$home/$SERVER.xml"
}

source "$(dirname "$0")/../lib/suite.sh" "$@"
