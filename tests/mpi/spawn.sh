#!/usr/bin/env bash
# Partitions with `start = spawn`: an MPI program starts their servers itself, with MPI_Comm_spawn where its MPI can, else as others do, with
# the reason; through the door for MPI-IO and through adios.h. Several nodes: nodes.sh.
# shellcheck disable=SC2317,SC2046  # functions are called by name, through try; flags are several words
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
work=$PWD/build/spawn
source tests/checks.sh
source scripts/build.sh
build_all
with_libraries
export THALWEG_MOUNTS=$work/mounts.toml THALWEG_MPIIO=$prefix/lib XDG_RUNTIME_DIR=$work/run
mkdir -m 0700 "$work/run"
# What starts which server is seen: the command that MPI or the library runs tells its arguments.
export THALWEG_COMMAND=$work/command
printf '#!/bin/sh\necho "$@" >>%q\nexec %q "$@"\n' "$work/commands.txt" "$thalweg" >"$THALWEG_COMMAND"
chmod +x "$THALWEG_COMMAND"
configured() { # configured NAME [HOST]: the second server is on that host
    printf 'name = %s\nstart = spawn\nidle = 3s\ncache_size = 4M\nmetadata = localhost:%s\n' "$1" "$work/$1.names" >"$work/$1.cfg"
    printf 'ahpios_server = %s:%s\n' localhost "$work/$1.data0" "${2:-localhost}" "$work/$1.data1" >>"$work/$1.cfg"
    printf '[[mount]]\npath = "/mnt/%s"\nlayout = "partition"\npartition = "%s"\n\n' "$1" "$work/$1.cfg" >>"$THALWEG_MOUNTS"
    "$thalweg" partition create "$work/$1.cfg" >&2
}
no_servers() { # waits until the servers have ended by themselves
    for _ in {1..300}; do
        if "$thalweg" partition status "$work/$1.cfg" >"$work/status.txt" && grep -q '^partition .*not started' "$work/status.txt"; then
            pgrep -f "partition serve $work/$1.cfg" >/dev/null || return 0
        fi
        sleep 0.1
    done
    echo "servers of $1 have not ended by themselves" && return 1
}
ended() {
    local file
    for file in "$work"/*.cfg; do "$thalweg" partition stop "$file" --patience 5 >&2 || true; done
}
trap ended EXIT
launch() { # launch MPI PROGRAM...: on two ranks; slots for what they spawn
    local mpi=$1
    shift
    : >"$work/stderr.log"
    if [[ $mpi == mpich ]]; then
        alone mpiexec.mpich -n 2 "$@"
    else
        OMPI_MCA_orte_tmpdir_base=$tmp alone mpiexec.openmpi --oversubscribe -n 2 "$@"
    fi
}
tmp=$(mktemp -d /tmp/ompi.XXXXXX)
trap 'ended; rm -rf "$tmp"' EXIT

configured p
configured q elsewhere.invalid
# Which MPIs can spawn, asked without Thalweg.
cat >"$work/can.c" <<'C'
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm parent, own, child = MPI_COMM_NULL;
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        MPI_Comm_disconnect(&parent);
    } else {
        MPI_Comm_dup(MPI_COMM_SELF, &own);
        MPI_Comm_set_errhandler(own, MPI_ERRORS_RETURN);
        int code = MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, own, &child, MPI_ERRCODES_IGNORE);
        printf("%s\n", code == MPI_SUCCESS ? "can" : "cannot");
        if (code == MPI_SUCCESS) MPI_Comm_disconnect(&child);
        MPI_Comm_free(&own);
    }
    return MPI_Finalize();
}
C
# A function fails with the first of its commands that fails, but not with one behind an exclamation mark.
no() { if "$@"; then return 1; fi; }
seen() { # seen WORD COUNT: of the commands that ran
    [[ $(grep -c "^partition $1 " "$work/commands.txt") == "$2" ]]
}
# who_starts MPI CAN: looks at the commands, and at what the program was told, after a program has used the partition p
who_starts() {
    if [[ $2 == can ]]; then
        seen serve 2
        no grep -q '^partition start' "$work/commands.txt"
        no grep -q 'MPI cannot start servers' "$work/stderr.log"
    else
        no grep -q '^partition serve .*--detached' "$work/commands.txt"
        grep -q 'partition p: MPI cannot start servers: MPI_Comm_spawn' "$work/stderr.log"
        grep -q '^partition start' "$work/commands.txt"
    fi
}
for mpi in openmpi mpich; do
    command -v "mpicc.$mpi" >/dev/null || { echo "skipped: $mpi: it is not installed" && continue; }
    "mpicc.$mpi" -std=c11 -O1 -Wall -Wextra -Werror "$work/can.c" -o "$work/can.$mpi"
    "mpicc.$mpi" -std=c11 -D_GNU_SOURCE -O1 -Wall -Wextra -Werror tests/mpi/mpiio/nodes.c -o "$work/nodes.$mpi"
    "mpicc.$mpi" -std=c11 -D_GNU_SOURCE -O1 -Wall $(pkg-config --cflags "thalweg-$mpi") tests/system/c/heat_noxml.c -o "$work/heat.$mpi" $(pkg-config --libs "thalweg-$mpi")
    can=$(launch "$mpi" "$work/can.$mpi")
    can=${can%%$'\n'*}
    echo "$mpi $can spawn"
    door() {
        rm -f "$work/commands.txt"
        launch "$mpi" "$thalweg" run -- "$work/nodes.$mpi" shared "/mnt/p/$mpi" >"$work/out.txt"
        grep -q '^ok every byte' "$work/out.txt"
        who_starts "$mpi" "$can"
        # Launchers wait for all that have something of a rank open: nothing but what is the servers' own.
        local pid
        for pid in $(pgrep -f "partition serve $work/p.cfg"); do
            no grep -qE 'pipe:' <(find "/proc/$pid/fd" -type l ! -name '[012]' -printf '%l\n')
        done
        # They serve others now, and outlive the program until they are idle.
        "$thalweg" partition status "$work/p.cfg" | grep -c 'open files' | grep -qx 2
        "$thalweg" run -- cmp -n 100 "/mnt/p/$mpi" "/mnt/p/$mpi"
        no_servers p
    }
    try "the first open of MPI-IO starts the servers ($mpi)" door
    outputs() {
        rm -f "$work/commands.txt"
        launch "$mpi" "$work/heat.$mpi" MPI "/mnt/p/heat.$mpi.bp" 2 >"$work/out.txt"
        who_starts "$mpi" "$can"
        "$thalweg" ls "/mnt/p/heat.$mpi.bp" | grep -Eq '^double +(/)?t +2 '
        no_servers p
    }
    try "the first output of a program of adios.h starts the servers ($mpi)" outputs
    if [[ $mpi == openmpi && $can == can ]]; then
        full() { # no slot is free
            rm -f "$work/commands.txt"
            : >"$work/stderr.log"
            OMPI_MCA_orte_tmpdir_base=$tmp alone mpiexec.openmpi --host "$(uname -n):1" -n 1 "$thalweg" run -- "$work/nodes.$mpi" shared /mnt/p/full >"$work/out.txt"
            grep -q '^ok every byte' "$work/out.txt"
            who_starts "$mpi" can
            no_servers p
        }
        try "servers need no slot of the job" full
    fi
    away() {
        local status=0
        rm -f "$work/commands.txt"
        launch "$mpi" "$thalweg" run -- "$work/nodes.$mpi" shared "/mnt/q/$mpi" >"$work/out.txt" || status=$?
        [[ $status != 0 ]]
        grep -q 'partition q: MPI cannot start servers: ' "$work/stderr.log"
        grep -q 'servers on other hosts (elsewhere.invalid) are started in a Slurm job' "$work/stderr.log"
        "$thalweg" partition status "$work/q.cfg" | head -n 1 | grep -q 'not started'
        no pgrep -f "partition serve $work/q.cfg"
    }
    try "a host outside of the job is an error that says who cannot start the server ($mpi)" away
    fails() {
        local status=0
        rm -f "$work/commands.txt"
        mv "$work/p.data1" "$work/away"
        echo "no folder" >"$work/p.data1"
        launch "$mpi" "$thalweg" run -- "$work/nodes.$mpi" shared "/mnt/p/$mpi" >"$work/out.txt" || status=$?
        rm "$work/p.data1"
        mv "$work/away" "$work/p.data1"
        [[ $status != 0 ]]
        grep -q 'server 1 ended (exit status: [1-9]' "$work/stderr.log"
        grep -qF "$work/p.data1" "$work/stderr.log"
        # The server that could start ends with it, or, where the program was aborted while it tried again, once it is idle.
        no_servers p
    }
    try "a server that cannot start is named, with its reason, and none is left ($mpi)" fails
done
alone_too() { # no launcher: MPI starts one for itself
    rm -f "$work/commands.txt"
    "mpicc.openmpi" -std=c11 -D_GNU_SOURCE -O1 tests/mpi/mpiio/nodes.c -o "$work/nodes.single"
    : >"$work/stderr.log"
    OMPI_MCA_orte_tmpdir_base=$tmp alone "$thalweg" run --mpi openmpi -- "$work/nodes.single" shared /mnt/p/single >"$work/out.txt"
    grep -q '^ok every byte' "$work/out.txt"
    who_starts openmpi "$(OMPI_MCA_orte_tmpdir_base=$tmp alone "$work/can.openmpi")"
    no_servers p
}
[[ ! -x $work/can.openmpi ]] || try "a program without a launcher starts them, too" alone_too
exit "$failed"
