#!/usr/bin/env bash
# thalweg.h and thalweg.hpp: tests compiled as C11 and as C++17 and C++20 by each compiler at hand with all warnings, run with the
# MPI at hand and without any; read by bpls; free of leaks. The examples in C++ give the files of those in C.
# shellcheck disable=SC2317  # functions are called by name, through try and many
# shellcheck disable=SC2046  # what pkg-config says is several flags
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
source scripts/machine.sh
source scripts/build.sh
use_mpi "${MPI:-openmpi}"
needs "${cpp_packages[@]}"

sources=$PWD/tests/system/native
work=$PWD/build/native/$MPI
source tests/checks.sh


with_libraries
warnings=(-O1 -g -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror)
# The C++ bindings of old MPI headers are not ours to clean.
no_mpicxx=(-DOMPI_SKIP_MPICXX=1 -DMPICH_SKIP_MPICXX=1)
mpi_count=3
[[ $MPI_RANKS -ge 3 ]] || mpi_count=$MPI_RANKS

compile_c() {
    # The tests' own numbers are small.
    "$MPICC" -std=c11 "${warnings[@]}" $(pkg-config --cflags "thalweg-$MPI") "$sources/native.c" -o "$work/c" $(pkg-config --libs "thalweg-$MPI") &&
        cc -std=c11 "${warnings[@]}" $(pkg-config --cflags thalweg-nompi) "$sources/native.c" -o "$work/c.nompi" $(pkg-config --libs thalweg-nompi)
}
# cxx COMPILER ARGUMENT...: by this compiler, with the MPI at hand
cxx() {
    local compiler=$1
    shift
    OMPI_CXX=$compiler MPICH_CXX=$compiler "mpicxx.$MPI" "${no_mpicxx[@]}" "$@"
}
compile_cpp() { # compile_cpp COMPILER STANDARD
    cxx "$1" "-std=c++$2" "${warnings[@]}" $(pkg-config --cflags "thalweg-$MPI") "$sources/native.cpp" -o "$work/cpp" \
        $(pkg-config --libs "thalweg-$MPI") -pthread &&
        "$1" "-std=c++$2" "${warnings[@]}" $(pkg-config --cflags thalweg-nompi) "$sources/native.cpp" -o "$work/cpp.nompi" \
            $(pkg-config --libs thalweg-nompi) -pthread
}

try "C11 compiles without a warning" compile_c
for ranks in 1 "$mpi_count"; do many "C, $MPI, $ranks ranks" run "$ranks" ./c; done
many "C, no MPI" alone ./c.nompi
for compiler in g++ clang++; do
    for standard in 17 20; do
        try "C++$standard compiles without a warning ($compiler)" compile_cpp "$compiler" "$standard"
    done
    for ranks in 1 "$mpi_count"; do many "C++, $compiler, $MPI, $ranks ranks" run "$ranks" ./cpp; done
    many "C++, $compiler, no MPI" alone ./cpp.nompi
done

# Programs that end without having closed what they opened.
PYTHON=$(realpath -s "${PYTHON:-build/venv/bin/python}")
left_compiles() {
    cc -std=gnu11 -O1 -Wall -Wextra -Werror $(pkg-config --cflags thalweg-nompi) "$sources/left.c" -o "$work/left-c" $(pkg-config --libs thalweg-nompi)
    g++ -std=c++17 -O1 -Wall -Wextra -Werror $(pkg-config --cflags thalweg-nompi) "$sources/left.cpp" -o "$work/left-cpp" $(pkg-config --libs thalweg-nompi)
}
all_closed_steps() { # all_closed_steps FILE: for every reader
    "$PYTHON" -c '
import sys, adios2
with adios2.FileReader(sys.argv[1]) as f:
    assert int(f.available_variables()["n"]["AvailableStepsCount"]) == 20
    n = f.inquire_variable("n")
    n.set_step_selection([0, 20])
    assert list(f.read(n)) == list(range(20)), f.read(n)
' "$1"
    ! command -v bpls >/dev/null || bpls -l "$1" | grep -qE 'n +20\*scalar = 0 / 19'
    "$thalweg" verify "$1"
}
left() { # left PROGRAM ARGUMENT...; the file is the last one
    alone "$@"
    all_closed_steps "$work/${*: -1}"
}
left_as() { # left_as HOW
    left ./left-c "$1" "left-$1.bp"
}
left_by_exception() { left ./left-cpp left-thrown.bp; }
left_by_nobody() {
    alone ./left-cpp left-forgotten.bp more
    all_closed_steps "$work/left-forgotten.bp"
}
try "programs that are left with closed steps compile" left_compiles
for how in return exit drop adios child; do
    try "all closed steps are there for every reader after: $how" left_as "$how"
