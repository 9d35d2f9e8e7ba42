#!/usr/bin/env bash
# Tests a server by the test suites of others: runs each on memcached 1.6.18 and on Millpond, and compares test by test.
#
#   tests/suites/run.sh                      all suites, both servers
#   tests/suites/run.sh gomemcache pylibmc   some of them
#   tests/suites/run.sh --only reference     one server: reference or millpond
#   tests/suites/run.sh --late               Millpond over a cache beneath memory that answers late
#   tests/suites/run.sh --list               the suites and their versions
#
# Needs Linux, and root (or user namespaces): every run has a network namespace of its own, where nothing is reachable but the
# server under test. What a suite needs is installed by name from Debian, PyPI, npm, Maven Central, crates.io and the Go module proxy,
# into `target/suites`. MILLPOND_BIN names the server to test; without it `target/release/millpond` is built.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."

export PYTHONDONTWRITEBYTECODE=1
export SUITES_HOME=${SUITES_HOME:-$(realpath -m "${CARGO_TARGET_DIR:-target}")/suites}
mkdir -p "$SUITES_HOME"

if ! python3 -c 'import tomllib, venv' 2>/dev/null; then
  [ "$(id -u)" = 0 ] || { echo "run.sh: install python3 (3.11 or newer) and python3-venv" >&2; exit 2; }
  apt-get install -y -q python3 python3-venv >/dev/null
fi

late=
for argument; do
  shift
  if [ "$argument" = --late ]; then late=1; else set -- "$@" "$argument"; fi
done
if [ -z "${MILLPOND_BIN:-}" ]; then
  export MILLPOND_BIN=$(realpath -m "${CARGO_TARGET_DIR:-target}")/release/millpond
  case " $* " in
    *' --list '* | *' --only reference '*) ;;
    *) cargo build --quiet --release --bin millpond ;;
  esac
fi
if [ -n "$late" ]; then
  target=$(realpath -m "${CARGO_TARGET_DIR:-target}")/late
  CARGO_TARGET_DIR=$target cargo build --quiet --release --manifest-path "$here/late/Cargo.toml"
  export MILLPOND_REAL=$MILLPOND_BIN MILLPOND_BIN=$target/release/millpond-late
fi
exec python3 "$here/compare.py" "$@"
