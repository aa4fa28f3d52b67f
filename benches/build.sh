# shellcheck shell=bash
# Builds what benches run; sourced by their `run` scripts, which `./dev bench NAME` starts in the root of the repository.
# A step that is up to date costs milliseconds.

set -euo pipefail
: "${MPICC:?benches are run by ./dev bench}" "${MPIEXEC:?}" "${PYTHON:?}" "${BENCH_JSON:?}"
here=$(dirname "$(readlink -f "$0")")
out=$PWD/build/bench/$(basename "$here")
mkdir -p "$out"

# rust BIN: builds and names the program.
rust() {
    cargo build --quiet --release -p thalweg-benches --bin "$1"
}

# thalweg_installed: what C programs are linked with, in build/prefix.
thalweg_installed() {
    ./dev install build/prefix
    export PKG_CONFIG_PATH=$PWD/build/prefix/lib/pkgconfig
}

# compile PROGRAM SOURCE FLAGS...: compiles with MPI's compiler when a source of the bench is newer.
compile() {
    local program=$out/$1 source=$here/$2
    shift 2
    if [[ ! -e $program || -n $(find "$here" -name '*.[ch]' -newer "$program") ]]; then
        "$MPICC" -std=c11 -D_GNU_SOURCE -O3 -Wall -Wextra -Werror -o "$program" "$source" "$@"
    fi
}

# adios1: whether ADIOS 1.13 is on this machine.
adios1() {
    [[ -e /usr/include/adios_read.h && -e /usr/lib/$(cc -print-multiarch)/adios/openmpi/lib/libadios.a ]]
}

# hdf5: whether parallel HDF5 is.
hdf5() {
    [[ -e /usr/include/hdf5/openmpi/hdf5.h ]]
}

# pnetcdf: whether PnetCDF is.
pnetcdf() {
    [[ -e /usr/include/pnetcdf.h ]]
}
