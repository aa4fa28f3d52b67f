#!/usr/bin/env bash
# What is installed is found: by CMake, by pkg-config, by thalweg-config, wherever the folder has been moved to; programs built so run.
# shellcheck disable=SC2317  # functions are called by name, through try
# shellcheck disable=SC2046,SC2086  # what is asked for is several flags
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
source scripts/machine.sh
source scripts/build.sh
use_mpi "${MPI:-openmpi}"
needs "${cpp_packages[@]}" gfortran

here=$PWD/tests/system/install
work=$PWD/build/install/$MPI
source tests/checks.sh
ranks=3
[[ $MPI_RANKS -ge 3 ]] || ranks=$MPI_RANKS

with_libraries

# Everything from a folder that was moved after it was installed.
moved=$work/moved
cp -r "$prefix" "$moved"
configure() { # configure FOLDER ARGUMENT...
    cmake -S "$here" -B "$1" -D CMAKE_PREFIX_PATH="$moved" -D mpi="$MPI" -D CMAKE_C_COMPILER="$MPICC" \
        -D CMAKE_CXX_COMPILER="mpicxx.$MPI" -D CMAKE_Fortran_COMPILER="mpif90.$MPI" "${@:2}"
}
try "CMake finds it ($MPI)" configure "$work/cmake"
try "CMake builds C, C++ and Fortran ($MPI)" cmake --build "$work/cmake"
for count in 1 "$ranks"; do
    try "adios.h by CMake ($MPI, $count ranks)" run "$count" ./cmake/adios MPI "adios-$count.bp" 3
    try "thalweg.h by CMake ($MPI, $count ranks)" run "$count" ./cmake/native .
    try "thalweg.hpp by CMake ($MPI, $count ranks)" run "$count" ./cmake/cpp .
done
cp examples/heat/heat.xml "$work"
try "Fortran by CMake ($MPI, $ranks ranks)" run "$ranks" ./cmake/heat heat.xml heat.bp
try "without MPI by CMake" "$work/cmake/alone" "$work"
try "static libraries by CMake ($MPI, $ranks ranks)" run "$ranks" ./cmake/static .
needs_none() { ! readelf -d "$1" | grep NEEDED | grep thalweg; }
try "programs linked so need none of ours" needs_none "$work/cmake/static"
uses_moved() {
    readelf -d "$work/cmake/cpp" | grep -E 'R(UN)?PATH' | grep -qF "$moved/lib" && ! grep -rqF "$prefix" "$moved/lib/cmake"
}
try "a moved folder is used where it is" uses_moved

refuses() { # refuses FIND_PACKAGE_ARGUMENTS WORDS: configuring fails, and says why
    mkdir -p "$work/refused"
    printf 'cmake_minimum_required(VERSION 3.20)\nproject(r LANGUAGES C)\nfind_package(thalweg %s)\n' "$1" >"$work/refused/CMakeLists.txt"
    ! cmake -S "$work/refused" -B "$work/refused/build" -D CMAKE_PREFIX_PATH="$moved" >"$work/refused.log" 2>&1 &&
        tr -s ' \n' ' ' <"$work/refused.log" | grep -qF "$2"
}
try "another version is refused" refuses '7.0 REQUIRED' 'compatible with requested version "7.0"'
try "a part that is not installed is named" refuses 'REQUIRED COMPONENTS cobol' 'thalweg::cobol is not installed in'

# pkg-config: each name there is.
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
by_pkg_config() { # by_pkg_config NAME COMPILER SOURCE ARGUMENT...
    "$2" -Wall -Wextra -Werror "${@:4}" $(pkg-config --cflags "$1") "$3" -o "$work/$1" $(pkg-config --libs "$1")
}
try "thalweg-$MPI by pkg-config" by_pkg_config "thalweg-$MPI" "$MPICC" tests/system/c/heat_noxml.c -std=c11 -D_GNU_SOURCE
try "thalweg-$MPI runs" run "$ranks" "./thalweg-$MPI" MPI pkg.bp 2
try "thalweg-nompi by pkg-config" by_pkg_config thalweg-nompi cc tests/system/c/heat_noxml.c -std=c11 -D_GNU_SOURCE
nompi_runs() { (cd "$work" && ./thalweg-nompi MPI nompi.bp 2); }
try "thalweg-nompi runs" nompi_runs
plain=$(mpicc -E -dM -x c - <<<'#include <mpi.h>' | grep -cE 'define OPEN_MPI ' || true)
if [[ $plain -gt 0 && $MPI == openmpi ]]; then
    try "thalweg is that of mpicc" by_pkg_config thalweg mpicc tests/system/c/heat_noxml.c -std=c11 -D_GNU_SOURCE
    try "thalweg-cpp is that of mpicxx" by_pkg_config thalweg-cpp mpicxx tests/system/native/native.cpp -std=c++17 -pthread
    try "thalweg-cpp runs" run "$ranks" ./thalweg-cpp .
