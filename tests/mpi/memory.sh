#!/usr/bin/env bash
# Every method over real MPI while the system gives ever less memory (RLIMIT_AS): no rank is aborted and none waits for
# another; all close with one error or none, and every step that was closed is there afterwards. A limit of the buffer of 1 MiB,
# or none, in turns; with LONG=1 both for each method.
# shellcheck disable=SC2317  # functions are called by name, through try
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
work=$PWD/build/memory/${MPI:-openmpi}
source tests/checks.sh
export THALWEG_ERRORS=quiet LC_ALL=C
source scripts/build.sh
build_all
with_libraries

# shellcheck disable=SC2046  # several flags
try "the program compiles" "$MPICC" -std=c11 -D_GNU_SOURCE -O1 -Wall -Wextra -Werror $(pkg-config --cflags "thalweg-$MPI") \
    tests/mpi/memory.c -o "$work/memory" $(pkg-config --libs "thalweg-$MPI")
[[ $failed == 0 ]] || exit 1

short() { # short NAME: writes, and reads what was closed
    local name=$1 closed
    run "$MPI_RANKS" "$work/memory" "$work" "$name" | tee "$work/$name.log"
    closed=$(grep -c '^closed' "$work/$name.log")
    # The first, the last, and those with much memory.
    [[ $closed -ge 4 ]]
    "$thalweg" verify "$work/$name.bp"
    [[ $(wc -l < <("$thalweg" dump "$work/$name.bp" 'a[0, 0:1]')) -ge 1 ]]
    rm -rf "${work:?}/$name.bp" "$work/$name.bp.dir"
}

number=0
for way in MPI POSIX MPI_SCHEDULED MPI_COLLECTIVE 'MPI_COLLECTIVE aggregators=2' MPI_AGGREGATE 'MPI_AGGREGATE pattern=brigade' ADAPTIVE; do
    read -r method parameters <<<"$way"
    for buffer in '' '<buffer size-MB="1"/>'; do
        number=$((number + 1))
        # Without LONG=1: no limit for the first of two ways, 1 MiB for the second.
        [[ ${LONG:-0} != 0 || $((number % 4)) -lt 2 ]] || continue
        cat >"$work/$number.xml" <<XML
<adios-config host-language="C"><adios-group name="g">
  <var name="a" type="byte" dimensions="8388608"/><var name="b" type="byte" dimensions="8388608"/>
</adios-group><method group="g" method="$method">${parameters:-}</method>$buffer</adios-config>
XML
        try "$way${buffer:+ with a buffer of 1 MiB} while memory is short" short "$number"
    done
done
exit "$failed"
