#!/usr/bin/env bash
# The Fortran interface: programs compiled against what bindings/c/install.sh installs, run without MPI and with the MPI at
# hand; with modules and without any; what they write is read by other languages.
# shellcheck disable=SC2317  # functions are called by name, through try and many
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
work=$PWD/build/fortran/${MPI:-openmpi}
source tests/checks.sh
export THALWEG_ERRORS=quiet

sources=$PWD/tests/system/fortran
each=$PWD/bindings/fortran/each.py
examples=$PWD/examples


# compile COMPILER LIBRARY PROGRAM SOURCE FLAG...: warnings are errors.
compile() {
    local compiler=$1 library=$2 program=$3 source=$4
    shift 4
    # Module files of the program itself go where it is built. Arrays larger than a stack frame may be static.
    # shellcheck disable=SC2046  # several flags
    (cd "$work" && "$compiler" -g -O1 -Wall -Wno-conversion -Wno-surprising -Werror "$@" $(pkg-config --cflags "$library") \
        "$source" -o "$program" $(pkg-config --libs "$library"))
}

if ! command -v gfortran >/dev/null; then
    echo "skipped: Fortran programs: no gfortran"
    exit 0
fi
with_libraries
cp "$sources/behaviours.xml" "$work"

# Without MPI
"$each" <"$sources/kinds.f90" >"$work/kinds.f90"
try "programs for one process compile" compile gfortran thalweg-fortran-nompi kinds kinds.f90 -std=f2018 -fcheck=all
try "programs with texts, selections and mistakes compile" \
    compile gfortran thalweg-fortran-nompi behaviours "$sources/behaviours.f90" -std=f2018 -fcheck=all
many "alone" alone ./kinds
many "alone" alone ./behaviours

try "bare calls of kinds compile" \
    compile gfortran thalweg-fortran-nompi bare "$sources/bare.f90" -fallow-argument-mismatch -w
many "bare" alone ./bare
in_front() { # the library of version 1 comes before the others
    # shellcheck disable=SC2046  # several flags
    (cd "$work" && gfortran -g -O1 -w -fallow-argument-mismatch "$sources/version1.f90" -o version1 "-L$prefix/lib" -lthalweg-fortran-v1-nompi \
        $(pkg-config --libs thalweg-fortran-nompi))
}
try "version 1 of the read interface compiles" in_front
many "version 1" alone ./version1
compat=$prefix/compat/lib
by_old_name() { # by_old_name PROGRAM SOURCE COMPILER LIBRARY: the linker script that ADIOS 1.x names so
    (cd "$work" && "$3" -g -O1 -w -fallow-argument-mismatch "$sources/$2" -o "$1" "-L$compat" "-l$4" "-Wl,-rpath,$prefix/lib")
}
uses_version1() { readelf -d "$work/$1" | grep NEEDED | grep -q "libthalweg-fortran-v1-$2"; }
for library in adiosf_nompi_v1 adiosreadf_nompi_v1; do
    try "version 1 compiles with -l$library" by_old_name "$library" version1.f90 gfortran "$library"
    try "-l$library leads to version 1" uses_version1 "$library" nompi
    many "version 1, -l$library" alone "./$library"
done

# What numbers the modules name are those of the headers.
cat "$prefix"/include/thalweg/adios_{error,types}.h | sed -nE 's/^ *((err_|adios_)[a-z_]+) = (-?[0-9]+),?.*/\1 \3/p' |
    sort -u >"$work/headers.txt"
grep -v '^ *!' bindings/fortran/modules/adios_defs_mod.f90 | grep -oE '(err_|adios_)[a-z_]+ = -?[0-9]+' | sed 's/ = / /' | sort -u >"$work/modules.txt"
names_agree() {
    local shared
    shared=$(join "$work/headers.txt" "$work/modules.txt")
    [[ $(wc -l <<<"$shared") -gt 60 ]] && awk '$2 != $3 { print; bad = 1 } END { exit bad }' <<<"$shared"
}
try "numbers of the modules are those of the headers" names_agree

# Version 1 with MPI
ranks_in_front() {
    # shellcheck disable=SC2046
    (cd "$work" && "$MPIF90" -g -O1 -w -fallow-argument-mismatch "$sources/version1_ranks.f90" -o version1_ranks "-L$prefix/lib" \
        "-lthalweg-fortran-v1-$MPI" $(pkg-config --libs "thalweg-fortran-$MPI"))
}
try "version 1 compiles with $MPI" ranks_in_front
for ranks in 1 2 "$MPI_RANKS"; do many "version 1, $ranks ranks" run "$ranks" ./version1_ranks; done
if [[ $(sed -n 's/.*libthalweg-fortran-v1-\([a-z]*\)\.so.*/\1/p' "$compat/libadiosreadf_v1.so" 2>/dev/null) == "$MPI" ]]; then
    for library in adiosf_v1 adiosreadf_v1; do
        try "version 1 compiles with $MPI and -l$library" by_old_name "$library" version1_ranks.f90 "$MPIF90" "$library"
        try "-l$library leads to version 1 of $MPI" uses_version1 "$library" "$MPI"
        many "version 1, -l$library, 2 ranks" run 2 "./$library"
    done
else
    echo "skipped: version 1 with -ladiosreadf_v1: plain mpicc is not that of $MPI"
fi

# With MPI: the three ways to have it
for way in mpi_f08 mpi mpif; do
    "$each" $way <"$sources/ranks.f90" >"$work/$way.f90"
    flags=()
    # Calls of one external procedure with arguments of several types.
    [[ $way == mpif ]] && flags=(-fallow-argument-mismatch -w)
    try "a program compiles with $way" compile "$MPIF90" "thalweg-fortran-$MPI" $way $way.f90 "${flags[@]}"
    for ranks in 1 3 "$MPI_RANKS"; do
        rm -rf "$work"/columns.bp*
        many "$way, $ranks ranks" run "$ranks" ./$way
        mv "$work/columns.bp" "$work/columns-$way-$ranks.bp"
    done
