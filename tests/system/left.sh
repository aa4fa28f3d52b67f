#!/usr/bin/env bash
# Programs in C, C++ and Fortran that end without having closed what they opened, on two ranks and on one, with methods of one file
# and of subfiles: every step that was closed is read by thalweg, adios2 and bpls; where MPI or a signal ended the ranks, by adios2 and
# bpls after `thalweg recover`. tests/system/cpp.sh has those of one process in C and C++.
# shellcheck disable=SC2317  # functions are called by name, through try
# shellcheck disable=SC2046  # what pkg-config says is several flags
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
work=$PWD/build/left/${MPI:-openmpi}
source tests/checks.sh
source scripts/build.sh
build_all
with_libraries
export THALWEG_ERRORS=quiet
PYTHON=$(realpath -s "${PYTHON:-build/venv/bin/python}")
sources=$PWD/tests/system/left
readers=(thalweg)
if "$PYTHON" -c 'import adios2' 2>"$work/stderr.log"; then readers+=(adios2); else echo "skipped: files that were left, read by adios2: the wheel is not installed"; fi
if command -v bpls >/dev/null; then readers+=(bpls); else echo "skipped: files that were left, read by bpls: there is no bpls (package libadios-bin)"; fi

warnings=(-O1 -g -Wall -Wextra -Werror)
compile() {
    "$MPICC" -std=c11 "${warnings[@]}" $(pkg-config --cflags "thalweg-$MPI") "$sources/ranks.c" -o "$work/c" $(pkg-config --libs "thalweg-$MPI")
    # The C++ bindings of old MPI headers are not ours to clean.
    "mpicxx.$MPI" -std=c++17 "${warnings[@]}" -DOMPI_SKIP_MPICXX=1 -DMPICH_SKIP_MPICXX=1 $(pkg-config --cflags "thalweg-$MPI") \
        "$sources/ranks.cpp" -o "$work/cpp" $(pkg-config --libs "thalweg-$MPI")
}
compile_fortran() {
    (cd "$work" && "$MPIF90" "${warnings[@]}" $(pkg-config --cflags "thalweg-fortran-$MPI") "$sources/left.F90" -o fortran \
        $(pkg-config --libs "thalweg-fortran-$MPI"))
    (cd "$work" && gfortran "${warnings[@]}" -DALONE $(pkg-config --cflags thalweg-fortran-nompi) "$sources/left.F90" -o fortran.nompi \
        $(pkg-config --libs thalweg-fortran-nompi))
}
try "programs in C and C++ compile" compile
fortran=1
if command -v gfortran >/dev/null; then
    try "programs in Fortran compile" compile_fortran
else
    echo "skipped: Fortran programs that leave files: no gfortran"
    fortran=0
fi
[[ $failed == 0 ]] || exit 1

# The values of `n` and `t` are those of ranks.c.
by_thalweg() { # by_thalweg FILE RANKS
    "$thalweg" ls "$1" >"$work/got.ls"
    grep -qE '^integer +n +20 +scalar$' "$work/got.ls"
    "$thalweg" dump "$1" t >"$work/got.dump"
    awk -v ranks="$2" 'BEGIN { for (s = 0; s < 20; s++) for (r = 0; r < ranks; r++) for (i = 0; i < 3; i++) print 100 * s + 10 * r + i }' \
        >"$work/wanted.numbers"
    sed -n 's/^ *\[.*\] *//p' "$work/got.dump" | tr -s ' ' '\n' | cmp - "$work/wanted.numbers"
}
by_adios2() { # by_adios2 FILE RANKS
    "$PYTHON" - "$1" "$2" <<'PYTHON'
import sys
import numpy as np
import adios2
path, ranks = sys.argv[1], int(sys.argv[2])
with adios2.FileReader(path) as f:
    about = f.available_variables()
    assert int(about["n"]["AvailableStepsCount"]) == int(about["t"]["AvailableStepsCount"]) == 20, about
    for step in range(20):
        got = np.asarray(f.read("t", [0, 0], [ranks, 3], step_selection=[step, 1])).reshape(ranks, 3)
        wanted = [[100 * step + 10 * rank + i for i in range(3)] for rank in range(ranks)]
        assert np.array_equal(got, wanted), (step, got)
PYTHON
}
by_bpls() { # by_bpls FILE RANKS
    bpls -l "$1" >"$work/got.bpls"
    grep -qE 'n +20\*scalar = 0 / 19' "$work/got.bpls"
    grep -qE "t +20\*\{$2, 3\} = 0 / $((1900 + 10 * ($2 - 1) + 2))" "$work/got.bpls"
}
left_whole() { # left_whole FILE RANKS: every reader reads all closed steps
    local reader
    for reader in "${readers[@]}"; do "by_$reader" "$@"; done
    "$thalweg" verify "$1"
}
left_readable() { # left_readable FILE RANKS: thalweg does; the others once it is recovered
    by_thalweg "$@"
    "$thalweg" recover "$1"
    left_whole "$@"
}

ends() { # ends whole|readable PROGRAM HOW METHOD: on two ranks
    local file=$work/$2-$3-$4.bp status=0
    limited 600 "${mpiexec[@]}" -n 2 "$work/$2" "$3" "$4" "$file" >"$work/said.txt" 2>&1 || status=$?
    # Nobody waits for ever.
    [[ $status != 124 ]]
    "left_$1" "$file" 2
}
ends_alone() { # ends_alone HOW METHOD STATUS: one process in Fortran
    local file=$work/alone-$1-$2.bp status=0
    limited 600 "$work/fortran.nompi" "$1" "$2" "$file" >"$work/said.txt" 2>&1 || status=$?
    [[ $status == "$3" ]]
    left_whole "$file" 1
}

for method in MPI POSIX MPI_AGGREGATE; do
    for how in return exit adios; do
        try "C, $method, two ranks: all closed steps are there for every reader after: $how" ends whole c $how $method
    done
    for how in early one abort; do
        try "C, $method, two ranks: all closed steps are found after: $how" ends readable c $how $method
    done
    try "C++, $method, two ranks: all closed steps are there for every reader after an exception" ends whole cpp caught $method
    try "C++, $method, two ranks: all closed steps are found after an exception that nobody catches" ends readable cpp uncaught $method
    [[ $fortran == 1 ]] || continue
    for how in end stop; do
        try "Fortran, $method, two ranks: all closed steps are there for every reader after: $how" ends whole fortran $how $method
    done
    for how in error-stop early one; do
        try "Fortran, $method, two ranks: all closed steps are found after: $how" ends readable fortran $how $method
    done
    try "Fortran, $method, alone: all closed steps are there for every reader after: end" ends_alone end $method 0
    try "Fortran, $method, alone: all closed steps are there for every reader after: stop" ends_alone stop $method 0
    try "Fortran, $method, alone: all closed steps are there for every reader after: error stop" ends_alone error-stop $method 3
done
exit "$failed"
