#!/usr/bin/env bash
# Programs and libraries of different MPIs: each pair of an MPI's compiler and a library of Thalweg's. Right pairs run; wrong ones do
# not link (Fortran programs, with the modules of their MPI), and where nothing stops the linker the first call says what is wrong, before any call into MPI with a foreign handle.
# shellcheck disable=SC2317  # functions are called by name, through try
# shellcheck disable=SC2046  # what pkg-config says is several flags
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
source scripts/machine.sh
source scripts/build.sh
needs "${openmpi_packages[@]}"
needs "${mpich_packages[@]}"
if [[ ${MPI:-openmpi} != openmpi ]]; then
    echo "skipped: both MPIs are tried at once, with openmpi"
    exit 0
fi
sources=$PWD/tests/system/pairs
work=$PWD/build/pairs
source tests/checks.sh
with_libraries

flags=(-g -O1 -Wall -Wextra -Werror)
# build LANGUAGE MPI LIBRARY PROGRAM FLAG...: by the compiler of an MPI, with a library of Thalweg's
build() {
    local language=$1 mpi=$2 library=$3 program=$4
    shift 4
    case $language in
        adios) "mpicc.$mpi" "${flags[@]}" "$@" "-I$prefix/include/thalweg" "$sources/pair.c" -o "$work/$program" $(pkg-config --libs "thalweg-$library") ;;
        native) "mpicc.$mpi" "${flags[@]}" -DNATIVE "$@" "-I$prefix/include/thalweg" "$sources/pair.c" -o "$work/$program" $(pkg-config --libs "thalweg-$library") ;;
        cpp) "mpicxx.$mpi" -std=c++17 -g -DOMPI_SKIP_MPICXX=1 -DMPICH_SKIP_MPICXX=1 "$@" "-I$prefix/include/thalweg" "$sources/pair.cpp" -o "$work/$program" $(pkg-config --libs "thalweg-$library") ;;
        own | own_f08 | own_read)
            # The modules of the program's MPI, the library for LIBRARY.
            (cd "$work" && "mpif90.$mpi" -g $(pkg-config --cflags "thalweg-fortran-$mpi") "$sources/${language/own/modules}.f90" \
                -o "$program" $(pkg-config --libs "thalweg-fortran-$library"))
            ;;
        modules | implicit)
            (cd "$work" && "mpif90.$mpi" -g -fallow-argument-mismatch -w "$@" $(pkg-config --cflags "thalweg-fortran-$library") "$sources/$language.f90" \
                -o "$program" $(pkg-config --libs "thalweg-fortran-$library"))
            ;;
    esac
}
# with MPI PROGRAM: two ranks; what they print is in $work/said
with() {
    local mpi=$1 options=()
    shift
    [[ $mpi == openmpi ]] && options=(--oversubscribe)
    rm -rf "$work/pair.bp"
    (cd "$work" && limited 900 "mpiexec.$mpi" "${options[@]}" -n 2 "$@") >"$work/said" 2>"$work/stderr.log" || { cat "$work/said" && return 1; }
    cat "$work/said"
}
right() { # right LANGUAGE MPI
    build "$1" "$2" "$2" "$1-$2"
    with "$2" "./$1-$2"
    [[ $(grep -cE '^rank [01] of 2: written$' "$work/said") == 2 ]]
    # One file of both.
    [[ $("$thalweg" dump "$work/pair.bp" rank | grep -coE 'rank' || true) -ge 1 ]]
    "$thalweg" ls -l "$work/pair.bp"
}
wrong() { # wrong LANGUAGE MPI LIBRARY
    ! build "$1" "$2" "$3" wrong 2>"$work/linker.log" || return 1
    cat "$work/linker.log"
    grep -qE "undefined reference to .(thalweg_needs_$2(_adios_[a-z_]+)?|__adios_[a-z]+_mod_MOD_needs_$2_[a-z0-9_]+)'" "$work/linker.log"
}
refused() { # refused LANGUAGE MPI LIBRARY FLAG...: it links, and its first call fails on both ranks
    local language=$1 mpi=$2 library=$3
    shift 3
    build "$language" "$mpi" "$library" "$language-$mpi-$library" "$@"
    with "$mpi" "./$language-$mpi-$library"
    cat "$work/stderr.log"
    [[ $(grep -cE '^rank [01] of 2: refused' "$work/said") == 2 ]]
    grep -q 'the program runs with another MPI' "$work/said" "$work/stderr.log"
    [[ ! -e $work/pair.bp ]]
}
others() { # others MPI: the libraries that are not for it
    [[ $1 == openmpi ]] && echo mpich nompi || echo openmpi nompi
}
for mpi in openmpi mpich; do
    for language in adios native cpp; do
        try "$language with $mpi runs" right "$language" "$mpi"
        for library in $(others "$mpi"); do
            try "$language with $mpi does not link with the library for $library" wrong "$language" "$mpi" "$library"
            # As where a program declares the functions itself.
            try "$language with $mpi is told of the library for $library" refused "$language" "$mpi" "$library" -DTHALWEG_OF_MPI
        done
    done
