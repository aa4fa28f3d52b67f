#!/usr/bin/env bash
# Each system call of an output by every method, from one rank and from three, and of operations on files of every layout, fails
# once: one in ten, always the same ones, and the first of each sort; with LONG=1 all. Of outputs on the layouts, of commands that
# look after files, and behind the doors fewer do: with LONG=1 one in eight, other ones in each run. THIN=N tries one in N, FIRST=K
# from the K-th on; THIN=1 tries all, which takes hours.
# tests/system/faults.rs says what must hold then.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
work=$PWD/build/faults
source tests/checks.sh
source scripts/build.sh
build_all

if ! strace -qq -o "$work/strace.log" true 2>"$work/stderr.log"; then
    echo "skipped: a failure of each system call: strace cannot trace here ($(head -n 1 "$work/stderr.log"))"
    exit 0
fi
first=${FIRST:-0}
# most NAME ARGUMENT...: one in ten and the first of each sort; with LONG=1 all.
most() { THIN=${THIN:-$((${LONG:-0} == 0 ? 10 : 1))} FIRST=$first many "$1" "$built/examples/faults" judge "${@:2}"; }
most "methods" bp "$work/one" 1
most "methods, 3 ranks" bp "$work/three" 3
most "commands on a file" read "$work/read" "$thalweg"
most "layouts" file "$work/layouts"

if [[ ${LONG:-0} != 0 ]]; then
    every=${THIN:-8} first=${FIRST:-$((RANDOM % ${THIN:-8}))}
    echo "one in $every from here on: THIN=$every FIRST=$first"
fi
# thin N NAME ARGUMENT...: one of N alone, and the first of its sort.
thin() { THIN=${every:-${THIN:-$1}} FIRST=$first many "$2" "$built/examples/faults" judge "${@:3}"; }
thin 160 "methods on the layouts" over "$work/over"
thin 120 "commands that look after files" upkeep "$work/upkeep" "$thalweg"
# Some 15,000 and 3,000 calls, a tenth of a second to a half each.
thin 100 "preload" preload "$work/preload" "$thalweg"
if [[ -e /dev/fuse && $(id -u) == 0 ]]; then
    thin 100 "FUSE" fuse "$work/fuse" "$thalweg"
    mkdir -p "$work/fuse-bp"
    thin 120 "outputs through FUSE" fuse-bp "$work/fuse-bp" "$thalweg"
else
    echo "skipped: a failure of each system call behind FUSE: no /dev/fuse, or not root"
fi
exit "$failed"
