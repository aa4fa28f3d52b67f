# shellcheck shell=bash
# install PREFIX [--without-far-stores]: the thalweg command, thalweg-convert where HDF5 is, the C libraries for Open MPI, MPICH and no MPI, headers,
# pkg-config files; with HDFS and S3, unless told not to, which halves the time to build
source scripts/machine.sh

prefix='' far=()
while [[ $# -gt 0 ]]; do
    case $1 in
        --without-far-stores) far=(--no-default-features) ;;
        -*) echo "dev install: unknown option $1" >&2 && exit 2 ;;
        *) prefix=$(realpath -m "$1") ;;
    esac
    shift
done
[[ -n $prefix ]] || { echo "usage: ./dev install PREFIX [--without-far-stores]" >&2 && exit 2; }
needs "${build_tools[@]}" "${openmpi_packages[@]}" "${mpich_packages[@]}"
needs_rust
BUILD=release
source scripts/build.sh
# The extension for Python is built by `pip install bindings/python`.
cargo build --quiet --release -p thalweg-cli -p thalweg-capi -p thalweg-preload "${far[@]}"
put_built "$thalweg" "$prefix/bin/thalweg"
if [[ ${#features[@]} -gt 0 ]]; then
    cargo build --quiet --release -p thalweg-convert "${features[@]}"
    put_built "$built/thalweg-convert" "$prefix/bin/thalweg-convert"
else
    echo "install: no HDF5 (Debian: libhdf5-dev); thalweg-convert, which writes views for HDF5, is left out" >&2
fi
bindings/c/install.sh "$prefix"
