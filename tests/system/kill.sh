#!/usr/bin/env bash
# The kill test: a writer that appends steps is killed at 200 random moments; every step it had closed is read back bit for
# bit at once, and by bpls after `thalweg recover`. Then the same with ranks of MPI, through the C interface.
#
#   KILL_SEED=N chooses the moments (as far as the machine lets it); LONG=1 kills more often
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
work=$PWD/build/kill/${MPI:-openmpi}
source tests/checks.sh
export THALWEG_LOG=off # a restart warns that it cuts off what was interrupted, and these writers are to say nothing
# The same one each time, for LONG=1 another one.
seed=${KILL_SEED:-$((${LONG:-0} == 0 ? 1 : RANDOM * 32768 + RANDOM))}
kills=200 kills_mpi=12
[[ ${LONG:-0} == 0 ]] || kills=1000 kills_mpi=200

source scripts/build.sh
build_all
bpls=()
if command -v bpls >/dev/null; then
    bpls=("$(command -v bpls)")
else
    echo "skipped: bpls after each kill: there is no bpls (package libadios-bin)"
fi

# Threads don't depend on the MPI, so once is enough.
if [[ $MPI == openmpi ]]; then
    try "$kills kills of appending writers lose no closed step (KILL_SEED=$seed)" \
        "$built/examples/kill" judge "$work" "$kills" "$seed" "$thalweg" "${bpls[@]}"
fi

with_libraries
# shellcheck disable=SC2046  # several flags
"$MPICC" -std=c11 -D_GNU_SOURCE -O1 -Wall -Wextra -Werror $(pkg-config --cflags "thalweg-$MPI") tests/system/kill.c \
    -o "$work/kill" $(pkg-config --libs "thalweg-$MPI")
try "$kills_mpi kills of $MPI_RANKS ranks of $MPI lose no closed step (KILL_SEED=$seed)" \
    "$built/examples/kill" judge "$work" "$kills_mpi" "$seed" "$thalweg" "${bpls[@]}" \
    -- "${mpiexec[@]}" -n "$MPI_RANKS" "$work/kill"
exit "$failed"