done
try "all closed steps are there for every reader after an exception in C++" left_by_exception
try "all closed steps are there for every reader where C++ frees nothing" left_by_nobody

# Where the library of C++ has no mdspan, a little one stands in, so that what is written for it is compiled and run.
mdspan() {
    local flags=(-std=c++20 -D__cpp_lib_mdspan=202207L "-I$sources/mdspan")
    printf '#include <version>\n#if defined(__cpp_lib_mdspan)\n#error yes\n#endif\n' |
        g++ -std=c++23 -fsyntax-only -x c++ - 2>/dev/null || flags=(-std=c++23)
    cxx g++ "${flags[@]}" "${warnings[@]}" $(pkg-config --cflags "thalweg-$MPI") "$sources/native.cpp" -o "$work/mdspan" \
        $(pkg-config --libs "thalweg-$MPI") -pthread && run "$mpi_count" ./mdspan >"$work/mdspan.log" &&
        grep -q '^ok an mdspan brings its extents along' "$work/mdspan.log"
}
try "mdspan" mdspan

refused() { # refused STATEMENT: does not compile, and does without what is wrong with it
    printf '#include <thalweg.hpp>\n[[maybe_unused]] static void f(thalweg::Output& o, const std::vector<double>& v) { %s; (void)v; }\nint main() {}\n' "$1" |
        g++ -std=c++17 -fsyntax-only $(pkg-config --cflags thalweg-nompi) -x c++ - 2>"$work/refused.log"
}
try "what lasts may be deferred" refused 'o.write_deferred("T", v)'
not_a_temporary() { ! refused 'o.write_deferred("T", std::vector<double>(v))' && grep -q 'does not last until close' "$work/refused.log"; }
try "a temporary may not" not_a_temporary
no_bool() { ! refused 'o.write("T", true)'; }
try "bool is no element type" no_bool

# What it wrote, as ADIOS 1.13 sees it.
listing() {
    run 1 ./cpp >/dev/null
    bpls -la "$work/cpp.bp" >"$work/listing" && grep -qE '^ *double *T *3\*\{3, 1200\} = 0 / 2\.0032e\+06' "$work/listing" &&
        grep -qE '^ *long double *wide *3\*scalar' "$work/listing" && grep -qE '^ *char\*\[\] *sides *attr *= \{"north", "south"\}' "$work/listing"
}
if command -v bpls >/dev/null; then
    try "bpls sees what C++ wrote" listing
else
    echo "skipped: C++ beside ADIOS 1.13: no bpls"
fi

clean() { # clean PROGRAM: no invalid access, nothing lost
    alone valgrind --quiet --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite,indirect "$@" >"$work/valgrind.log"
}
if [[ $MPI == openmpi ]]; then
    try "valgrind finds nothing (C)" clean ./c.nompi
    try "cycles compile" cc -std=gnu11 -O1 -Wall -Wextra -Werror $(pkg-config --cflags thalweg-nompi) "$sources/cycles.c" -o "$work/cycles" \
        $(pkg-config --libs thalweg-nompi)
    many "10,000 cycles" alone ./cycles
    try "valgrind finds nothing (C++)" clean ./cpp.nompi
fi

