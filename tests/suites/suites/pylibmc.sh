#!/usr/bin/env bash
# pylibmc's own tests, over libmemcached; they use the binary protocol here and there.
version="pylibmc 1.6.3"
tests=41

prepare() {
  python_environment pylibmc==1.6.3 pytest==7.1.1
  python_source pylibmc 1.6.3
}

run() {
  server -p 11211
  cd pylibmc-1.6.3
  "$home/venv/bin/python" -m pytest -q -p no:cacheprovider tests --junit-xml "$home/$SERVER.xml" || true
  outcomes junit "$home/$SERVER.xml"
}

source "$(dirname "$0")/../lib/suite.sh" "$@"
