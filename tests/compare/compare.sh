#!/usr/bin/env bash
# Programs of ours compiled against ADIOS 1.13 and against Thalweg, run on 1, 3 and 4 ranks: what they write is read by
# both and by bpls, what they print is compared. What may differ is said in `alike`, and in docs/guide/coming-from-adios1.md.
# shellcheck disable=SC2317  # functions are called by name, through try
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
work=$PWD/build/compare
source tests/compare/setting.sh
if [[ ! -f /usr/include/adios_read.h ]]; then
    echo "skipped: programs beside ADIOS 1.13: no /usr/include/adios_read.h"
    exit 0
fi
here=$PWD/tests/compare
with_libraries
flags=(-std=c11 -D_GNU_SOURCE -O1 -Wall -Wextra)
compile() {
    local name
    for name in write dump select query version1; do
        # shellcheck disable=SC2046  # several flags
        "$MPICC" "${flags[@]}" "$here/c/$name.c" -o "$work/$name.1" $(link_adios1) || return 1
        # shellcheck disable=SC2046
        "$MPICC" "${flags[@]}" -Werror $(pkg-config --cflags "thalweg-$MPI") "$here/c/$name.c" -o "$work/$name.us" \
            $(pkg-config --libs "thalweg-$MPI") || return 1
    done
}
try "programs compile against both, unchanged" compile
[[ $failed == 0 ]] || exit 1

# alike CASE: from what a program printed, takes out what may differ
alike() {
    local drop='^$'
    case $1 in
        # There blocks of one rank in one step are given to ranks in turn.
        blocks) drop='process=[0-9]+' ;;
        # There the mesh that lies on one variable has as many spaces as happens, and points with the name of what is in memory
        # that was never set: valgrind says so of common_read_complete_meshinfo.
        meshes) drop=' nspaces=-?[0-9]+ points=[^ ]*$' ;;
        # A block without any extent begins at 1 in our files, which ADIOS 1.13 shows.
        empty) drop='start=[01x]+ count=0(x0)*$' ;;
        # The statistics of complex values that adios2 would misread are in our extension section, which ADIOS 1.13 does
        # not read, and the mean is there, too.
        complex) drop=' (min|max|avg|std)=[^ ]*' ;;
    esac
    # The reference's sums of squares overflow.
    sed -E -e "s#$drop##g" -e 's/std=-?nan/std=0/' | case $1 in
        joined) without_boxes ;;
        statistics) without_arrays_of_one ;;
        *) cat ;;
    esac
}
# There the boxes of blocks with a time dimension are what happens to be in memory, and of a local array each extent of 1 is taken
# for time; bpls compares that one.
without_boxes() {
    awk '/^  var |^[a-z]/ { own = /^  var [0-9]+ own/ } !own && !/^    block /'
}

# Local arrays of one element are scalars there, with boxes of what happens to be in memory; bpls compares these.
without_arrays_of_one() {
    awk '/^  var |^[a-z]/ { own = /^  var [0-9]+ [a-z_]+\/one:/ } !own'
}

# A scalar that a rank writes again in a step: there each is a block and the first is read, here the last one counts.
without_row() {
    awk '/^  [a-z]/ { own = /^  var [0-9]+ row:|^  integer +row / } /^[a-z]/ { own = 0 } !own'
}

# between CASE: the same between a file of theirs and one of ours
between() {
    local drop='^$'
    case $1 in
        # A block without an element lies nowhere; we say so by zeros.
        empty) drop='start=[0-9x]+ count=(0x2|0|0x0)$' ;;
        # There an attribute of a variable's value is 0, here the value.
        bound) drop='(^  attr .*)|(^ .* attr .*)' ;;
        complex) drop='= (null|[(]).*' ;;
        # The name of the other file.
        far_mesh) drop='size=[0-9]+ "meshes[^"]*"|file=meshes.*|"meshes[^"]*"' ;;
    esac
    # Attributes of meshes have another order; all lines of attributes are compared, sorted, without their numbers.
    alike "$1" | if [[ $1 == blocks ]]; then without_row; else cat; fi | sed -E -e "s#$drop##g" -e 's/^  attr [0-9]+/  attr/' |
        awk '/^  attr/ { print | "sort"; next } { close("sort"); print }'
}

# What the reference says on the way, and attributes of its own.
mine() { grep -Eav '__adios__|^mesh structure .* is not supported' || true; }

# By one rank, without mpiexec.
dump() { said alone "./$1" "$2" "$3" | mine; } # dump PROGRAM FILE MODE