done
same_file() { # same_file FILE FILE: by what bpls says of them
    if ! command -v bpls >/dev/null; then
        return 0
    fi
    diff <(bpls -lad "$1" 2>&1) <(bpls -lad "$2" 2>&1) >"$work/diff.txt" && [[ $(bpls -lad "$1" 2>/dev/null | wc -l) -gt 5 ]]
}
if command -v bpls >/dev/null; then
    for way in mpi mpif; do
        try "$way writes what mpi_f08 writes" same_file "$work/columns-$way-3.bp" "$work/columns-mpi_f08-3.bp"
    done
    turned_round() { bpls -l "$work/columns-mpi_f08-3.bp" a 2>/dev/null | grep -q '3\*{9, 5}'; }
    try "other languages see the dimensions turned round" turned_round
else
    echo "skipped: files of Fortran read by bpls: it is not here"
fi

# The examples: the same file as the ones in C.
source scripts/build.sh
build_all
same_values() { # same_values FILE FILE VARIABLE...: by what bpls and `thalweg dump` say of them
    same_file "$1" "$2" && "$thalweg" dump "$1" "${@:3}" >"$work/one.txt" && "$thalweg" dump "$2" "${@:3}" >"$work/other.txt" &&
        [[ $(wc -c <"$work/one.txt") -gt 1000 ]] && cmp "$work/one.txt" "$work/other.txt"
}
for program in "heat" "read"; do
    library=thalweg-fortran-$MPI compiler=$MPIF90
    [[ $program == read ]] && library=thalweg-fortran-nompi compiler=gfortran
    try "example $program compiles" compile "$compiler" "$library" "$program-fortran" "$examples/heat/$program.f90" \
        -std=f2018 -Wextra -ffp-contract=off
done
# shellcheck disable=SC2046
"$MPICC" -O1 -ffp-contract=off "$examples/heat/heat.c" $(pkg-config --cflags --libs "thalweg-$MPI") -o "$work/heat-c"
for ranks in 1 3; do
    try "heat runs on $ranks ranks" run "$ranks" ./heat-fortran "$examples/heat/heat.xml" "heat-fortran-$ranks.bp"
    run "$ranks" ./heat-c "$examples/heat/heat.xml" "heat-c-$ranks.bp"
    try "heat writes what the program in C writes, $ranks ranks" same_values "$work/heat-fortran-$ranks.bp" "$work/heat-c-$ranks.bp" \
        ny nx rows first iteration time T
done
heat_is_read() { [[ $(alone ./read-fortran heat-fortran-3.bp | tail -n 1) == "step 4: time 50.0, T from 0.000 to 100.000, in the middle 16.825" ]]; }
try "heat is read" heat_is_read

# Gray-Scott: the same states and files as the program in C, also where one carries on what the other began.
mkdir -p "$work/gray-scott"
builds() { # builds FOLDER VARIABLE...
    make --silent -C "$1" PREFIX="$prefix" OUT="$work/gray-scott" "${@:2}"
}
# The Makefile of the program in C takes what thalweg.pc names.
thalweg_flags() { pkg-config "--$1" "thalweg-$MPI"; }
try "gray-scott compiles" builds "$examples/gray-scott/fortran" MPIF90="$MPIF90" LIBRARY="thalweg-fortran-$MPI"
try "gray-scott in C compiles" builds "$examples/gray-scott" MPICC="$MPICC" ADIOS_CFLAGS="$(thalweg_flags cflags)" \
    ADIOS_LIBS="$(thalweg_flags libs)"
simulate() { # simulate FOLDER LANGUAGE RANKS OPTION...
    local folder=$work/gray-scott/$1 language=$2 ranks=$3 program=gray-scott xml=$examples/gray-scott/gray-scott.xml
    shift 3
    [[ $language == fortran ]] && program=gray-scott-fortran xml=$examples/gray-scott/fortran/gray-scott.xml
    mkdir -p "$folder"
    (cd "$folder" && limited 900 "${mpiexec[@]}" -n "$ranks" "../$program" --config "$xml" --size 20 --plotgap 20 --checkpoint 20 \
        "$@" 2>>"$work/stderr.log" | sed -n 's/^fingerprint of the final state: //p')
}
c=$(simulate c c 3 --steps 40)
fortran=$(simulate fortran fortran 3 --steps 40)
try "gray-scott ends in the state of the program in C" test "$fortran" == "$c" -a -n "$c"
same_runs() { # same_runs NAME: both files of the example
    try "$1: gs.bp" same_values "$work/gray-scott"/{c,fortran}/gs.bp L step time u v
    try "$1: restart.bp" same_values "$work/gray-scott"/{c,fortran}/restart.bp L step u v
}
same_runs "gray-scott writes what the program in C writes"
fortran=$(simulate c fortran 2 --steps 60 --restart)
c=$(simulate fortran c 2 --steps 60 --restart)
try "each carries on what the other began" test "$fortran" == "$c" -a -n "$c"
same_runs "files begun by the one and carried on by the other"

if command -v valgrind >/dev/null; then
    clean() {
        (cd "$work" && valgrind -q --error-exitcode=9 --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite "./$1" >/dev/null 2>"$1.valgrind") ||
            { tail -n 30 "$work/$1.valgrind" && return 1; }
    }
    try "memory checkers find nothing in behaviours" clean behaviours
    try "memory checkers find nothing in kinds" clean kinds
else
    echo "skipped: Fortran programs under valgrind: it is not here"
fi
[[ $failed == 0 ]]