done
is_there_f08() { # is_there_f08 MPI: the modules take communicators of mpi_f08, too
    printf 'use mpi_f08, only: MPI_Comm\nend\n' >"$work/f08.f90"
    (cd "$work" && "mpif90.$1" -fsyntax-only f08.f90 2>/dev/null)
}
if command -v gfortran >/dev/null; then
    for mpi in openmpi mpich; do
        for language in modules implicit; do
            try "Fortran ($language) with $mpi runs" right "$language" "$mpi"
            for library in $(others "$mpi"); do
                try "Fortran ($language) with $mpi is told of the library for $library" refused "$language" "$mpi" "$library"
            done
        done
        own=(own own_read)
        ! is_there_f08 "$mpi" || own+=(own_f08)
        for library in $(others "$mpi"); do
            for language in "${own[@]}"; do
                try "Fortran (${language/own/modules}) with $mpi and its modules does not link with the library for $library" wrong "$language" "$mpi" "$library"
            done
        done
        for language in "${own[@]}"; do
            try "Fortran (${language/own/modules}) with $mpi and its modules links" build "$language" "$mpi" "$mpi" linked
        done
    done
else
    echo "skipped: Fortran programs: no gfortran"
fi

# The library for one process leaves the names of a real MPI alone.
no_names() { ! nm -D --defined-only "$prefix/lib/libthalweg-nompi.so" | grep -E ' P?MPI_' && ! nm --defined-only "$prefix/lib/libthalweg-nompi.a" | grep -E ' P?MPI_'; }
try "the library for one process has no name of MPI's" no_names
beside() { # beside MPI
    cc "${flags[@]}" $(pkg-config --cflags thalweg-nompi) -c "$sources/beside.c" -o "$work/beside.o"
    # Its library first, so that its names would win.
    "mpicc.$1" "${flags[@]}" "$sources/main.c" "$work/beside.o" -o "$work/beside-$1" $(pkg-config --libs thalweg-nompi)
    with "$1" "./beside-$1"
    [[ $(grep -cE '^rank [01] of 2: alone 1, refused 1$' "$work/said") == 2 ]]
}
for mpi in openmpi mpich; do
    try "a part for one process in a program of $mpi" beside "$mpi"
done
parts() { # parts MPI: shared libraries of one program, each with the library of Thalweg that is for it, in both orders
    local order
    cc "${flags[@]}" -fPIC -shared $(pkg-config --cflags thalweg-nompi) "$sources/beside.c" -o "$work/libalone.so" $(pkg-config --libs thalweg-nompi)
    "mpicc.$1" "${flags[@]}" -fPIC -shared -Dmain=pair "-I$prefix/include/thalweg" "$sources/pair.c" -o "$work/libranks.so" $(pkg-config --libs "thalweg-$1")
    for order in '-lalone -lranks' '-lranks -lalone'; do
        # shellcheck disable=SC2086  # two libraries
        cc "${flags[@]}" "$sources/parts.c" -o "$work/parts" "-L$work" "-Wl,-rpath,$work" -Wl,--no-as-needed $order
        with "$1" ./parts
        [[ $(grep -cE '^rank [01] of 2: written$' "$work/said") == 2 ]]
    done
}
for mpi in openmpi mpich; do
    try "shared libraries of one program, for one process and of $mpi" parts "$mpi"
done
constants() { # constants COMPILER FLAG...: a file of types and constants refers to no function, and links without any library
    local level
    for level in -O0 -O2; do
        "$@" "$level" -Wall -Wextra -Werror "-I$prefix/include/thalweg" "$sources/constants.c" -o "$work/constants"
        [[ $("$work/constants") == "6 0" ]]
    done
}
try "constants alone want no library: without MPI" constants cc -D_NOMPI
try "constants alone want no library: Open MPI" constants mpicc.openmpi
try "constants alone want no library: MPICH" constants mpicc.mpich
mpidummy() { # mpidummy LIBRARY
    cc "${flags[@]}" $(pkg-config --cflags thalweg-nompi) -c "$sources/beside.c" -o "$work/beside.o"
    printf 'int refused_without_mpi(void); int main(void) { return refused_without_mpi(); }\n' >"$work/alone.c"
    ! cc "$work/alone.c" "$work/beside.o" -o "$work/wrong" $(pkg-config --libs "thalweg-$1") 2>"$work/linker.log" || return 1
    grep -q "undefined reference to .thalweg_needs_nompi'" "$work/linker.log"
}
for library in openmpi mpich; do
    try "a program for one process does not link with the library for $library" mpidummy "$library"
done
exit "$failed"
