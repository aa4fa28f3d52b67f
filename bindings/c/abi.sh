#!/usr/bin/env bash
# abi.sh check|record PREFIX: what programs that were built with this release, or one that has the same number in its libraries' names,
# rely on: compared with the record in bindings/c/abi, or recorded there. Called by tests/system/abi.sh.
#
#   number.txt          the number that these libraries are named by
#   symbols/NAME.txt    the names that libthalweg-NAME.so defines, with their versions
#   declarations.txt    functions, structures, enumerations and constants of the public headers, as GCC tells them to Go
#
# What is gone or differs breaks programs: the version's number must change that libraries are named by (scripts/build.sh). What is new
# must be meant: it is recorded with the change that brings it.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
usage='usage: abi.sh check|record PREFIX'
action=${1:?$usage} prefix=${2:?$usage}
[[ $action == check || $action == record ]] || { echo "$usage" >&2 && exit 2; }
source scripts/build.sh
here=bindings/c record=${THALWEG_ABI_RECORD:-bindings/c/abi}
now=$(mktemp -d)
trap 'rm -r "$now"' EXIT
mkdir "$now/symbols"

# Nobody is linked with the preload library, which has no number.
for library in "$prefix"/lib/libthalweg-*.so."$abi"; do
    name=$(basename "$library" ".so.$abi")
    name=${name#libthalweg-}
    nm -D --defined-only "$library" | awk '$2 != "A" { print $3 }' | LC_ALL=C sort -u >"$now/symbols/$name.txt"
done

# declared: what GCC tells of the headers named in standard input, one declaration in a line.
declared() {
    cat >"$now/headers.c"
    gcc -std=c11 -D_GNU_SOURCE -D_NOMPI "-I$here/include" -S -o /dev/null "-fdump-go-spec=$now/spec" "$now/headers.c"
    LC_ALL=C sort -u "$now/spec"
}
(cd "$here/include" && printf '#include "%s"\n' *.h) | declared >"$now/all.txt"
grep -hE '^# *include <' "$here"/include/*.h | grep -v '<mpi.h>' | sort -u | declared >"$now/system.txt"
{
    echo "# GCC $(gcc -dumpversion)"
    LC_ALL=C comm -23 "$now/all.txt" "$now/system.txt"
} >"$now/declarations.txt"
rm "$now"/{all.txt,system.txt,headers.c,spec}

echo "$abi" >"$now/number.txt"

if [[ $action == record ]]; then
    # What an MPI that is not here has stays on record.
    cp -r "$now/." "$record"
    exit
fi
if [[ $(cat "$record/number.txt" 2>/dev/null) != "$abi" ]]; then
    echo "libraries are named by $abi, the record is of $(cat "$record/number.txt" 2>/dev/null || echo nothing): abi.sh record PREFIX begins a new one"
    exit 1
fi

failed=0
# compare FILE: what is gone from it, and what is new.
compare() {
    local lines
    if [[ ! -e $record/$1 ]]; then
        echo "$1 is not recorded: abi.sh record PREFIX"
        failed=1
        return
    fi
    lines=$(LC_ALL=C comm -23 "$record/$1" "$now/$1")
    if [[ -n $lines ]]; then
        printf '%s: programs rely on what is no longer there, or differs. Another number than %s is needed, or it must come back:\n%s\n' "$1" "$abi" "$lines"
        failed=1
    fi
    lines=$(LC_ALL=C comm -13 "$record/$1" "$now/$1")
    if [[ -n $lines ]]; then
        printf '%s: new, and not recorded (abi.sh record PREFIX):\n%s\n' "$1" "$lines"
        failed=1
    fi
}
for file in "$now"/symbols/*.txt; do
    compare "symbols/$(basename "$file")"
done
for file in "$record"/symbols/*.txt; do
    name=$(basename "$file" .txt)
    [[ ! -e $now/symbols/$name.txt ]] || continue
    # Of an MPI that is not here there is nothing to compare.
    mpi=${name##*-}
    if [[ ($mpi == openmpi || $mpi == mpich) && ! -e $now/symbols/$mpi.txt ]]; then
        echo "libthalweg-$name is not installed, and not compared"
    else
        echo "libthalweg-$name is no longer there"
        failed=1
    fi
done
if [[ $(head -n 1 "$record/declarations.txt" 2>/dev/null) == "$(head -n 1 "$now/declarations.txt")" || ! -e $record/declarations.txt ]]; then
    compare declarations.txt
else
    echo "declarations.txt: recorded with another compiler, not compared"
fi
exit "$failed"