fi

# thalweg-config, asked as adios_config is.
config=$moved/bin/thalweg-config
by_config() {
    "$MPICC" -std=c11 -D_GNU_SOURCE $("$config" -c --mpi "$MPI") tests/system/c/heat_noxml.c -o "$work/config" $("$config" -l --mpi="$MPI") &&
        run "$ranks" ./config MPI config.bp 2 &&
        cc -std=c11 -D_GNU_SOURCE $("$config" -s -c) tests/system/c/heat_noxml.c -o "$work/config-s" $("$config" -sl) &&
        (cd "$work" && ./config-s MPI config-s.bp 2)
}
try "thalweg-config's flags build programs that run" by_config
by_config_fortran() {
    "mpif90.$MPI" $("$config" -cf --mpi "$MPI") examples/heat/heat.f90 -o "$work/config-f" $("$config" -lf --mpi "$MPI") &&
        run 1 ./config-f heat.xml config-f.bp
}
by_config_static() {
    cc -std=c11 -D_GNU_SOURCE $("$config" -s -c) tests/system/c/heat_noxml.c -o "$work/config-static" $("$config" -sl --static) &&
        (cd "$work" && ./config-static MPI config-static.bp 2) && needs_none "$work/config-static"
}
try "and those for static linking" by_config_static
# Nothing but the names of the interfaces can be met: programs bring their own compression libraries.
only_ours() { ! nm --defined-only -g "$moved/lib/libthalweg-core.a" | awk 'NF == 3 { print $3 }' | grep -vE '^(thalweg_|adios_|(LOGICAL|PHYSICAL)_DATA_VIEW|NO_TRANSFORM)'; }
try "the static core shows our names alone" only_ours
try "and those for Fortran" by_config_fortran

# The preload library is loaded into every process under `thalweg run`: mounts, layouts, open files and the daemon's client only.
preload=$prefix/lib/libthalweg-preload.so
preload_crates() { /usr/bin/python3 scripts/crates.py; }
try "crates of the preload library" preload_crates
preload_needs() { [[ -e $preload ]] && ! readelf -d "$preload" | grep NEEDED | grep -vE '\[(libc|libgcc_s|libm|libdl|libpthread|librt|ld-linux[^]]*)\.so\.[0-9]+\]'; }
try "the preload library needs the C library only" preload_needs
preload_symbols() { # of what was built, which has them in every build
    nm "$built/libthalweg_preload.so" >"$work/preload.log" || return 1
    grep -q thalweg_open_file "$work/preload.log" && ! grep -iE '(zfp|blosc|ZSTD|ureq|reqwest|opendal|hdfs_native|tokio|rayon)' "$work/preload.log"
}
try "the preload library contains no compression library and no client of network stores" preload_symbols
size_at_most() { # size_at_most FILE MEGABYTES, tenths of them too
    local size
    size=$(stat -c %s "$1") && echo "$size bytes" && awk "BEGIN { exit !($size <= $2 * 1000000) }"
}
if [[ $BUILD == release ]]; then
    # As ./dev install puts it: without debug information.
    source scripts/installation.sh
    root=$work lib=$work put_built "$thalweg" "$work/bin/thalweg"
    try "the command has at most 25 MB" size_at_most "$work/bin/thalweg" 25
    # The target is 15 MB; the limit keeps today's size from growing.
    try "the core has at most 19 MB" size_at_most "$prefix/lib/libthalweg-core.so" 19
    try "the preload library has at most 5 MB" size_at_most "$preload" 5
