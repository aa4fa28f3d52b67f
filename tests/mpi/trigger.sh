#!/usr/bin/env bash
# Two methods of a group under real MPI: the second one runs a command once for each output, whatever the number of ranks,
# which finds the file of the first finished; one that hangs holds up nobody.
#
#   tests/mpi/trigger.sh [RANKS...]
# shellcheck disable=SC2317  # functions are called by name, through try
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
work=$PWD/build/trigger/${MPI:-openmpi}
source tests/checks.sh
export THALWEG_ERRORS=quiet LC_ALL=C
ranks=("$@")
[[ $# -gt 0 ]] || ranks=(1 2)

source scripts/build.sh
build_all
with_libraries

# shellcheck disable=SC2046  # several flags
"$MPICC" -std=c11 -D_GNU_SOURCE -O1 $(pkg-config --cflags "thalweg-$MPI") tests/mpi/methods.c -o "$work/methods" \
    $(pkg-config --libs "thalweg-$MPI")
cat >"$work/look.sh" <<LOOK
cat >"$work/doc.\$THALWEG_STEP" && "$thalweg" ls "\$THALWEG_OUTPUT" >"$work/ls.\$THALWEG_STEP"
LOOK
more="<method group=\"fields\" method=\"TRIGGER\">command=sh $work/look.sh;log=$work/log</method>"
more+="<method group=\"fields\" method=\"TRIGGER\">command=sleep 100;timeout=500ms;at_end=1s;log=$work/hangs</method>"
sed -e 's/METHOD/POSIX/' -e 's/PARAMETERS/index_fan_in=1/' -e "s|</adios-config>|$more</adios-config>|" \
    tests/mpi/methods.xml >"$work/both.xml"

writes() { # writes RANKS: five steps, in two sessions
    rm -rf "$work"/both.bp* "$work"/{doc,ls}.* "$work/log" "$work/hangs"
    limited 900 "${mpiexec[@]}" -n "$1" "$work/methods" write "$work" both
}
once() { # once: each step has run one command, whose listing has that step
    local step
    cat "$work/log"
    [[ $(grep -c ': exit 0, ' "$work/log") == 5 && $(wc -l <"$work/log") == 5 ]] || return 1
    for step in 0 1 2 3 4; do
        grep -q "\"step\":${step}[,}]" "$work/doc.$step" || return 1
        grep -q 'deep/plane' "$work/ls.$step" || return 1
    done
}
hung() { # hung: each was killed at its time or at the end of its session, or not begun any more
    cat "$work/hangs"
    [[ $(grep -c 'killed\|not run' "$work/hangs") == 5 ]]
}
for n in "${ranks[@]}"; do
    try "$n ranks of $MPI write, and wait for no command that hangs" writes "$n"
    try "$n ranks: one command for each output, which finds it in the file" once
    try "$n ranks: what hangs is killed" hung
    try "$n ranks: the file is sound" "$work/methods" check "$work" "$n" 5 both
done
exit "$failed"
