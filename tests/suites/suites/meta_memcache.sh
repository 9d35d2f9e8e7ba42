#!/usr/bin/env bash
# meta-memcache: what PyPI holds has no tests, so `clients/test_meta_memcache.py` exercises the client.
version="meta-memcache 4.3.0"
tests=45

prepare() {
  python_environment meta-memcache==4.3.0 pytest==7.1.1
}

run() {
  server -p 11211
  "$home/venv/bin/python" -m pytest -q -p no:cacheprovider "$clients/test_meta_memcache.py" --junit-xml "$home/$SERVER.xml" || true
  outcomes junit "$home/$SERVER.xml"
}

source "$(dirname "$0")/../lib/suite.sh" "$@"