# The examples.
build_all
same_files() { # same_files FILE FILE VARIABLE...
    "$thalweg" dump "$1" "${@:3}" >"$work/one.dump" && "$thalweg" dump "$2" "${@:3}" >"$work/other.dump" || return 1
    cmp "$work/one.dump" "$work/other.dump" || { diff "$work/one.dump" "$work/other.dump" | head -n 20 && return 1; }
    ! command -v bpls >/dev/null || diff <(bpls -lad "$1" && bpls -d "$1") <(bpls -lad "$2" && bpls -d "$2")
}
flags=(-O2 -ffp-contract=off -Wall -Wextra -Wpedantic -Werror)
heat() {
    local at=examples/heat
    cp "$at/heat.xml" "$work"
    "$MPICC" -std=c11 "${flags[@]}" $(pkg-config --cflags "thalweg-$MPI") "$at/heat.c" -o "$work/heat-c" $(pkg-config --libs "thalweg-$MPI") &&
        cxx g++ -std=c++17 "${flags[@]}" $(pkg-config --cflags "thalweg-$MPI") "$at/heat.cpp" -o "$work/heat-cpp" $(pkg-config --libs "thalweg-$MPI") &&
        cc -std=c11 "${flags[@]}" $(pkg-config --cflags thalweg-nompi) "$at/read.c" -o "$work/read-c" $(pkg-config --libs thalweg-nompi) &&
        g++ -std=c++17 "${flags[@]}" $(pkg-config --cflags thalweg-nompi) "$at/read.cpp" -o "$work/read-cpp" $(pkg-config --libs thalweg-nompi)
}
try "heat compiles" heat
for ranks in 1 "$mpi_count"; do
    try "heat in C ($ranks ranks)" run "$ranks" ./heat-c heat.xml "heat-c-$ranks.bp"
    try "heat in C++ ($ranks ranks)" run "$ranks" ./heat-cpp heat.xml "heat-cpp-$ranks.bp"
    try "heat: C and C++ give the same file ($ranks ranks)" same_files "$work/heat-c-$ranks.bp" \
        "$work/heat-cpp-$ranks.bp" ny nx rows first iteration time T
done
same_reading() {
    alone ./read-c heat-c-1.bp >"$work/read-c.txt" && alone ./read-cpp "heat-cpp-$mpi_count.bp" >"$work/read-cpp.txt" &&
        grep -q '^step 4: time 50.0, T from 0.000 to 100.000, in the middle 16.825$' "$work/read-c.txt" &&
        cmp "$work/read-c.txt" "$work/read-cpp.txt"
}
try "heat: C and C++ read the same" same_reading

gray_scott() {
    local at=examples/gray-scott
    make --silent -C "$at" PREFIX="$prefix" MPICC="$MPICC" OUT="$work" ADIOS_CFLAGS="$(pkg-config --cflags "thalweg-$MPI")" \
        ADIOS_LIBS="$(pkg-config --libs "thalweg-$MPI")" &&
        OMPI_CXX=g++ make --silent -C "$at/cpp" PREFIX="$prefix" MPICXX="mpicxx.$MPI" OUT="$work" \
            THALWEG="${no_mpicxx[*]} $(pkg-config --cflags --libs "thalweg-$MPI")" &&
        cp "$at/gray-scott.xml" "$work"
}
in_two_parts() { # in_two_parts PROGRAM: half on all ranks, carried on by fewer; its files go to a folder of its name
    local options=(--size 16 --plotgap 20 --checkpoint 30)
    mkdir -p "$work/$1-run"
    options+=(--output "$1-run/gs.bp" --state "$1-run/restart.bp")
    run "$MPI_RANKS" "./$1" --steps 60 "${options[@]}" >"$work/$1.log" &&
        run "$((MPI_RANKS - 1))" "./$1" --steps 100 "${options[@]}" --restart >>"$work/$1.log"
}
same_run() {
    diff <(grep fingerprint "$work/gray-scott.log") <(grep fingerprint "$work/gray-scott-cpp.log") &&
        [[ $(grep -c fingerprint "$work/gray-scott.log") == 2 ]] &&
        same_files "$work/gray-scott-run/gs.bp" "$work/gray-scott-cpp-run/gs.bp" L step time u v &&
        same_files "$work/gray-scott-run/restart.bp" "$work/gray-scott-cpp-run/restart.bp" L step u v
}
try "Gray-Scott compiles" gray_scott
for program in gray-scott gray-scott-cpp; do try "$program, carried on by fewer ranks" in_two_parts "$program"; done
try "Gray-Scott: C and C++ give the same files" same_run
exit "$failed"