# Where FILE says that average and deviation are not known, takes them out of the other one: of files by us we know them in any
# case, ADIOS 1.13 only where all statistics were asked for.
as_little_as() { # as_little_as FILE OTHER
    awk 'NR == FNR { known[FNR] = $0; next }
        known[FNR] ~ / avg=- std=-$/ { sub(/ avg=[^ ]* std=[^ ]*$/, " avg=- std=-") } 1' "$1" "$2" >"$2.less"
    mv "$2.less" "$2"
}

# Whatever a header of the reference declares and its library has, ours has; and what bare Fortran calls link to, but those whose
# arguments have no type without a module.
theirs() { nm -g --defined-only /usr/lib/"$(cc -print-multiarch)"/adios/openmpi/lib/"$1".a 2>/dev/null | awk 'NF == 3 { print $3 }' | sort -u; }
defined() { nm -D --defined-only --without-symbol-versions "$@" | awk 'NF == 3 { print $3 }' | sort -u; }
ours() { defined "$prefix"/lib/libthalweg-{core,"$MPI",fortran-"$MPI"}.so; }
has_every_function() {
    {
        cat /usr/include/adios*.h | grep -oE '\badios_[A-Za-z0-9_]+ *\(' | tr -d ' (' | sort -u
        awk '$1 == "#define" && $2 ~ /^adios_/ { print $3 }' /usr/include/adios_read_v1_defs.h
        # In no header, and linked to all the same.
        printf '%s\n' adios_get_type_size adios_type_to_string_int
    } | sort -u | comm -12 - <(theirs libadios) >"$work/functions.txt"
    [[ $(wc -l <"$work/functions.txt") -gt 100 ]] && ! comm -23 "$work/functions.txt" <(ours) | grep .
}
try "every function of the reference's headers is there" has_every_function
has_every_bare_call() {
    for library in libadiosf libadiosreadf; do theirs "$library"; done | grep -E '^adios_[a-z0-9_]*_$' | grep -v '_f2c_$' |
        grep -vxE 'adios_(define_attribute_byvalue(_string(_array)?)?|get_statistics|query_read_boundingbox)_' |
        sort -u >"$work/bare.txt"
    [[ $(wc -l <"$work/bare.txt") -gt 100 ]] && ! comm -23 "$work/bare.txt" <(ours) | grep .
}
try "every bare call of the reference's Fortran libraries is there" has_every_bare_call
# The same where version 1 of the read interface is linked in front, under our names and through the linker scripts of compat.
has_every_bare_call_of_version_1() {
    local library script=$prefix/compat/lib libraries
    for library in libadiosf_v1 libadiosreadf_v1; do
        theirs "$library" | grep -E '^adios_[a-z0-9_]*_$' | grep -v '_f2c_$' |
            grep -vxE 'adios_(define_attribute_byvalue(_string(_array)?)?|query_read_boundingbox)_' | sort -u >"$work/bare.txt"
        [[ $(wc -l <"$work/bare.txt") -gt 50 ]]
        grep -qx adios_fopen_ "$work/bare.txt"
        comm -23 "$work/bare.txt" <(defined "$prefix"/lib/libthalweg-{core,"$MPI",fortran-"$MPI",fortran-v1-"$MPI"}.so) >"$work/missing.txt"
        # The scripts name the libraries of plain mpicc's MPI.
        if [[ -e $script/$library.so ]]; then
            read -ra libraries < <(sed -n 's/^GROUP ( \(.*\) )$/\1/p' "$script/$library.so")
            comm -23 "$work/bare.txt" <(defined "${libraries[@]}") >>"$work/missing.txt"
        fi
        cat "$work/missing.txt"
        [[ ! -s $work/missing.txt ]]
    done
}
try "every bare call of the reference's version 1 of the read interface is there" has_every_bare_call_of_version_1

