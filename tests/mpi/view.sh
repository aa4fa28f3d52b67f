#!/usr/bin/env bash
# Datatypes and views of crates/view beside those of both MPIs: sizes, bounds, what MPI_Pack copies, what a write through a view leaves
# in a file, for a thousand datatypes of every constructor. VIEW_SEED=N chooses them; LONG=1 tries fifty thousand.
# shellcheck disable=SC2317  # functions are called by name, through try
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
work=$PWD/build/view/${MPI:-openmpi}
source tests/checks.sh
source scripts/build.sh
build_all

seed=${VIEW_SEED:-$((${LONG:-0} == 0 ? 1 : RANDOM))} count=$((${LONG:-0} == 0 ? 1000 : 50000))
"$built/examples/datatypes" "$seed" "$count" >"$work/types.txt"
for mpi in openmpi mpich; do
    try "the program compiles with $mpi" "mpicc.$mpi" -std=c11 -O1 -g -Wall -Wextra -Werror tests/mpi/view.c -o "$work/view.$mpi"
    compared() { # the last line counts what was tried
        timeout 600 "$work/view.$mpi" "$work/file" <"$work/types.txt" >"$work/said.$mpi" && awk -v least=$((count / 2)) \
            'END { exit !($1 > least && $3 > least / 2) }' "$work/said.$mpi"
    }
    try "$count datatypes are what $mpi says, in memory and as views (seed $seed)" compared
    tail -n 1 "$work/said.$mpi"
done
exit $failed
