#!/usr/bin/env bash
# Fortran programs of ours compiled against ADIOS 1.13 and against Thalweg, with modules and without, run on 1, 3 and 4 ranks:
# what they write is read by both and by bpls, what they print is compared.
# shellcheck disable=SC2317  # functions are called by name, through try
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
work=$PWD/build/compare-fortran
least=3 # lines that a dump has before the first value
source tests/compare/setting.sh
# Debian has its modules for the gfortran that it was built with.
modules=$(find /usr/lib -name adios_write_mod.mod -printf '%h\n' -quit 2>/dev/null)
if [[ -z $modules ]]; then
    echo "skipped: Fortran programs beside ADIOS 1.13: its modules are not here"
    exit 0
fi
here=$PWD/tests/compare/fortran
with_libraries
compile() {
    local name
    for name in write dump; do
        # shellcheck disable=SC2046  # several flags
        "$MPIF90" -g -Wall "-I$modules" "$here/$name.f90" -o "$work/$name.1" $(link_adios1 | sed 's/-ladios /-ladiosf /') || return 1
        # shellcheck disable=SC2046
        "$MPIF90" -g -Wall -Werror $(pkg-config --cflags "thalweg-fortran-$MPI") "$here/$name.f90" -o "$work/$name.us" \
            $(pkg-config --libs "thalweg-fortran-$MPI") || return 1
    done
}
try "Fortran programs compile against both, unchanged" compile
compile_version1() { # bare calls, of one procedure with arguments of several types
    local flags=(-g -w -fallow-argument-mismatch)
    # shellcheck disable=SC2046
    "$MPIF90" "${flags[@]}" "$here/version1.f90" -o "$work/version1.1" $(link_adios1 | sed 's/-ladios /-ladiosf_v1 /') &&
        "$MPIF90" "${flags[@]}" "$here/version1.f90" -o "$work/version1.us" "-L$prefix/lib" "-lthalweg-fortran-v1-$MPI" \
            $(pkg-config --libs "thalweg-fortran-$MPI")
}
try "version 1 of the read interface compiles against both, unchanged" compile_version1
[[ $failed == 0 ]] || exit 1

for ranks in 1 3 4; do
    for case in kinds complex texts local empty groups; do
        for by in 1 us; do
            try "written in Fortran: $case, $ranks ranks, by $by" run "$ranks" "./write.$by" "$case" "$case-$ranks-$by.bp"
            # Statistics of complex values are in our extension section, which ADIOS 1.13 does not read.
            said alone bpls -lad "$case-$ranks-$by.bp" | grep -av '__adios__' |
                sed -E '/complex/s/ = (null|[(]).*//' >"$work/$by.bpls"
        done
        same "bpls sees the same of Fortran's file: $case, $ranks ranks" "$work"/{1,us}.bpls
        modes=(file stream)
        [[ $case != groups ]] || modes=(file) # there a stream over two groups ends the program
        for mode in "${modes[@]}"; do
            for of in 1 us; do
                for by in 1 us; do
                    said run 1 "./dump.$by" "$case-$ranks-$of.bp" "$mode" >"$work/$of-$by.txt"
                done
                same "both read alike in Fortran what $of wrote: $case, $mode, $ranks ranks" "$work/$of"-{1,us}.txt
            done
            same "both write alike in Fortran: $case, $mode, $ranks ranks" "$work"/{1,us}-us.txt
        done
    done
done

# Version 1 of the read interface, without time and with it.
found() { # found FILE STEPS BY: what two ranks find in a file
    rm -f "$work/found".*
    run 2 "./version1.$3" read "$1" "$2" found
    cat "$work/found.0" "$work/found.1"
}
# Blocks of both ranks that read.
for ranks in 2 3; do
    for steps in 1 5; do
        for by in 1 us; do
            try "written without modules: $steps steps, $ranks ranks, by $by" run "$ranks" "./version1.$by" write "v1-$ranks-$steps-$by.bp" "$steps"
        done
        for of in 1 us; do
            for by in 1 us; do said found "v1-$ranks-$steps-$of.bp" "$steps" "$by" >"$work/$of-$by.txt"; done
            same "version 1 in Fortran reads alike what $of wrote: $steps steps, $ranks ranks" "$work/$of"-{1,us}.txt
        done
        same "both write alike without modules: $steps steps, $ranks ranks" "$work"/{1,us}-us.txt
    done
done
[[ $failed == 0 ]]
