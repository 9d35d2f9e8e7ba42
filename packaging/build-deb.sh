#!/bin/sh
# Builds the Debian package; its name is the last line of the output. Needs cargo-deb: cargo install cargo-deb --locked
# The package has the program without lines; they are beside it, in target/dist/millpond.debug.
set -eu
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-target}
out=packaging/out

cargo build --locked --profile dist --package millpond-cli
packaging/split-symbols.sh "$target/dist/millpond"
rm -rf "$out"
mkdir -p "$out"
"$target/dist/millpond" man "$out/man"
"$target/dist/millpond" completions bash >"$out/millpond.bash"
"$target/dist/millpond" completions zsh >"$out/_millpond"
"$target/dist/millpond" completions fish >"$out/millpond.fish"
cargo deb --package millpond-cli --profile dist --no-build --no-strip
