#!/usr/bin/env bash
# Programs go on with a later library of the same number: what they rely on is recorded, each library is found by its number, and a place
# without what compilers need runs them.
# shellcheck disable=SC2317  # functions are called by name, through try
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
source scripts/machine.sh
source scripts/build.sh
use_mpi "${MPI:-openmpi}"
work=$PWD/build/abi/$MPI
source tests/checks.sh
with_libraries

unchanged() { bindings/c/abi.sh check "$prefix"; }
try "names and declarations are the recorded ones" unchanged
# tells RECORD-CHANGE WORDS...: with such a record the comparison fails, and says these words.
tells() {
    local word
    # With another compiler than the record's, declarations would not be compared.
    rm -rf "$work/record"
    mkdir "$work/record"
    THALWEG_ABI_RECORD=$work/record bindings/c/abi.sh record "$prefix"
    (cd "$work/record" && bash -euc "$1")
    ! THALWEG_ABI_RECORD=$work/record bindings/c/abi.sh check "$prefix" >"$work/told.txt" || return 1
    for word in "${@:2}"; do
        grep -qF -- "$word" "$work/told.txt" || return 1
    done
}
try "a function that is gone is told" tells 'sed -i "1i adios_was_there" symbols/core.txt; LC_ALL=C sort -o symbols/core.txt symbols/core.txt' \
    symbols/core.txt 'Another number' adios_was_there
try "a function that nobody recorded is told" tells 'sed -i /^adios_clear_error$/d symbols/core.txt' 'not recorded' adios_clear_error
try "a structure with another member is told" tells 'sed -i "s/^type _ADIOS_STAT_BLOCK struct { mins/&_and/" declarations.txt' 'Another number' 'struct { mins_and' 'struct { mins **byte'
try "a library that is gone is told" tells 'echo x >symbols/gone.txt' 'libthalweg-gone is no longer there'
try "a record of another number is told" tells 'echo 0.0 >number.txt' 'the record is of 0.0'
try "another constant is told" tells 'sed -i "s/^const _adios_complex = .*/const _adios_complex = 9/" declarations.txt' 'const _adios_complex = 9' 'const _adios_complex = 10'

numbered() {
    local library name
    for library in "$prefix"/lib/libthalweg-*.so."$abi"; do
        name=$(basename "$library")
        readelf -d "$library" >"$work/dynamic.txt"
        grep -F "Library soname: [$name]" "$work/dynamic.txt"
        if grep NEEDED "$work/dynamic.txt" | grep thalweg | grep -vF ".so.$abi]"; then return 1; fi
        [[ $(readlink "$library") == "$name${version#"$abi"}" && $(readlink "${library%".$abi"}") == "$name" ]]
    done
}
try "each library has its number in its name, and asks for others by it" numbered

# What another release left goes where it has the same number, also of a library that was not built this time; the rest stays.
replaces() {
    local lib=$work/upgraded
    mkdir -p "$lib/.debug"
    : >"$lib/libthalweg-core.so.$abi.77"
    : >"$lib/.debug/libthalweg-core.so.$abi.77.debug"
    : >"$lib/libthalweg-mpich.so.$abi.77"
    ln -s "libthalweg-mpich.so.$abi.77" "$lib/libthalweg-mpich.so.$abi"
    ln -s "libthalweg-mpich.so.$abi" "$lib/libthalweg-mpich.so"
    : >"$lib/libthalweg-core.so.77.1"
    ln -s libthalweg-core.so.77.1 "$lib/libthalweg-core.so.77"
    : >"$lib/libthalweg-core.so.$version"
    : >"$lib/.debug/libthalweg-core.so.$version.debug"
    root=$lib
    source scripts/installation.sh
    library_links thalweg-core
    other_releases_gone
    diff - <(cd "$lib" && find . -type l -o -type f | LC_ALL=C sort) <<EOF
./.debug/libthalweg-core.so.$version.debug
./libthalweg-core.so
./libthalweg-core.so.$abi
./libthalweg-core.so.$version
./libthalweg-core.so.77
./libthalweg-core.so.77.1
EOF
    [[ $(readlink -f "$lib/libthalweg-core.so") == "$lib/libthalweg-core.so.$version" ]]
}
try "a release takes the place of another one with its number" replaces

# As a package for those who only run programs has it.
bare=$work/bare
cp -r "$prefix" "$bare"
rm -r "$bare"/lib/*.{so,a} "$bare/include" "$bare/lib/pkgconfig" "$bare/lib/cmake" "$bare/compat"
cp "$prefix/lib/libthalweg-preload.so" "$bare/lib/"
read -ra flags <<<"$(pkg-config --cflags --libs "thalweg-$MPI")"
"$MPICC" -std=c11 -D_GNU_SOURCE tests/system/c/heat_noxml.c -o "$work/heat" "${flags[@]//$prefix\/lib/$bare/lib}" "-L$prefix/lib" "-I$prefix/include/thalweg"
remembers() { readelf -d "$work/heat" | grep NEEDED | grep -F "libthalweg-core.so.$abi" && ! readelf -d "$work/heat" | grep -F "$prefix/lib"; }
try "a program remembers the number" remembers
ranks=$((MPI_RANKS < 3 ? MPI_RANKS : 3))
try "it runs where nothing is installed but what runs" run "$ranks" ./heat MPI heat.bp 2
counts() { "$bare/bin/thalweg" --version | tee "$work/told.txt" | grep -E "^MPI .*$MPI \(C, Fortran, MPI-IO\)"; }
try "and the command there finds its libraries" counts
door() {
    alone env LD_DEBUG=files LD_DEBUG_OUTPUT="$work/loaded" "$bare/bin/thalweg" run -- ./heat MPI heat.bp 2 &&
        grep -hoF "$bare/lib/libthalweg-mpiio-$MPI.so.$version" "$work"/loaded.* | sort -u
}
try "and its door for MPI-IO" door
exit "$failed"
