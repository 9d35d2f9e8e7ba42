#!/usr/bin/env bash
# Compares the engine with what it was at a former commit: both are linked into one program, which calls them in turn, so that what else
# the machine does meets both alike.
#
#   bench/former/run.sh COMMIT [--memory MIB] [--turns N] [--values BYTES,...]
set -euo pipefail
commit=${1:?usage: bench/former/run.sh COMMIT [--memory MIB] [--turns N] [--values BYTES,...]}
shift
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
tree=target/former
rm -rf "$tree"
mkdir -p "$tree"
git archive "$commit" | tar -x -C "$tree"
# The files are as old as the commit: without this, what was built of another one would count as fresh.
find "$tree" -name '*.rs' -exec touch {} +
# Two packages of one name have to differ in their versions.
sed -i 's/^version = "[0-9.]*"$/version = "0.0.0"/' "$tree"/Cargo.toml "$tree"/crates/*/Cargo.toml
sed -i 's/\(path = "crates[^}]*\)version = "[^"]*"/\1version = "0.0.0"/' "$tree"/Cargo.toml
exec cargo run --release --manifest-path bench/former/Cargo.toml -- "$@"
