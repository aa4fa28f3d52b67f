#!/usr/bin/env bash
# Each system call of an output by every method, from one rank and from three, and of operations on files of every layout, fails
# once; of outputs on a container one of 10, behind the doors one of 25, always the same ones, for LONG=1 each. tests/system/faults.rs says what must hold then.
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
many "methods" "$built/examples/faults" judge bp "$work/one" 1
many "methods, 3 ranks" "$built/examples/faults" judge bp "$work/three" 3
many "commands that read" "$built/examples/faults" judge read "$work/read" "$thalweg"
many "layouts" "$built/examples/faults" judge file "$work/layouts"
# One of ten; LONG=1 tries each.
for method in MPI POSIX MPI_AGGREGATE; do
    THIN=$([[ ${LONG:-0} != 0 ]] && echo 1 || echo 10) many "methods over a container" "$built/examples/faults" judge over "$work/over" "container folders" 1 $method
done
# Some 8,500 and 1,500 calls, a tenth of a second to a half each.
[[ ${LONG:-0} != 0 ]] || export THIN=25
many "preload" "$built/examples/faults" judge preload "$work/preload" "$thalweg"
if [[ -e /dev/fuse && $(id -u) == 0 ]]; then
    many "FUSE" "$built/examples/faults" judge fuse "$work/fuse" "$thalweg"
else
    echo "skipped: a failure of each system call behind FUSE: no /dev/fuse, or not root"
fi
exit "$failed"
