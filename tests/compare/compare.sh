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
        # There the mesh that lies on one variable has points of no variable, and as many spaces as happens.
        meshes) drop='nspaces=.*' ;;
        # A block without any extent begins at 1 in our files, which ADIOS 1.13 shows.
        empty) drop='start=[01x]+ count=0(x0)*$' ;;
        # The statistics of complex values that adios2 would misread are in our extension section, which ADIOS 1.13 does
        # not read, and the mean is there, too.
        complex) drop=' (min|max|avg|std)=[^ ]*' ;;
    esac
    # The reference's sums of squares overflow.
    sed -E -e "s#$drop##g" -e 's/std=-?nan/std=0/' | if [[ $1 == joined ]]; then without_boxes; else cat; fi
}
# There the boxes of blocks with a time dimension are what happens to be in memory, and of a local array each extent of 1 is taken
# for time; bpls compares that one.
without_boxes() {
    awk '/^  var |^[a-z]/ { own = /^  var [0-9]+ own/ } !own && !/^    block /'
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

dump() { # dump PROGRAM FILE MODE
    (cd "$work" && limited 600 "./$1" "$2" "$3" 2>>stderr.log) | mine || true
}

# Whatever a header of the reference declares and its library has, ours has; and what bare Fortran calls link to, but those whose
# arguments have no type without a module.
theirs() { nm -g --defined-only /usr/lib/"$(cc -print-multiarch)"/adios/openmpi/lib/"$1".a 2>/dev/null | awk 'NF == 3 { print $3 }' | sort -u; }
ours() { nm -D --defined-only "$prefix"/lib/libthalweg-{core,"$MPI",fortran-"$MPI"}.so | awk 'NF == 3 { print $3 }' | sort -u; }
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
        grep -vxE 'adios_(define_attribute_byvalue(_string(_array)?)?|get_statistics(_char)?|query_read_boundingbox)_' |
        sort -u >"$work/bare.txt"
    [[ $(wc -l <"$work/bare.txt") -gt 100 ]] && ! comm -23 "$work/bare.txt" <(ours) | grep .
}
try "every bare call of the reference's Fortran libraries is there" has_every_bare_call

cases=(global local strings bound complex empty paths groups steps blocks meshes links squeezed transforms joined far_mesh)
for ranks in 1 3 4; do
    for case in "${cases[@]}"; do
        for by in 1 us; do
            description=()
            [[ $case != transforms ]] || description=("$here/c/transforms.xml")
            try "written: $case, $ranks ranks, by $by" run "$ranks" "./write.$by" "$case" "$case-$ranks-$by.bp" "${description[@]}"
        done
        modes=(file stream)
        # Once is enough; and there a stream over two groups ends the program.
        [[ $ranks == 3 && $case != groups ]] || modes=(file)
        for mode in "${modes[@]}"; do
            for of in 1 us; do
                for by in 1 us; do
                    dump "dump.$by" "$case-$ranks-$of.bp" "$mode" >"$work/$of-$by.txt"
                    alike "$case" <"$work/$of-$by.txt" >"$work/$of-$by.alike"
                    between "$case" <"$work/$of-$by.txt" >"$work/$of-$by.between"
                done
            done
            same "both read alike what ADIOS 1.13 wrote: $case, $mode, $ranks ranks" "$work"/1-{1,us}.alike
            same "both read alike what Thalweg wrote: $case, $mode, $ranks ranks" "$work"/us-{1,us}.alike
            same "both write alike: $case, $mode, $ranks ranks" "$work"/{1,us}-us.between
        done
        # Complex values have no text there, and two groups of one file share their numbers.
        if [[ $case =~ ^(global|local|strings|paths|steps|groups)$ ]]; then
            for of in 1 us; do
                for by in 1 us; do
                    (cd "$work" && timeout 60 "./version1.$by" "$case-$ranks-$of.bp" "$ranks" 2>>stderr.log) | mine >"$work/$of-$by.v1" || true
                done
                same "version 1 of the read interface gives the same: $case of $of, $ranks ranks" "$work/$of"-{1,us}.v1
            done
        fi
        for by in 1 us; do
            (cd "$work" && bpls -lad "$case-$ranks-$by.bp" 2>>stderr.log) | grep -av '__adios__' | between "$case" |
                sort >"$work/$by.bpls"
        done
        same "bpls sees the same: $case, $ranks ranks" "$work"/{1,us}.bpls
    done
    for case in global steps transforms joined; do
        for of in 1 us; do
            for by in 1 us; do
                status=0
                run "$ranks" "./dump.$by" "$case-$ranks-$of.bp" stream >"$work/$of-$by.txt" || status=$?
                say "$status" "a stream read by $by on $ranks ranks: $case of $of"
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
            run 1 "./query.$by" ask "query-$ranks-$of.bp" >"$work/$of-$by.asked" || status=$?
            say "$status" "asked by $by, of a file by $of, $ranks ranks"
        done
        same "queries give the same, of a file by $of, $ranks ranks" "$work/$of"-{1,us}.asked
    done
done
exit "$failed"
