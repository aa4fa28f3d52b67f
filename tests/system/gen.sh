#!/usr/bin/env bash
# Generated calls: programs in C and Fortran that include what `thalweg gen` makes, compiled, run, their files compared; the
# C program with ADIOS 1.13 as well.
# shellcheck disable=SC2317  # functions are called by name, through check
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
MPI=${MPI:-openmpi}
MPICC=${MPICC:-mpicc.$MPI}
read -ra mpiexec <<<"${MPIEXEC:-mpiexec.openmpi --oversubscribe}"
if [[ $(id -u) == 0 ]]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
sources=$PWD/tests/system/gen
work=$PWD/build/gen/$MPI
rm -rf "$work"
mkdir -p "$work/c" "$work/fortran"
failed=0
# check NAME COMMAND...
check() {
    local name=$1
    shift
    if "$@"; then echo "ok $name"; else echo "not ok $name" && failed=1; fi
}
run() { # run FOLDER RANKS PROGRAM...
    local folder=$1 ranks=$2
    shift 2
    (cd "$work/$folder" && timeout 120 "${mpiexec[@]}" -n "$ranks" "$@")
}

prefix=$PWD/build/c-api/prefix
source scripts/build.sh
bindings/c/install.sh "$prefix"
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
build_all

cp "$sources/heat.xml" "$work/c"
check "calls in C are made" "$thalweg" gen "$work/c/heat.xml" -o "$work/c" >/dev/null
flags=(-std=c11 -D_GNU_SOURCE -O1 -Wall -Wextra -Werror -I "$work/c")
# shellcheck disable=SC2046  # several flags
check "a C program compiles with them" "$MPICC" "${flags[@]}" $(pkg-config --cflags "thalweg-$MPI") "$sources/heat.c" \
    -o "$work/c/heat" $(pkg-config --libs "thalweg-$MPI")
check "the C program writes on 4 ranks" run c 4 ./heat out.bp write
for ranks in 1 3 4; do
    check "the C program reads back on $ranks ranks" run c "$ranks" ./heat out.bp read
done
said() { (cd "$work/$1" && "$thalweg" dump out.bp t step note /total/sum --json); }

if pkg-config --exists "thalweg-fortran-$MPI"; then
    # The same group as a Fortran program describes it: fastest dimension first.
    sed -e 's/host-language="C"/host-language="Fortran"/' -e 's/"12,columns" offsets="first,0"/"columns,12" offsets="0,first"/' \
        -e 's/"rows,columns"/"columns,rows"/' -e 's/if (rank == 0) {/if (rank == 0) then/' -e 's/src="}"/src="end if"/' \
        "$sources/heat.xml" >"$work/fortran/heat.xml"
    check "calls in Fortran are made" "$thalweg" gen "$work/fortran/heat.xml" -o "$work/fortran" >/dev/null
    compiler=mpif90.$MPI
    command -v "$compiler" >/dev/null || compiler=mpif90
    # shellcheck disable=SC2046
    check "a Fortran program compiles with them" "$compiler" -std=f2018 -O1 -Wall -I "$work/fortran" \
        $(pkg-config --cflags "thalweg-fortran-$MPI") "$sources/heat.f90" -o "$work/fortran/heat" \
        $(pkg-config --libs "thalweg-fortran-$MPI")
    check "the Fortran program writes on 4 ranks" run fortran 4 ./heat out.bp write
    for ranks in 1 3 4; do
        check "the Fortran program reads back on $ranks ranks" run fortran "$ranks" ./heat out.bp read
    done
    check "both programs have written the same" diff <(said c) <(said fortran)
    cp -r "$work/c/out.bp" "$work/fortran/from-c.bp"
    check "the Fortran program reads what the C program wrote" run fortran 2 ./heat from-c.bp read
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
check "the C program compiles with ADIOS 1.13" "$MPICC" "${flags[@]}" "$sources/heat.c" -o "$work/c/heat.reference" $(link_adios1)
check "it writes with ADIOS 1.13 on 4 ranks" run c 4 ./heat.reference reference.bp write
listing() { bpls -l "$work/c/$1" && bpls -d "$work/c/$1" t note; }
check "bpls sees the same in both files" diff <(listing out.bp) <(listing reference.bp)
exit "$failed"
