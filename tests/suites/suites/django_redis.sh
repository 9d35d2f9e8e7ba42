#!/usr/bin/env bash
# django-redis' own tests, but those of sentinels and unix sockets.
version="django-redis 7.0.0"
tests=1515

prepare() {
  need redis-server redis-server
  python_environment Django==5.2.19 django-redis==7.0.0 redis==8.1.0 hiredis==3.5.0 msgpack==1.1.2 lz4==4.4.5 pyzstd==0.18.0 \
    pytest==9.0.1 pytest-mock==3.15.1 pytest-xdist==3.8.0 pytest-timeout==2.4.0
  python_source django_redis 7.0.0
}

run() {
  redis_server --port 6379
  cd django_redis-7.0.0
  "$home/venv/bin/python" -m pytest tests -q -p no:cacheprovider -o addopts= --timeout 30 -k "not sentinel and not usock" \
    --junit-xml "$home/$SERVER.xml" || true
  outcomes junit "$home/$SERVER.xml"
}

source "$(dirname "$0")/../lib/suite.sh" "$@"
