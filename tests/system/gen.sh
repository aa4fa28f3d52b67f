#!/usr/bin/env bash
# Generated calls: programs in C and Fortran that include what `thalweg gen` makes, compiled, run, their files compared; the
# C program with ADIOS 1.13 as well.
# shellcheck disable=SC2317  # functions are called by name, through try
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
work=$PWD/build/gen/${MPI:-openmpi}
source tests/checks.sh
sources=$PWD/tests/system/gen
mkdir -p "$work/c" "$work/fortran"
within() { # within FOLDER RANKS PROGRAM...
    (cd "$work/$1" && limited 900 "${mpiexec[@]}" -n "${@:2}")
}

source scripts/build.sh
with_libraries
build_all

cp "$sources/heat.xml" "$work/c"
try "calls in C are made" "$thalweg" gen "$work/c/heat.xml" -o "$work/c"
flags=(-std=c11 -D_GNU_SOURCE -O1 -Wall -Wextra -Werror -I "$work/c")
# shellcheck disable=SC2046  # several flags
try "a C program compiles with them" "$MPICC" "${flags[@]}" $(pkg-config --cflags "thalweg-$MPI") "$sources/heat.c" \
    -o "$work/c/heat" $(pkg-config --libs "thalweg-$MPI")
try "the C program writes on 4 ranks" within c 4 ./heat out.bp write
for ranks in 1 3 4; do
    try "the C program reads back on $ranks ranks" within c "$ranks" ./heat out.bp read
done
said() { (cd "$work/$1" && "$thalweg" dump out.bp t step note /total/sum --json); }

if pkg-config --exists "thalweg-fortran-$MPI"; then
    # The same group as a Fortran program describes it: fastest dimension first.
    sed -e 's/host-language="C"/host-language="Fortran"/' -e 's/"12,columns" offsets="first,0"/"columns,12" offsets="0,first"/' \
        -e 's/"rows,columns"/"columns,rows"/' -e 's/if (rank == 0) {/if (rank == 0) then/' -e 's/src="}"/src="end if"/' \
        "$sources/heat.xml" >"$work/fortran/heat.xml"
    try "calls in Fortran are made" "$thalweg" gen "$work/fortran/heat.xml" -o "$work/fortran"
    compiler=mpif90.$MPI
    command -v "$compiler" >/dev/null || compiler=mpif90
    # shellcheck disable=SC2046
    try "a Fortran program compiles with them" "$compiler" -std=f2018 -O1 -Wall -I "$work/fortran" \
        $(pkg-config --cflags "thalweg-fortran-$MPI") "$sources/heat.f90" -o "$work/fortran/heat" \
        $(pkg-config --libs "thalweg-fortran-$MPI")
    try "the Fortran program writes on 4 ranks" within fortran 4 ./heat out.bp write
    for ranks in 1 3 4; do
        try "the Fortran program reads back on $ranks ranks" within fortran "$ranks" ./heat out.bp read
    done
    try "both programs have written the same" diff <(said c) <(said fortran)
    cp -r "$work/c/out.bp" "$work/fortran/from-c.bp"
    try "the Fortran program reads what the C program wrote" within fortran 2 ./heat from-c.bp read
else
    echo "skipped: generated calls in Fortran: no Fortran library for $MPI is installed (package gfortran)"
fi

source scripts/machine.sh
if [[ $MPI != openmpi ]]; then
    exit "$failed"
fi
if [[ ! -f /usr/include/adios.h ]]; then
    echo "skipped: generated calls with ADIOS 1.13: no /usr/include/adios.h"
    exit "$failed"
fi
# shellcheck disable=SC2046
try "the C program compiles with ADIOS 1.13" "$MPICC" "${flags[@]}" "$sources/heat.c" -o "$work/c/heat.reference" $(link_adios1)
try "it writes with ADIOS 1.13 on 4 ranks" within c 4 ./heat.reference reference.bp write
listing() { bpls -l "$work/c/$1" && bpls -d "$work/c/$1" t note; }
try "bpls sees the same in both files" diff <(listing out.bp) <(listing reference.bp)
exit "$failed"
