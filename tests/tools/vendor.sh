#!/usr/bin/env bash
# ./dev vendor: what it packs builds and installs without a network, by the commands of docs/guide/installing.md. Everything is built anew;
# ./dev test --tools runs it.
# shellcheck disable=SC2317  # functions are called by name, through try
# shellcheck disable=SC2046  # what pkg-config says is several flags
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
source scripts/machine.sh
has_rust
work=$PWD/build/vendor
source tests/checks.sh
unset BUILT CARGO_TARGET_DIR LIBDIR DESTDIR THALWEG_COMMIT

commit=$(git rev-parse --short=12 HEAD)
printed() { grep -xF "$1" docs/guide/installing.md; }
packs() {
    local line
    line=$(printed './dev vendor FILE.tar.gz')
    bash -ec "${line//FILE/$work/sources}"
    tar tzf "$work/sources.tar.gz" >"$work/names.txt"
    grep -qx 'thalweg-[0-9.]*/COMMIT' "$work/names.txt" && grep -q '/vendor/clap/Cargo.toml$' "$work/names.txt"
}
try "sources are packed with those of all crates" packs
again() { ./dev vendor "$work/again.tar.gz" && cmp "$work/sources.tar.gz" "$work/again.tar.gz" && rm "$work/again.tar.gz"; }
try "the same commit packs the same bytes" again

# Without a network where the system lets us; cargo has nothing but what was packed, in any case.
apart=()
if unshare -rn true 2>/dev/null; then apart=(unshare -rn); fi
mkdir -p "$work/cargo"
installs() {
    local rust=${RUSTUP_HOME:-$HOME/.rustup} line
    (
        printed 'tar xf FILE.tar.gz'
        printed 'cd thalweg-0.1.0'
        line=$(printed './dev install PREFIX --no-packages')
        # The profile of tests, and half of the crates: it takes a third of the time.
        echo "$line --without-far-stores"
    ) | sed "s|FILE|$work/sources|; s|PREFIX|$work/prefix|; s|thalweg-0.1.0|$(sed -n '1s|/.*||p' "$work/names.txt")|" >"$work/commands.sh"
    cat "$work/commands.sh"
    (cd "$work" && "${apart[@]}" env CARGO_HOME="$work/cargo" RUSTUP_HOME="$rust" CARGO_NET_OFFLINE=true BUILD=dev CARGO_PROFILE_DEV_DEBUG=0 CARGO_INCREMENTAL=0 \
        bash -e commands.sh)
}
try "they build and install without a network" installs
runs() {
    "$work/prefix/bin/thalweg" --version >"$work/told.txt"
    grep -qx "commit    $commit" "$work/told.txt"
    export PKG_CONFIG_PATH=$work/prefix/lib/pkgconfig
    cc -std=c11 -D_GNU_SOURCE $(pkg-config --cflags thalweg-nompi) tests/system/c/heat_noxml.c -o "$work/program" $(pkg-config --libs thalweg-nompi)
    (cd "$work" && ./program MPI run.bp 2 && "$work/prefix/bin/thalweg" ls run.bp)
}
try "what is installed runs" runs
[[ $failed != 0 ]] || rm -rf "$work"/thalweg-*
exit "$failed"
