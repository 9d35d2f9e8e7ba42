#!/usr/bin/env bash
# Flask-Caching's own tests; those of memcached and Redis start the servers.
version="Flask-Caching 2.5.1"
tests=289

prepare() {
  need redis-server redis-server
  python_environment Flask-Caching==2.5.1 "Flask[async]==3.1.2" redis==8.1.0 pylibmc==1.6.3 pytest==8.4.2 pytest-xprocess==1.0.2 pytest-timeout==2.4.0
  python_source flask_caching 2.5.1
}

run() {
  cd flask_caching-2.5.1
  "$home/venv/bin/python" -m pytest -q --timeout 30 tests --junit-xml "$home/$SERVER.xml" || true
  outcomes junit "$home/$SERVER.xml"
}

source "$(dirname "$0")/../lib/suite.sh" "$@"
