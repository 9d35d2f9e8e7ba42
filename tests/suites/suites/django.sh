#!/usr/bin/env bash
# Django's own tests of what it caches in memcached, by two clients, and in Redis.
version="Django 5.2.19"
tests=175

prepare() {
  need redis-server redis-server
  python_environment Django==5.2.19 pymemcache==4.0.0 pylibmc==1.6.3 redis==8.1.0 unittest-xml-reporting==3.2.0
  python_source django 5.2.19
  cp "$clients/django_settings.py" "$home/django-5.2.19/tests"
}

run() {
  server -p 11211
  redis_server --port 6379
  cd django-5.2.19/tests
  "$home/venv/bin/python" runtests.py --settings django_settings --parallel 1 cache.tests.PyMemcacheCacheTests \
    cache.tests.PyLibMCCacheTests cache.tests.RedisCacheTests || true
  outcomes junit outcomes.xml
}

source "$(dirname "$0")/../lib/suite.sh" "$@"
