#!/usr/bin/env bash
# go-redis' own tests of one server alone: commands, pipelines, transactions, pools, scans, client-side caching.
version="go-redis v9.23.0"
tests=608

prepare() {
  need redis-server redis-server
  go_source github.com/redis/go-redis/v9 v9.23.0
  (cd source && go test -c -o "$home/go_redis.test" .)
}

run() {
  redis_server --port 6379
  cd source
  # The others talk to clusters, sentinels and several servers, or to modules. With RE_CLUSTER the tests look for none of these at their start.
  RE_CLUSTER=true REDIS_VERSION=7.0 "$home/go_redis.test" -test.run TestGinkgoSuite -test.timeout 300s --ginkgo.no-color --ginkgo.seed 1 \
    --ginkgo.skip-file 'cluster|sentinel|ring_test|universal|tls|search|json_test|probabilistic|timeseries|vectorset|himport' \
    --ginkgo.skip 'cluster races' --ginkgo.junit-report "$home/$SERVER.xml" || true
  outcomes junit "$home/$SERVER.xml"
}

source "$(dirname "$0")/../lib/suite.sh" "$@"
