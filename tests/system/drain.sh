#!/usr/bin/env bash
# The drain that starts by itself behind unchanged programs under preload, behind ranks of MPI on two nodes, and behind a FUSE
# mount: the slow store gets the same bytes, the drain ends by itself, and what fails stands in its log. crates/cli/tests/drains_*
# kill it.
#
#   ONLY=WORD runs the checks whose names hold it
# shellcheck disable=SC2317  # functions are called by name, through try
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
source scripts/build.sh
build_all
work=$(mktemp -d "${TMPDIR:-/tmp}/thalweg-drain.XXXXXX")
source tests/checks.sh
chmod 755 "$work"
# shellcheck disable=SC2154  # of build.sh
cleanup() {
    local process
    for process in $(drains); do kill "$process" 2>/dev/null || true; done
    ! mountpoint -q "$work/at" 2>/dev/null || "$thalweg" unmount --lazy "$work/at" || true
    umount -l "$work/at" 2>/dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT
# Processes that drain here.
drains() { pgrep -f -- "drain tiered:posix:$work/.*--idle" || true; }

cc -std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror tests/system/preload/calls.c -o "$work/calls" -pthread
layouts=(direct container small_file)
# table NODE: each node has a fast store of its own before the same slow one; `slow` is that alone.
table() {
    local layout store
    for layout in "${layouts[@]}"; do
        mkdir -p "$work/fast.$1.$layout" "$work/slow.$layout"
        store=tiered:posix:$work/fast.$1.$layout=\>posix:$work/slow.$layout
        [[ $1 != slow ]] || store=posix:$work/slow.$layout
        printf '[[mount]]\npath = "/drained/%s"\nlayout = "%s"\nstore = "%s"\n\n' "$layout" "$layout" "$store" >>"$work/$1.toml"
    done
}
for node in a b slow; do table $node; done
on() { local node=$1 && shift && THALWEG_MOUNTS=$work/$node.toml "$@"; } # on NODE COMMAND...

soon() { # soon COMMAND...: within two minutes
    local k
    for ((k = 0; k < 1200; k++)); do
        if "$@"; then return 0; fi
        sleep 0.1
    done
    echo "it did not happen: $*"
    return 1
}
# What the fast stores hold beside what the burst buffer keeps for itself.
waiting() { find "$work"/fast.*."$1" -path '*/.thalweg-drain' -prune -o -type f -print; }
empty() { [[ -z $(waiting "$1") ]]; }
drained() { # drained LAYOUT NODE...: the fast stores are empty, and the drains of these nodes had no failure
    local node status
    if ! soon empty "$1"; then
        waiting "$1"
        cat "$work"/fast.*."$1"/.thalweg-drain/log || true
        return 1
    fi
    for node in "${@:2}"; do
        status=0
        grep -E 'failed|not started|given up' "$work/fast.$node.$1/.thalweg-drain/log" || status=$?
        # 1: no line matches; 2: there is no log, so no drain was started there.
        [[ $status == 1 ]] || { echo "the drain of node $node: grep ends with $status" && return 1; }
    done
}
nobody() { [[ -z $(drains) ]]; }

head -c 3000000 /dev/urandom >"$work/random"
seq 1 20000 >"$work/text"

# Where the command is not in PATH: `thalweg run` says where it is.
# shellcheck disable=SC2016  # the inner shell expands them
preloaded() { # preloaded LAYOUT
    on a "$thalweg" run -- bash -c 'set -e; mkdir /drained/$1/d; cp "$2/random" "$2/text" /drained/$1/d; seq 1 9 >>/drained/$1/d/text; echo lines >/drained/$1/e; mv /drained/$1/e /drained/$1/f' _ "$1" "$work"
    on a "$thalweg" run -- cmp "$work/random" "/drained/$1/d/random"
    drained "$1" a
    on slow "$thalweg" run -- cmp "$work/random" "/drained/$1/d/random"
    on slow "$thalweg" run -- cat "/drained/$1/d/text" | cmp - <(cat "$work/text" <(seq 1 9))
    [[ $(on slow "$thalweg" run -- cat "/drained/$1/f") == lines ]]
    # The other node sees one store as well.
    on b "$thalweg" run -- cmp "$work/random" "/drained/$1/d/random"
}
for layout in "${layouts[@]}"; do
    try "what programs under preload wrote is drained ($layout)" preloaded "$layout"
done
try "the drains behind preload end by themselves" soon nobody

# Two ranks, each on a node of its own: one file that both write, then what each read of the other's once it was drained.
ranks() { # ranks ROLE FILE: rank 0 on node a, rank 1 on node b
    limited 300 "${mpiexec[@]}" \
        -n 1 env THALWEG_MOUNTS="$work/a.toml" "$thalweg" run -- "$work/calls" "$1" "$2" 0 2 47001 40 : \
        -n 1 env THALWEG_MOUNTS="$work/b.toml" "$thalweg" run -- "$work/calls" "$1" "$2" 1 2 47001 40
}
of_ranks() {
    ranks strided /drained/container/checkpoint
    drained container a b
    ranks shifted /drained/container/checkpoint
    for rank in 0 1; do on slow "$thalweg" run -- "$work/calls" shifted /drained/container/checkpoint "$rank" 2 47001 40; done
    on slow "$thalweg" layout check /drained/container/checkpoint
}
bp_of_ranks() { # bp_of_ranks METHOD...: through the C interface
    local method nodes=() node
    for method in "$@"; do
        sed "s/METHOD/$method/" tests/system/kill.xml >"$work/drain.xml"
        nodes=()
        for node in a b; do
            nodes+=(-n 1 env THALWEG_MOUNTS="$work/$node.toml" THALWEG_COMMAND="$thalweg" "$work/kill" "$work/drain.xml" "/drained/container/$method.bp" 0 6 :)
        done
        limited 300 "${mpiexec[@]}" "${nodes[@]::${#nodes[@]}-1}" | tee "$work/said"
        [[ $(grep -c '^closed' "$work/said") == 6 ]] || return 1
        drained container a b
        on slow "$thalweg" verify "/drained/container/$method.bp"
        # The last step: row R is 5242880 + 65536 R, and so on by ones.
        on slow "$thalweg" dump "/drained/container/$method.bp" c >"$work/dumped"
        for value in 5242880 5308419; do grep -Eq "\b$value\b" "$work/dumped" || { cat "$work/dumped" && return 1; }; done
    done
}
if command -v "$MPICC" >/dev/null && [[ $MPI == openmpi ]]; then
    try "what ranks of two nodes wrote is drained, and each reads the other's" of_ranks
    with_libraries
    # shellcheck disable=SC2046  # several flags
    "$MPICC" -std=c11 -D_GNU_SOURCE -O1 -Wall -Wextra -Werror $(pkg-config --cflags "thalweg-$MPI") tests/system/kill.c -o "$work/kill" $(pkg-config --libs "thalweg-$MPI")
    try "steps of ranks of two nodes are drained (MPI, POSIX)" bp_of_ranks MPI POSIX
else
    echo "skipped: the drain behind ranks of two nodes: there is no Open MPI"
fi

through_fuse() { # through_fuse LAYOUT
    mkdir -p "$work/at"
    on a "$thalweg" mount "$work/at" --path "/drained/$1"
    mkdir "$work/at/fuse"
    cp "$work/random" "$work/text" "$work/at/fuse/"
    seq 1 9 >>"$work/at/fuse/text"
    # While it is mounted: the drain waits for no unmount, but for the end of a log of small files.
    [[ $1 == small_file ]] || drained "$1" a
    cmp "$work/random" "$work/at/fuse/random"
    cat "$work/text" <(seq 1 9) | cmp - "$work/at/fuse/text"
    # Fetched back, and drained again.
    seq 10 19 >>"$work/at/fuse/text"
    on a "$thalweg" unmount "$work/at"
    drained "$1" a
    on slow "$thalweg" run -- cmp "$work/random" "/drained/$1/fuse/random"
    on slow "$thalweg" run -- cat "/drained/$1/fuse/text" | cmp - <(cat "$work/text" <(seq 1 19))
}
if [[ -e /dev/fuse && $(id -u) == 0 ]]; then
    for layout in "${layouts[@]}"; do
        try "what programs wrote through FUSE is drained ($layout)" through_fuse "$layout"
        ! mountpoint -q "$work/at" || "$thalweg" unmount --lazy "$work/at" || umount -l "$work/at" || true
    done
else
    echo "skipped: the drain behind FUSE: no /dev/fuse, or not root"
fi
try "all drains end by themselves" soon nobody

# shellcheck disable=SC2016
fails() { # a slow store that takes nothing: told in the log, and everything is kept
    mkdir -p "$work/slow.direct/inthe.way/x"
    mkdir -p "$work/fast.a.direct"
    cp "$work/text" "$work/fast.a.direct/inthe.way"
    on a "$thalweg" run -- bash -c 'echo more >/drained/direct/more'
    soon grep -q 'failed: inthe.way stays in the fast store' "$work/fast.a.direct/.thalweg-drain/log"
    cmp "$work/text" "$work/fast.a.direct/inthe.way"
    on a "$thalweg" drain "tiered:posix:$work/fast.a.direct=>posix:$work/slow.direct" --status | grep -q 'inthe.way'
    rm -r "$work/slow.direct/inthe.way"
    soon empty direct
    cmp "$work/text" "$work/slow.direct/inthe.way"
}
try "a slow store that fails is told in the drain's log, and loses nothing" fails
exit "$failed"
