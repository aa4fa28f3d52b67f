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

# features: what cargo builds besides: thalweg-convert, where HDF5 is. Of the two that Debian can have, the one without MPI is taken.
features=()
if [[ -z ${HDF5_DIR:-} && -e /usr/lib/$(cc -print-multiarch 2>/dev/null)/hdf5/serial/libhdf5_hl.so ]]; then
    HDF5_DIR=/usr/lib/$(cc -print-multiarch)/hdf5/serial
    export HDF5_DIR
fi
if [[ -n ${HDF5_DIR:-} ]] || pkg-config --exists hdf5 2>/dev/null; then
    features=(--features thalweg-convert/hdf5)
fi

# build_all: every library, program and example; a second call costs half a second. BUILT=1: what lies there is taken.
build_all() {
    [[ -z ${BUILT:-} ]] || return 0
    local options=(--workspace --lib --bins --examples "${features[@]}")
    # Benches are built by ./dev bench: each of them takes half a minute to link.
    [[ $BUILD == dev ]] || options+=(--release --exclude thalweg-benches)
    # Build scripts of libraries run again where it differs, and all that stands on them is built again.
    env -u PKG_CONFIG_PATH cargo build --quiet "${options[@]}"
}

# put_built FROM TO: installs what was built, where it differs from what lies there, under a new name first, as programs may be running.
# Of a release the debug information lies beside it, in .debug/, where debuggers look for it.
put_built() {
    local name folder
    if [[ $BUILD != release ]]; then
        cmp -s "$1" "$2" || install -D -m 755 "$1" "$2"
        return
    fi
    [[ -e $2 && ! $1 -nt $2 ]] && return
    name=$(basename "$2") folder=$(dirname "$2")
    mkdir -p "$folder/.debug"
    objcopy --only-keep-debug --compress-debug-sections "$1" "$folder/.debug/$name.debug"
    # The link tells the file's name and checksum.
    (cd "$folder/.debug" && objcopy --strip-debug --strip-unneeded --add-gnu-debuglink="$name.debug" "$1" "../$name.new")
    chmod 755 "$folder/$name.new"
    mv "$folder/$name.new" "$2"
}
