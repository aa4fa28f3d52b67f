#!/usr/bin/env bash
# Ranks of a real MPI write one file of a container mount, and as many others open it together: each index log is opened once
# by all of them, each reads what another wrote, with every index module; and where a writer's logs are gone, all fail alike.
# shellcheck disable=SC2317  # functions are called by name, through try
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
work=$PWD/build/collective_open/${MPI:-openmpi}
source tests/checks.sh

source scripts/build.sh
build_all
with_libraries
# shellcheck disable=SC2046  # several flags
"$MPICC" -std=gnu11 -O1 -Wall -Wextra -Werror $(pkg-config --cflags "thalweg-$MPI") tests/mpi/collective_open.c -o "$work/collective_open" \
    $(pkg-config --libs "thalweg-$MPI")

export THALWEG_MOUNTS=$work/mounts.toml
for index in flat pattern distributed; do
    mkdir -p "$work/$index.0" "$work/$index.1"
    printf '[[mount]]\npath = "/collective_open/%s"\nlayout = "container"\nstores = ["posix:%s", "posix:%s"]\n' \
        $index "$work/$index.0" "$work/$index.1" >>"$THALWEG_MOUNTS"
    printf 'index = "%s"\ncounts = "%s"\n\n' $index "$work/counts/$index" >>"$THALWEG_MOUNTS"
done

# index_logs INDEX: how many objects all processes opened to read since counts were forgotten, but for the name's stamp, which
# one rank reads, and the identities of both stores, which every rank does.
index_logs() {
    cat "$work/counts/$1"/* | awk -v ranks="$MPI_RANKS" '$1 == "OpenRead" { sum += $2 } END { print sum - 1 - 2 * ranks }'
}
once() { # once INDEX: of two sessions of each writer
    [[ $(index_logs "$1") == $((2 * MPI_RANKS)) ]]
}
# lose INDEX: the logs of one session of the file are gone.
lose() {
    local log
    "$thalweg" layout map "/collective_open/$1/checkpoint" >"$work/map"
    log=$(grep -om1 'posix:[^ ]*-0\.data' "$work/map")
    log=${log#posix:}
    rm "$log" "${log%.data}.index"
}

for index in flat pattern distributed; do
    file=/collective_open/$index/checkpoint
    # Strides that lie over a dozen ranges of the index, each with an owner, and records that fill a part of one.
    many "$index, far apart" run "$MPI_RANKS" ./collective_open write $file 19000001 47001 12
    many "$index, a second session" run "$MPI_RANKS" ./collective_open write $file 19000001 47001 3
    many "$index, far apart" run "$MPI_RANKS" ./collective_open read $file 19000001 47001 12
    many "$index, close" run "$MPI_RANKS" ./collective_open write $file.close 1001 1001 500
    many "$index, close" run "$MPI_RANKS" ./collective_open read $file.close 1001 1001 500
    rm -r "$work/counts/$index"
    many "$index, counted" run "$MPI_RANKS" ./collective_open open $file
    try "each index log is opened once by all ranks together ($index)" once $index
    try "the logs of a session are lost ($index)" lose $index
    many "$index, lost" run "$MPI_RANKS" ./collective_open fail $file
done
exit "$failed"
