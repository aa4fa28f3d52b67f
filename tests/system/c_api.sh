#!/usr/bin/env bash
# The C interface: small programs compiled against what bindings/c/install.sh installs, run with the MPI at hand and
# without any; what they write is read by adios2 and bpls, and compared with what ADIOS 1.13 makes of the same programs.
# shellcheck disable=SC2317  # functions are called by name, through try and many
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
work=$PWD/build/c-api/${MPI:-openmpi}
source tests/checks.sh
PYTHON=${PYTHON:-build/venv/bin/python}
PYTHON=$(realpath -s "$PYTHON")

sources=$PWD/tests/system/c
reference_include=/usr/include/adios.h

with_libraries
needs_no_mpi() { ! readelf -d "$@" | grep NEEDED | grep -i mpi; }
try "the core and the library without MPI need no MPI library" \
    needs_no_mpi "$prefix/lib/libthalweg-core.so" "$prefix/lib/libthalweg-nompi.so"

# compile NAME...: for the MPI at hand, as a user would
flags=(-std=c11 -D_GNU_SOURCE -O1 -Wall -Wextra -Werror)
compile() {
    local name
    for name; do
        # shellcheck disable=SC2046  # several flags
        "$MPICC" "${flags[@]}" $(pkg-config --cflags "thalweg-$MPI") "$sources/$name.c" -o "$work/$name" \
            $(pkg-config --libs "thalweg-$MPI") || return 1
        [[ $name != split && $name != consistency ]] || continue
        # shellcheck disable=SC2046
        cc "${flags[@]}" $(pkg-config --cflags thalweg-nompi) "$sources/$name.c" -o "$work/$name.nompi" \
            $(pkg-config --libs thalweg-nompi) || return 1
    done
}
try "programs compile with pkg-config's flags alone" compile heat_xml heat_noxml restart errors split consistency more query small
[[ $failed == 0 ]] || exit 1
cp "$sources/heat.xml" "$work"
sed 's/method="MPI"/method="POSIX"/' "$sources/heat.xml" >"$work/heat-posix.xml"

later=$PWD/tests/fixtures/foreign/adios1-second-file.bp
told_once() { # told_once RANKS COMMAND...: 200 calls on such a file, of each rank
    local ranks=$1 told
    shift
    : >"$work/stderr.log"
    "$@" >/dev/null
    told=$(grep -c '0 is no open file' "$work/stderr.log" || true)
    echo "$told lines of $ranks ranks"
    [[ $told -ge 1 && $told -le $ranks ]]
}
adios2_reads() { (cd "$work" && "$PYTHON" "$sources/read_c_api.py" "$@"); }
for ranks in 1 "$MPI_RANKS"; do
    at="$MPI, $ranks ranks"
    for method in mpi posix; do
        config=heat.xml
        [[ $method == posix ]] && config=heat-posix.xml
        try "XML, $method: written ($at)" run "$ranks" ./heat_xml "$config" "xml-$method-$ranks.bp" 3
        try "XML, $method: adios2 reads equal ($at)" adios2_reads heat "xml-$method-$ranks.bp" 3
        try "no XML, $method: written ($at)" run "$ranks" ./heat_noxml "${method^^}" "noxml-$method-$ranks.bp" 3
        try "no XML, $method: adios2 reads equal ($at)" adios2_reads heat "noxml-$method-$ranks.bp" 3
    done
    many "$at" run "$ranks" ./errors heat.xml
    mkdir -p "$work/posix"
    many "$at" run "$ranks" ./more more.bp
    try "buffers, paths, attributes: adios2 reads equal ($at)" adios2_reads more more.bp "$ranks"
    try "the same in subfiles ($at)" adios2_reads more posix/more.bp "$ranks"
    many "$at" run "$ranks" ./query query.bp
    many "$at" run "$ranks" ./small small.bp "$later"
    try "a file that is not open is told once a process ($at)" told_once "$ranks" run "$ranks" ./small small.bp "$later"
done

# Restarts on other numbers of ranks than wrote.
for from in 1 "$MPI_RANKS"; do
    for to in 1 2 "$((MPI_RANKS - 1))"; do
        many "$MPI, $from ranks wrote, $to read" run "$to" ./restart heat.xml "xml-mpi-$from.bp" 3
    done
    many "$MPI, $from ranks wrote subfiles, 2 read" run 2 ./restart heat-posix.xml "noxml-posix-$from.bp" 3
done

for ranks in 1 2 "$MPI_RANKS"; do
    many "$MPI, $ranks ranks" run "$ranks" ./split heat.xml "split-$ranks.bp"
    try "what one half wrote, adios2 reads equal ($MPI, $ranks ranks)" adios2_reads heat "split-$ranks.bp" 3
done

# What ranks that disagree are told.
for ranks in 2 "$MPI_RANKS"; do many "$MPI, $ranks ranks" run "$ranks" ./consistency consistent.bp; done

