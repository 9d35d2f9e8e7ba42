#!/bin/sh
# Builds the Debian package; its name is the last line of the output. Needs cargo-deb: cargo install cargo-deb --locked
set -eu
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
out=packaging/out

cargo build --locked --release --package millpond-cli
rm -rf "$out"
mkdir -p "$out"
"$target/release/millpond" man "$out/man"
"$target/release/millpond" completions bash >"$out/millpond.bash"
"$target/release/millpond" completions zsh >"$out/_millpond"
"$target/release/millpond" completions fish >"$out/millpond.fish"
cargo deb --package millpond-cli --no-build