# Of groups that ask for all or say nothing we know average and deviation in our own files; where bounds alone were asked for in
# XML, nobody does.
check_averages() { # check_averages DUMP
    local group status=0 wanted found
    for group in absent off on full standard bounds call_no call_minmax call_full call_default; do
        wanted=known
        [[ $group != @(off|bounds|call_no) ]] || wanted=unknown
        found=$(awk -v name="$group/T:" '$1 == "var" { own = $3 == name } own && / avg=/ { print / avg=-?[0-9]/ ? "known" : "unknown"; exit }
            own && /no statistics/ { print "unknown"; exit }' "$1")
        [[ $found == "$wanted" ]] || status=1
    done
    say "$status" "we know averages where ADIOS 1.13 shows none: $case, $ranks ranks"
    [[ $status == 0 ]] || grep -E '^  var|^var| avg=|no statistics' "$1" | cut -c1-300 | head -n 60 | sed 's/^/  /'
}

cases=(global local strings bound complex empty paths groups steps blocks meshes links squeezed transforms joined far_mesh statistics)
for ranks in 1 3 4; do
    for case in "${cases[@]}"; do
        for by in 1 us; do
            description=()
            [[ ! -f $here/c/$case.xml ]] || description=("$here/c/$case.xml")
            try "written: $case, $ranks ranks, by $by" run "$ranks" "./write.$by" "$case" "$case-$ranks-$by.bp" "${description[@]}"
        done
        modes=(file stream)
        # Once is enough; and there a stream over two groups ends the program.
        [[ $ranks == 3 && $case != groups && $case != statistics ]] || modes=(file)
        for mode in "${modes[@]}"; do
            for of in 1 us; do
                for by in 1 us; do
                    dump "dump.$by" "$case-$ranks-$of.bp" "$mode" >"$work/$of-$by.txt"
                    alike "$case" <"$work/$of-$by.txt" >"$work/$of-$by.alike"
                    between "$case" <"$work/$of-$by.txt" >"$work/$of-$by.between"
                done
            done
            same "both read alike what ADIOS 1.13 wrote: $case, $mode, $ranks ranks" "$work"/1-{1,us}.alike
            if [[ $case == statistics ]]; then
                check_averages "$work/us-us.txt"
            fi
            as_little_as "$work"/us-{1,us}.alike
            as_little_as "$work"/{1,us}-us.between
            same "both read alike what Thalweg wrote: $case, $mode, $ranks ranks" "$work"/us-{1,us}.alike
            same "both write alike: $case, $mode, $ranks ranks" "$work"/{1,us}-us.between
        done
        # Complex values have no text there, and two groups of one file share their numbers.
        if [[ $case =~ ^(global|local|strings|paths|steps|groups)$ ]]; then
            for of in 1 us; do
                for by in 1 us; do
                    said alone "./version1.$by" "$case-$ranks-$of.bp" "$ranks" | mine >"$work/$of-$by.v1"
                done
                same "version 1 of the read interface gives the same: $case of $of, $ranks ranks" "$work/$of"-{1,us}.v1
            done
        fi
        for by in 1 us; do
            said alone bpls -lad "$case-$ranks-$by.bp" | grep -av '__adios__' | between "$case" | sort >"$work/$by.bpls"
        done
        same "bpls sees the same: $case, $ranks ranks" "$work"/{1,us}.bpls
    done
    for case in global steps transforms joined; do
        for of in 1 us; do
            for by in 1 us; do
                status=0
                began
                run "$ranks" "./dump.$by" "$case-$ranks-$of.bp" stream >"$work/$of-$by.txt" || status=$?
                say "$status" "a stream read by $by on $ranks ranks: $case of $of"
                [[ $status == 0 ]] || what_failed "$work/stderr.log" "$work/$of-$by.txt"
                mine <"$work/$of-$by.txt" | alike "$case" >"$work/$of-$by.alike"
            done
            same "streams give the same on $ranks ranks: $case of $of" "$work/$of"-{1,us}.alike
        done
    done
    for of in 1 us; do
        files=()
        for case in global local steps blocks; do files+=("$case-$ranks-$of.bp"); done
        for by in 1 us; do
            try "selections read by $by, of files by $of, $ranks ranks" run "$ranks" "./select.$by" "${files[@]}" "selected-$of-$by"
            cat "$work/selected-$of-$by".* >"$work/$of-$by.selected"
            rm -f "$work/selected-$of-$by".*
        done
        same "selections give the same, of files by $of, $ranks ranks" "$work/$of"-{1,us}.selected
    done
done
for ranks in 1 3 4; do
    for by in 1 us; do
        try "written for queries, $ranks ranks, by $by" run "$ranks" "./query.$by" write "query-$ranks-$by.bp"
    done
    for of in 1 us; do
        for by in 1 us; do
            status=0
            began
            run 1 "./query.$by" ask "query-$ranks-$of.bp" >"$work/$of-$by.asked" || status=$?
            say "$status" "asked by $by, of a file by $of, $ranks ranks"
            [[ $status == 0 ]] || what_failed "$work/stderr.log" "$work/$of-$by.asked"
        done
        same "queries give the same, of a file by $of, $ranks ranks" "$work/$of"-{1,us}.asked
    done
done
exit "$failed"
