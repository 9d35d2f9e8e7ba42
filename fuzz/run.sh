#!/bin/sh
# Runs every fuzz target for SECONDS each, and then the canary, which must fail.
#
#   fuzz/run.sh SECONDS [TARGET...]
#
# Works on a stable toolchain and without cargo-fuzz: the compiler is told by hand what cargo-fuzz would tell it. Inputs that
# were found interesting stay in fuzz/corpus, inputs that failed in fuzz/artifacts. SANITIZER=none leaves out the address
# sanitizer, FUZZ_TARGET_DIR chooses the build folder.
set -eu

seconds=${1:?usage: fuzz/run.sh SECONDS [TARGET...]}
shift
here=$(cd "$(dirname "$0")" && pwd)
cd "$here"
targets=${*:-memcached_request memcached_meta memcached_response memcached_binary resp_request collections engine}
triple=$(rustc -vV | sed -n 's/^host: //p')
build=${FUZZ_TARGET_DIR:-$here/target}

export RUSTC_BOOTSTRAP=1
flags="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4"
flags="$flags -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table"
flags="$flags -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1"
if [ "${SANITIZER:-address}" != none ]; then
    flags="$flags -Zsanitizer=${SANITIZER:-address}"
fi
# With --target the flags reach the targets and not the build scripts.
RUSTFLAGS="$flags" cargo build --release --quiet --target "$triple" --target-dir "$build" --bins
bin=$build/$triple/release

# run TARGET SECONDS: fuzzes one target.
run() {
    mkdir -p "corpus/$1" "artifacts/$1"
    # The engine's inputs are lists of calls, and a short one finds nothing.
    case $1 in
        engine) input="-max_len=400 -len_control=0 -timeout=30" ;;
        resp_*) input="-dict=resp.dict -max_len=1024 -timeout=10" ;;
        *) input="-dict=memcached.dict -max_len=1024 -timeout=10" ;;
    esac
    # shellcheck disable=SC2086
    "$bin/$1" "corpus/$1" $input -max_total_time="$2" -rss_limit_mb=2048 \
        -artifact_prefix="artifacts/$1/" -print_final_stats=1
}

for target in $targets; do
    log=$(mktemp)
    if run "$target" "$seconds" >"$log" 2>&1; then
        printf '%s: clean after %s\n' "$target" "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log") runs"
        grep -E ' (cov|DONE)' "$log" | tail -n 1
    else
        tail -n 80 "$log"
        echo "$target: FAILED; the input is in fuzz/artifacts/$target" >&2
        exit 1
    fi
    rm -f "$log"
done

# The canary starts from nothing each time, so that it shows what the fuzzer can find by itself.
rm -rf corpus/canary artifacts/canary
log=$(mktemp)
if run canary 300 >"$log" 2>&1; then
    echo "canary: the planted bug was NOT found: clean runs of the other targets mean nothing" >&2
    exit 1
fi
grep -q 'the planted bug was found' "$log" || { tail -n 80 "$log"; exit 1; }
rm -f "$log"
echo "canary: failed as it must"
