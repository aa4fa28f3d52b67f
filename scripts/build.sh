# shellcheck shell=bash
# What is built, and where it lies. Sourced by commands and tests.
#
# One command builds everything for the tests, so that cargo gives each library one set of features: `cargo build -p X` asks
# for others, and what stands on them would be built a second time.
#
#   BUILD=dev      the libraries and programs that tests are run with; overflows and assertions are checked
#   BUILD=release  what is installed; ./dev test --long tests this

# shellcheck disable=SC2034  # for those who source this

export BUILD=${BUILD:-dev}
case $BUILD in
    dev) built=${CARGO_TARGET_DIR:-$PWD/target}/debug ;;
    release) built=${CARGO_TARGET_DIR:-$PWD/target}/release ;;
    *) echo "BUILD=$BUILD is neither dev nor release" >&2 && exit 2 ;;
esac
thalweg=$built/thalweg # the command

# version: of the project. abi: of its libraries, as in libthalweg-core.so.0.1; they can replace each other while it is the same
# (bindings/c/abi). Below version 1 it is the first two numbers of the version, then the first one; crates/types/src/abi.rs has the same rule.
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
case $version in
    0.*) abi=$(cut -d. -f1,2 <<<"$version") ;;
    *) abi=${version%%.*} ;;
esac
# core_into FOLDER: the core as it is called where it is installed.
core_into() { ln -s "$built/libthalweg_core.so" "$1/libthalweg-core.so.$abi"; }

# features: what cargo builds besides: thalweg-convert, where HDF5 is. Of the two that Debian can have, the one without MPI is taken.
features=()
if [[ -z ${HDF5_DIR:-} && -e /usr/lib/$(cc -print-multiarch 2>/dev/null)/hdf5/serial/libhdf5_hl.so ]]; then
    HDF5_DIR=/usr/lib/$(cc -print-multiarch)/hdf5/serial
    export HDF5_DIR
fi
# RHEL and openSUSE have it in /usr/lib64, without a file for pkg-config.
if [[ -n ${HDF5_DIR:-} || -e /usr/lib64/libhdf5_hl.so && -e /usr/include/hdf5.h ]] || pkg-config --exists hdf5 2>/dev/null; then
    features=(--features thalweg-convert/hdf5)
fi

# commit: of these sources, for thalweg --version: git's, with "-changed" where files differ from it, or that of packed sources
# (./dev vendor).
commit() {
    local found
    if [[ -e COMMIT ]]; then
        cat COMMIT
    elif [[ $(git rev-parse --show-toplevel 2>/dev/null) == "$(pwd -P)" ]] && found=$(git rev-parse --short=12 HEAD 2>/dev/null); then
        [[ -z $(git status --porcelain --untracked-files=no) ]] || found+=-changed
        echo "$found"
    else
        echo unknown
    fi
}
# Builds for tests don't tell it: the command would be linked anew at every commit.
if [[ ($BUILD == release || -e COMMIT) && -z ${THALWEG_COMMIT:-} ]]; then
    THALWEG_COMMIT=$(commit)
    export THALWEG_COMMIT
fi

# everything: what tests and installations need. Benches are built by ./dev bench: each of them takes long to link; fuzz targets by
# ./dev fuzz.
everything=(--workspace --exclude thalweg-benches --exclude thalweg-fuzz --lib --bins --examples)

# build_all: every library, program and example; a second call costs half a second. BUILT=1: what lies there is taken.
build_all() {
    [[ -z ${BUILT:-} ]] || return 0
    local options=("${everything[@]}" "${features[@]}")
    [[ $BUILD == dev ]] || options+=(--release)
    # Build scripts of libraries run again where PKG_CONFIG_PATH differs, and all that stands on them is built again. DESTDIR is that
    # of an installation: libraries that CMake builds would follow it.
    env -u PKG_CONFIG_PATH -u DESTDIR -u LIBDIR cargo build --quiet "${options[@]}"
}
