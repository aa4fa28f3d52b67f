#!/usr/bin/env bash
# The communicator suite inside MPI ranks.
#
#   MPICC=mpicc.openmpi MPIEXEC='mpirun.openmpi --oversubscribe' tests/mpi/comm.sh [RANKS...]
#
# RANKS are the numbers of ranks to run with; 1 2 3 4 for Open MPI, 1 2 for others (MPICH waits busily, so it wants a
# core for each). Prints "N passed, N failed" for each run; exits 1 where a run fails.
set -euo pipefail
cd "$(dirname "$0")/../.."

MPICC=${MPICC:-mpicc.openmpi}
case $MPICC in
*openmpi*) flavour=openmpi default_exec='mpirun.openmpi --oversubscribe' ranks=(1 2 3 4) ;;
*mpich*) flavour=mpich default_exec=mpiexec.mpich ranks=(1 2) ;;
*) flavour=$(basename "$MPICC") default_exec=mpiexec ranks=(1 2) ;;
esac
[[ $# -eq 0 ]] || ranks=("$@")
work=$PWD/build/comm/$flavour
MPI=$flavour MPIEXEC=${MPIEXEC:-$default_exec}
source tests/checks.sh

target=${CARGO_TARGET_DIR:-target}
out=$target/mpi
mkdir -p "$out"
sources=(crates/comm-mpi/mpi/shim.c tests/mpi/application.c)

# build NAME FLAG...: the shim and the application, as one library; quick where nothing changed.
build() {
    local library=$out/libcheck-$flavour-$1.so
    shift
    local source
    for source in "${sources[@]}" crates/comm-mpi/mpi/thalweg_mpi.h tests/mpi/comm.sh; do
        if [[ ! -e $library || $source -nt $library ]]; then
            "$MPICC" -std=c11 -O2 -Wall -Wextra -Wpedantic -Werror -shared -fPIC -Icrates/comm-mpi/mpi "$@" \
                "${sources[@]}" -o "$library"
            break
        fi
    done
}
build plain
# Blocks of 1 MiB, so that the ways of messages longer than MPI can count are walked by messages of 20 MiB.
build blocks -DTHALWEG_MPI_LARGE_BYTES='(1u << 20)'

if grep -n 'MPI_COMM_WORLD' crates/comm-mpi/mpi/*; then
    echo "0 passed, 1 failed: the shim uses a communicator that was not handed in"
    exit 1
fi

source scripts/build.sh
build_all
for n in "${ranks[@]}"; do
    for run in 'plain single' 'plain multiple' 'blocks single'; do
        read -r library level <<<"$run"
        echo "communicator suite, $flavour, $n ranks, $library, threads $level:"
        limited 900 "${mpiexec[@]}" -n "$n" "$built/examples/conformance" "$out/libcheck-$flavour-$library.so" "$level" || failed=1
    done
done

# Only Open MPI's launcher can be told to let the others live when one rank dies.
if [[ $flavour = openmpi ]]; then
    echo "a rank killed, $flavour, 3 ranks:"
    # The launcher reports the killed rank whatever the others make of it, so their own words count.
    limited 900 "${mpiexec[@]}" --enable-recovery -n 3 "$built/examples/conformance" \
        "$out/libcheck-$flavour-plain.so" lost 2>"$out/lost.log" | tee "$out/lost.txt" || true
    grep -q '^1 passed, 0 failed$' "$out/lost.txt" || { failed=1 && tail -n 30 "$out/lost.log" | cut -c1-300 | sed 's/^/  /'; }
fi
exit "$failed"
