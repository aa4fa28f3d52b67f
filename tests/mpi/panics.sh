#!/usr/bin/env bash
# A rank that panics inside a collective call over real MPI: all ranks return an error of one kind, the next output succeeds, and the
# program ends. tests/mpi/panics.rs says what is tried.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
work=$PWD/build/panics/${MPI:-openmpi}
source tests/checks.sh
source scripts/build.sh
build_all
ranks=3
[[ $MPI_RANKS -ge $ranks ]] || ranks=$MPI_RANKS

try "the application compiles" "$MPICC" -std=c11 -O2 -Wall -Wextra -Wpedantic -Werror -shared -fPIC -Icrates/comm-mpi/mpi \
    crates/comm-mpi/mpi/shim.c tests/mpi/application.c -o "$work/libapplication.so"
[[ $failed == 0 ]] || exit 1
many "$ranks ranks of $MPI" run "$ranks" "$built/examples/panics" "$work/libapplication.so" "$work"
exit "$failed"