fi
answers() {
    [[ $("$config" -v) == "$version" ]] && [[ $("$config" -d) == "$moved" ]] &&
        [[ $("$config" | sed 's/=.*//' | tr '\n' ' ') == 'DIR CFLAGS LDFLAGS ' ]] &&
        [[ $("$config" -cl | sed 's/=.*//' | tr '\n' ' ') == 'CFLAGS LDFLAGS ' ]] &&
        ! "$config" -x && ! "$config" -l --mpi nosuch
}
try "thalweg-config answers, and refuses what it does not know" answers
as_adios_config() {
    local asked
    for asked in '' -c -l -d '-c -l' '-d -l' '-l -s' '-c -f'; do
        diff <(adios_config $asked | sed 's/=.*/=/; t; s/.*/flags/') <("$config" $asked | sed 's/=.*/=/; t; s/.*/flags/') || return 1
    done
}
if command -v adios_config >/dev/null; then
    try "in the form of adios_config" as_adios_config
else
    echo "skipped: thalweg-config beside adios_config: it is not here"
fi

# What was written for ADIOS 1.x looks for adios_config, adios.h and libadios.
compat=$prefix/compat
old() { # old FOLDER COMPILER ARGUMENT...: a project with a FindADIOS.cmake of its own
    cmake -S "$here/adios1" -B "$work/$1" -D ADIOS_DIR="$compat" -D CMAKE_C_COMPILER="$2" "${@:3}" && cmake --build "$work/$1"
}
alone_runs() { (cd "$work" && env -u LD_LIBRARY_PATH "./$1/old" MPI "$1.bp" 2); }
try "a FindADIOS.cmake finds the library without MPI" old old-s cc -D parts=sequential
try "and the program runs" alone_runs old-s
try "a FindADIOS.cmake finds the static library without MPI" old old-static cc -D parts=sequential -D ADIOS_USE_STATIC_LIBS=ON
try "and the program runs alone" alone_runs old-static
try "which needs none of ours" needs_none "$work/old-static/old"
by_adios_config() { # by_adios_config COMPILER OPTION...: as a configure --with-adios=DIR does
    "$1" -std=c11 -D_GNU_SOURCE $("$compat/bin/adios_config" "${@:2}" -c) tests/system/c/heat_noxml.c -o "$work/by-config" $("$compat/bin/adios_config" "${@:2}" -l)
}
try "adios_config -s, without MPI" by_adios_config cc -s
alone_by_config() { (cd "$work" && ./by-config MPI by-config.bp 2); }
try "and the program runs, too" alone_by_config
generates() { # as a Makefile's rule does: python $(adios_config -d)/bin/gpp.py FILE
    ln -sfn "$thalweg" "$moved/bin/thalweg"
    (cd "$work" && rm -f gwrite_heat.* && python3 "$("$moved/compat/bin/adios_config" -d)/bin/gpp.py" heat.xml && [[ -s gwrite_heat.ch ]])
}
try "gpp.py in its folder writes a program's lines" generates
if [[ -e $compat/lib/libadios.so && $plain -gt 0 && $MPI == openmpi ]]; then
    try "a FindADIOS.cmake finds the library of mpicc" old old-mpi mpicc
    try "and the program runs on ranks" run "$ranks" ./old-mpi/old MPI old-mpi.bp 2
    try "a FindADIOS.cmake finds the library of readers" old old-readonly mpicc -D parts=readonly
    try "a FindADIOS.cmake finds the library of Fortran" old old-fortran mpicc -D parts=Fortran -D CMAKE_Fortran_COMPILER=mpif90
    try "and the program in Fortran runs" run 1 ./old-fortran/old heat.xml old-fortran.bp
    try "adios_config for mpicc" by_adios_config mpicc
    try "adios_config -r for mpicc" by_adios_config mpicc -r
    old_fortran() {
        mpif90 $("$compat/bin/adios_config" -f -c) examples/heat/heat.f90 -o "$work/old-f" $("$compat/bin/adios_config" -f -l) &&
            run 1 ./old-f heat.xml old-f.bp
    }
    try "adios_config -f for mpif90" old_fortran
else
    echo "skipped: FindADIOS.cmake and adios_config for mpicc: plain mpicc is not that of Open MPI"
fi
as_reference() {
    [[ $("$compat/bin/adios_config" -v) == 1.13.1 && $("$compat/bin/adios_config" -d) == "$compat" ]] && ! "$compat/bin/adios_config" -x &&
        [[ -z $(find "$prefix/lib" "$prefix/bin" "$prefix/include" -name '*adios*' ! -path "$prefix/include/thalweg/*") ]]
}
try "adios_config answers for ADIOS 1.13.1, and nothing of that name lies outside compat" as_reference
exit "$failed"
