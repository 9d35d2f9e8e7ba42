#!/usr/bin/env bash
# go-redis' own tests of commands, pipelines and transactions on one server. The setting for a managed service is what keeps it from asking
# for a cluster and sentinels.
version="go-redis v9.17.0"
tests=1
module=github.com/redis/go-redis/v9

prepare() {
  need go golang-go
  need redis-server redis-server
  [ -f go.mod ] || go mod init suite
  go get "$module@v9.17.0"
  rm -rf source && cp -r "$(go list -m -f '{{.Dir}}' "$module")" source
  chmod -R u+w source
  (cd source && go test -c -o "$home/go_redis.test" .)
}

run() {
  redis_server --port 6379
  cd source
  RE_CLUSTER=true REDIS_VERSION=7.0 "$home/go_redis.test" -test.run TestGinkgoSuite -ginkgo.junit-report "$home/$SERVER.xml" \
    -ginkgo.timeout 300s -ginkgo.skip 'Cluster|Failover|Ring|UniversalClient|Sentinel|streams|Streams|Geo|Scripting|RedisTimeseries|RedisGears|JSON|Search|Probabilistic|VectorSet|vectorset' || true
  outcomes junit "$home/$SERVER.xml"
}

source "$(dirname "$0")/../lib/suite.sh" "$@"