if [[ $MPI == openmpi ]]; then
    try "XML: written without MPI" alone ./heat_xml.nompi heat.xml nompi.bp 3
    try "XML without MPI: adios2 reads equal" adios2_reads heat nompi.bp 3
    try "no XML: written without MPI" alone ./heat_noxml.nompi MPI nompi-noxml.bp 3
    try "no XML without MPI: adios2 reads equal" adios2_reads heat nompi-noxml.bp 3
    many "no MPI" alone ./errors.nompi heat.xml
    many "no MPI" alone ./more.nompi more.bp
    try "buffers, paths, attributes without MPI: adios2 reads equal" adios2_reads more more.bp 1
    many "no MPI" alone ./query.nompi query.bp
    many "no MPI" alone ./small.nompi small.bp "$later"
    try "a file that is not open is told once (no MPI)" told_once 1 alone ./small.nompi small.bp "$later"
    many "$MPI_RANKS ranks wrote, no MPI reads" alone ./restart.nompi heat.xml "xml-mpi-$MPI_RANKS.bp" 3
fi

# What follows compares with ADIOS 1.13, which Debian has for Open MPI.
if [[ $MPI != openmpi ]]; then
    exit "$failed"
fi
if [[ ! -f $reference_include ]]; then
    echo "skipped: the C interface beside ADIOS 1.13: no $reference_include"
    exit "$failed"
fi

# Each function and constant of the reference's headers, as the compiler sees them.
prototypes() { # prototypes INCLUDE_FLAG
    echo '#include <adios.h>' >"$work/prototypes.c"
    cc -std=gnu11 -D_NOMPI "$1" -fsyntax-only -aux-info "$work/prototypes.txt" "$work/prototypes.c"
    sed -nE 's@^/\* [^*]* \*/ extern (.*[ *]adios_.*)$@\1@p' "$work/prototypes.txt" | sort
}
same_prototypes() {
    prototypes -I/usr/include >"$work/reference.txt"
    prototypes "-I$prefix/include/thalweg" >"$work/ours.txt"
    [[ $(wc -l <"$work/reference.txt") -gt 50 ]] || return 1
    ! comm -23 "$work/reference.txt" "$work/ours.txt" | grep .
}
try "every function of adios.h has the reference's prototype" same_prototypes

constants() { # constants INCLUDE_FLAG
    {
        printf '#include <adios.h>\n#include <adios_schema.h>\n#include <stdio.h>\nint main(void)\n{\n'
        grep -ohE '\<(err|adios|ADIOS)_\w+ *=' /usr/include/adios_{error,types,schema}.h | tr -d ' =' | sort -u |
            sed 's/.*/    printf("& %d\\n", (int)&);/'
        printf '    printf("%%d %%d\\n", ADIOS_BUFFER_ALLOC_NOW, ADIOS_BUFFER_ALLOC_LATER);\n'
        printf '    printf("%%d %%d\\n", ADIOS_VERSION_GE(1, 13, 0), ADIOS_VERSION_LE(1, 12, 9));\n    return 0;\n}\n'
    } >"$work/constants.c"
    cc -std=gnu11 -D_NOMPI "$1" "$work/constants.c" -o "$work/constants" "${@:2}" && "$work/constants"
}
same_constants() {
    constants -I/usr/include >"$work/reference.txt"
    constants "-I$prefix/include/thalweg" -L"$prefix/lib" -Wl,-rpath,"$prefix/lib" -lthalweg-nompi >"$work/ours.txt"
    [[ $(wc -l <"$work/reference.txt") -gt 100 ]] || return 1
    diff "$work/reference.txt" "$work/ours.txt"
}
try "every constant has the reference's value" same_constants

# The same programs with ADIOS 1.13, and what it writes.
source scripts/machine.sh
# Programs that use what only this library does compile all the same.
compile_with_reference() {
    local name
    for name in heat_xml heat_noxml restart errors split; do
        # shellcheck disable=SC2046
        "$MPICC" "${flags[@]}" "$sources/$name.c" -o "$work/$name.reference" $(link_adios1) || return 1
    done
}
try "the same programs compile and link with ADIOS 1.13" compile_with_reference

# listing FILE: what bpls says of it, with minimum, maximum, mean, deviation, and of the values
listing() { bpls -l "$work/$1" && bpls -la "$work/$1" "/t/*" && bpls -d "$work/$1" t time note local/mark; }
same_listing() { # same_listing FILE REFERENCE_FILE
    diff <(listing "$1") <(listing "$2")
}
for ranks in 1 "$MPI_RANKS"; do
    run "$ranks" ./heat_xml.reference heat.xml "reference-xml-$ranks.bp" 3
    try "bpls sees what ADIOS 1.13 writes (XML, $ranks ranks)" \
        same_listing "xml-mpi-$ranks.bp" "reference-xml-$ranks.bp"
    run "$ranks" ./heat_noxml.reference MPI "reference-noxml-$ranks.bp" 3
    try "bpls sees what ADIOS 1.13 writes (no XML, $ranks ranks)" \
        same_listing "noxml-mpi-$ranks.bp" "reference-noxml-$ranks.bp"
done
exit "$failed"
