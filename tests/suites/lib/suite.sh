# What the scripts in `suites/` share. Such a script sets `version` (what it installs, pinned) and `tests` (how many of its tests
# must run, passed or failed), defines `prepare` and `run`, and then reads this file, which does what its first argument says.
#
#   prepare   installs into $home; has the network
#   run       runs the suite on one server; has a network namespace of its own, and `memcached` in $PATH is the server under
#             test, with memcached's flags, and `redis-server` with Redis's, whichever it is; records outcomes by `record` or the readers in `outcomes.py`
#
# The process namespace of a run ends with it, and every server it started, too.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
home=$SUITES_HOME/$(basename "$0" .sh)
clients=$here/clients

# need PROGRAM PACKAGE: installs a Debian package where its program is missing.
need() {
  command -v "$1" >/dev/null && return
  [ "$(id -u)" = 0 ] || { echo "$1 is missing: apt-get install $2" >&2; exit 1; }
  apt-get install -y -q "$2"
}

# record OUTCOME TEST: notes that a test passed, failed or was skipped (pass, fail, skip).
record() {
  printf '%s\t%s\n' "$1" "$2" >>"$RESULTS"
}

# outcomes FORMAT [PREFIX]: notes the outcomes that a test runner printed (standard input).
outcomes() {
  python3 "$here/lib/outcomes.py" "$@" >>"$RESULTS"
}

# value_of FLAG DEFAULT WORD...: what stands behind a flag among the words.
value_of() {
  local flag=$1 value=$2
  shift 2
  while [ $# -gt 1 ]; do
    if [ "$1" = "$flag" ]; then value=$2; fi
    shift
  done
  echo "$value"
}

# await COMMAND...: waits until the command succeeds.
await() {
  for _ in $(seq 200); do
    if "$@" 2>/dev/null; then return; fi
    sleep 0.05
  done
  echo "the server does not answer" >&2
  exit 1
}

# answers PORT LINE: whether a server answers a line.
answers() (
  exec 3<>"/dev/tcp/127.0.0.1/$1" && printf '%s\r\n' "$2" >&3 && read -r -t 1 <&3
)

# server FLAG...: starts the server under test with memcached's flags, and waits until it answers.
server() {
  memcached "$@" &
  local socket
  socket=$(value_of -s "" "$@")
  if [ -n "$socket" ]; then await test -S "$socket"; else await answers "$(value_of -p 11211 "$@")" version; fi
}

# redis_server FLAG...: starts the server under test with redis-server's flags, and waits until it answers.
redis_server() {
  redis-server "$@" &
  await answers "$(value_of --port 6379 "$@")" PING
}

# python_environment REQUIREMENT...: a Python environment with packages from PyPI, in $home/venv.
python_environment() {
  local folder=$home/venv
  [ -x "$folder/bin/python" ] || python3 -m venv "$folder"
  "$folder/bin/pip" install --quiet --disable-pip-version-check "$@"
}

# python_source NAME VERSION: unpacks a source archive from PyPI to $home/NAME-VERSION.
python_source() {
  local name=$1 release=$2
  [ -d "$home/$name-$release" ] && return
  mkdir -p "$home/archive"
  python3 -m pip download --quiet --disable-pip-version-check --no-binary "$name" --no-deps --no-build-isolation \
    --dest "$home/archive" "$name==$release" ||
    "$home/venv/bin/pip" download --quiet --no-binary "$name" --no-deps --dest "$home/archive" "$name==$release"
  tar -xzf "$home/archive/$name-$release.tar.gz" -C "$home"
}

# crate_source NAME VERSION: copies a crate's source from crates.io to $home/NAME-VERSION, as a workspace of its own.
crate_source() {
  local name=$1 release=$2
  [ -d "$home/$name-$release" ] && return
  mkdir -p "$home/fetch/src"
  printf '[workspace]\n[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\n%s = "=%s"\n' \
    "$name" "$release" >"$home/fetch/Cargo.toml"
  : >"$home/fetch/src/lib.rs"
  local manifest
  manifest=$(cd "$home/fetch" && cargo metadata --quiet --format-version 1 | python3 -c '
import json, sys
print(next(p["manifest_path"] for p in json.load(sys.stdin)["packages"] if p["name"] == sys.argv[1]))' "$name")
  cp -r "$(dirname "$manifest")" "$home/$name-$release.part"
  chmod -R u+w "$home/$name-$release.part"
  printf '\n[workspace]\n' >>"$home/$name-$release.part/Cargo.toml"
  mv "$home/$name-$release.part" "$home/$name-$release"
}

# crate_tests FOLDER FLAG...: builds a crate's tests, and lists their programs in $home/programs.
crate_tests() {
  local folder=$1
  shift
  (cd "$folder" && CARGO_TARGET_DIR=$home/build cargo test --no-run --message-format json "$@" >"$home/build.json")
  python3 -c '
import json, sys
for line in open(sys.argv[1]):
    message = json.loads(line)
    if message.get("executable") and message["profile"]["test"]:
        print(message["target"]["name"] + "\t" + message["executable"])' "$home/build.json" >"$home/programs"
}

# go_source MODULE VERSION: copies a module's source from the Go module proxy to $home/source.
go_source() {
  need go golang-go
  [ -f go.mod ] || go mod init suite
  go get "$1@$2"
  rm -rf source
  cp -r "$(go list -m -f '{{.Dir}}' "$1")" source
  chmod -R u+w source
}

# node_client PACKAGE VERSION: installs a client from npm, and puts the suite's program beside it.
node_client() {
  need node nodejs
  need npm npm
  npm install --no-save --no-package-lock --prefix "$home" "$1@$2"
  cp "$clients/$(basename "$home").js" "$clients/trial.js" .
}

# java_classes: compiles `clients/java` to $home/classes, and puts what it needs from Maven Central into $home/jars.
java_classes() {
  need javac openjdk-17-jdk-headless
  need mvn maven
  mvn --quiet --batch-mode --file "$clients/java/pom.xml" -DbuildDirectory="$home" \
    compile dependency:copy-dependencies -DoutputDirectory="$home/jars"
}

case ${1:-} in
  describe) printf '%s\t%s\n' "$version" "$tests" ;;
  prepare)
    mkdir -p "$home"
    cd "$home"
    prepare
    ;;
  run)
    ip link set lo up
    cd "$home"
    run
    ;;
  *)
    echo "$0: describe, prepare or run" >&2
    exit 2
    ;;
esac
