#!/usr/bin/env bash
# Reading through the C interface: every call once on several ranks, streams beside a running writer and after one that
# died, ten thousand openings, memory under valgrind, and headers against those of ADIOS 1.13.
# shellcheck disable=SC2317  # functions are called by name, through try and many
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
work=$PWD/build/c-read/${MPI:-openmpi}
source tests/checks.sh

sources=$PWD/tests/system/c

with_libraries
flags=(-std=c11 -D_GNU_SOURCE -g -O1 -Wall -Wextra -Werror)
compile() {
    local name
    for name in read cycles slow follow; do
        # shellcheck disable=SC2046  # several flags
        "$MPICC" "${flags[@]}" $(pkg-config --cflags "thalweg-$MPI") "$sources/$name.c" -o "$work/$name" \
            $(pkg-config --libs "thalweg-$MPI") || return 1
        # shellcheck disable=SC2046
        cc "${flags[@]}" $(pkg-config --cflags thalweg-nompi) "$sources/$name.c" -o "$work/$name.nompi" \
            $(pkg-config --libs thalweg-nompi) || return 1
    done
}
try "programs that read compile, with MPI and without" compile
[[ $failed == 0 ]] || exit 1

for ranks in 1 "$MPI_RANKS"; do
    many "$MPI, $ranks ranks" run "$ranks" ./read "read-$ranks.bp"
done
many "no MPI" alone ./read.nompi read-nompi.bp

# follow WRITERS READERS STEPS [never]
follow() {
    local file=followed-$1-$2${4:+-$4}.bp
    run "$1" ./slow "$file" "$3" 250 ${4:+"$4"} >/dev/null &
    local writer=$!
    many "$MPI, $1 write, $2 read${4:+, the writer dies}" run "$2" ./follow "$file" "$3" "$1"
    wait "$writer" || [[ -n ${4:-} ]] || { say 1 "the writer ends well ($1 write, $2 read)" && what_failed "$work/stderr.log"; }
}
follow 1 1 4
follow 2 2 4
follow 1 2 3 never
killed() { # as never, by the system
    (cd "$work" && exec ./slow.nompi killed.bp 1000 100 2>>stderr.log) &
    local writer=$!
    # Killed while it waits, some steps later.
    (sleep 2 && kill -9 "$writer") &
    local told
    told=$(alone ./follow.nompi killed.bp 0 1) || true # how many steps came cannot be known
    wait "$writer" 2>/dev/null || true
    echo "$told"
    grep -q '^ok every step comes' <<<"$told" && grep -q '^ok the stream ends' <<<"$told"
}
try "a stream ends when its writer is killed" killed

if [[ $MPI == openmpi ]]; then
    alone ./read.nompi cycled.bp >/dev/null
    many "no MPI" alone ./cycles.nompi cycled.bp 10000
    many "$MPI" run 2 ./cycles cycled.bp 2000
    if command -v valgrind >/dev/null; then
        clean() {
            alone valgrind -q --leak-check=full --show-leak-kinds=definite,indirect,possible \
                --errors-for-leak-kinds=definite,indirect,possible --error-exitcode=9 ./read.nompi valgrind.bp >/dev/null
        }
        try "no byte is lost, read or written where it should not be" clean
    else
        echo "skipped: memory of programs that read: no valgrind"
    fi
fi

# What follows compares with the headers of ADIOS 1.13.
[[ $MPI == openmpi ]] || exit "$failed"
if [[ ! -f /usr/include/adios_read.h ]]; then
    echo "skipped: headers of the read interface beside ADIOS 1.13: no /usr/include/adios_read.h"
    exit "$failed"
fi
headers=(adios_read.h adios_selection.h adios_read_ext.h adios_link.h adios_schema.h adios_transform_methods.h adios_query.h)
prototypes() { # prototypes INCLUDE_FLAG
    printf '#include <%s>\n' "${headers[@]}" >"$work/prototypes.c"
    cc -std=gnu11 -D_NOMPI "$1" -fsyntax-only -aux-info "$work/prototypes.txt" "$work/prototypes.c" || return 1
    # Ours have MPI's names by a macro.
    sed -i 's/thalweg_nompi_/MPI_/' "$work/prototypes.txt"
    sed -nE 's@^/\* [^*]* \*/ extern (.*[ *](adios|MPI)_.*)$@\1@p' "$work/prototypes.txt" | sort -u
}
same_prototypes() {
    prototypes -I/usr/include >"$work/reference.txt"
    prototypes "-I$prefix/include/thalweg" >"$work/ours.txt"
    [[ $(wc -l <"$work/reference.txt") -gt 70 ]] || return 1
    ! comm -23 "$work/reference.txt" "$work/ours.txt" | grep .
}
try "every function of the read half has the reference's prototype" same_prototypes

# Sizes, places of fields and values of constants.
shapes() { # shapes INCLUDE_FLAG
    {
        printf '#include <stddef.h>\n#include <stdio.h>\n'
        printf '#include <%s>\n' "${headers[@]}"
        printf 'int main(void)\n{\n'
        awk '/^[^#]/ { split($2, f, ","); printf "    printf(\"%s %%zu\", sizeof(%s));\n", $1, $1
            for (i in f) printf "    printf(\" %s %%zu\", offsetof(%s, %s));\n", f[i], $1, f[i]
            printf "    printf(\"\\n\");\n" }' "$sources/structures.txt"
        grep -ohE '\<(ADIOS|LINK|point|cell)[A-Z_]* *= *-?[0-9]' /usr/include/adios_{read_v2,selection,schema,link,query}.h |
            sed -E 's/ *=.*//' | sort -u | sed 's/.*/    printf("& %d\\n", (int)&);/'
        printf '    return 0;\n}\n'
    } >"$work/shapes.c"
    cc -std=gnu11 -D_NOMPI "$1" "$work/shapes.c" -o "$work/shapes" "${@:2}" && "$work/shapes"
}
same_shapes() {
    shapes -I/usr/include >"$work/reference.txt"
    shapes "-I$prefix/include/thalweg" -L"$prefix/lib" -Wl,-rpath,"$prefix/lib" -lthalweg-nompi >"$work/ours.txt"
    [[ $(wc -l <"$work/reference.txt") -gt 50 ]] || return 1
    diff "$work/reference.txt" "$work/ours.txt"
}
try "every public structure and constant is the reference's" same_shapes
exit "$failed"
