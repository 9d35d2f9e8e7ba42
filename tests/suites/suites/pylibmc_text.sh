#!/usr/bin/env bash
# pylibmc once more, changed so that its tests make clients of the text protocol where they would make binary ones, for a server
# that does not know the latter.
version="pylibmc 1.6.3, text only"
tests=41

prepare() {
  python_environment pylibmc==1.6.3 pytest==7.1.1
  python_source pylibmc 1.6.3
  sed -i "s/binary=True/binary=False/" pylibmc-1.6.3/tests/*.py
}

run() {
  server -p 11211
  cd pylibmc-1.6.3
  "$home/venv/bin/python" -m pytest -q -p no:cacheprovider tests --junit-xml "$home/$SERVER.xml" || true
  outcomes junit "$home/$SERVER.xml"
}

source "$(dirname "$0")/../lib/suite.sh" "$@"
