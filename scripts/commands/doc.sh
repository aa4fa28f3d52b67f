# shellcheck shell=bash
# doc: builds the documentation of all crates and prints the path of its first page
source scripts/machine.sh

needs_rust
cargo doc --quiet --workspace --no-deps
echo "${CARGO_TARGET_DIR:-$PWD/target}/doc/thalweg_io/index.html"
