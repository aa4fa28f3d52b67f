#!/usr/bin/env bash
# Output windows in C, C++ and Fortran: on ranks of MPI that is initialised for one thread, in one process, and in processes without MPI that meet in a
# folder; the commands of docs/guide/windows.md.
# shellcheck disable=SC2317  # functions are called by name, through try
# shellcheck disable=SC2046  # what pkg-config says is several flags
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
work=$PWD/build/windows/${MPI:-openmpi}
source tests/checks.sh

source=$PWD/tests/system/native/windows.c
guide=$PWD/docs/guide/windows.md
with_libraries
flags=(-std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror)
compile() {
    "$MPICC" "${flags[@]}" $(pkg-config --cflags "thalweg-$MPI") "$source" -o "$work/windows" $(pkg-config --libs "thalweg-$MPI")
    cc "${flags[@]}" -D_NOMPI $(pkg-config --cflags thalweg-nompi) "$source" -o "$work/windows.nompi" $(pkg-config --libs thalweg-nompi)
}
compile_cpp() {
    local warnings=(-std=c++17 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Wpedantic -Wshadow -Werror -DOMPI_SKIP_MPICXX=1 -DMPICH_SKIP_MPICXX=1)
    "mpicxx.$MPI" "${warnings[@]}" $(pkg-config --cflags "thalweg-$MPI") "${source%.c}.cpp" -o "$work/windows++" $(pkg-config --libs "thalweg-$MPI")
    g++ "${warnings[@]}" -D_NOMPI $(pkg-config --cflags thalweg-nompi) "${source%.c}.cpp" -o "$work/windows++.nompi" $(pkg-config --libs thalweg-nompi)
}
compile_fortran() {
    local warnings=(-cpp -std=f2018 -O1 -g -Wall -Wextra -Wno-compare-reals -fcheck=all)
    (cd "$work" && "$MPIF90" "${warnings[@]}" $(pkg-config --cflags "thalweg-fortran-$MPI") "${source%.c}.f90" -o windows.f $(pkg-config --libs "thalweg-fortran-$MPI"))
    (cd "$work" && gfortran "${warnings[@]}" -DNOMPI $(pkg-config --cflags thalweg-fortran-nompi) "${source%.c}.f90" -o windows.f.nompi $(pkg-config --libs thalweg-fortran-nompi))
}
try "programs with output windows compile" compile
try "programs with output windows compile (C++)" compile_cpp
try "programs with output windows compile (Fortran)" compile_fortran
[[ $failed == 0 ]] || exit 1

for ranks in 1 2 "$MPI_RANKS"; do
    mkdir -p "$work/files.$ranks"
    many "$MPI, $ranks ranks, one thread" run "$ranks" ./windows "files.$ranks"
    many "C++, $MPI, $ranks ranks" run "$ranks" ./windows++ "files.$ranks"
    many "Fortran, $MPI, $ranks ranks" run "$ranks" ./windows.f "files.$ranks"
done

# Without MPI: every process prints its own checks.
processes() { # processes PROGRAM COUNT
    local rank pids=() fine=0
    mkdir -p "$work/files.p$2" "$work/meet"
    for ((rank = 0; rank < $2; rank++)); do
        (cd "$work" && "./$1" "files.p$2" meet "$rank" "$2" >"process.$rank.txt" 2>&1) &
        pids+=($!)
    done
    for rank in "${!pids[@]}"; do
        wait "${pids[rank]}" || fine=1
        sed -n '/^not ok/p;/does not hold/p' "$work/process.$rank.txt"
    done
    return "$fine"
}
if [[ $MPI == openmpi ]]; then
    mkdir -p "$work/files.alone"
    many "one process" alone ./windows.nompi files.alone
    many "C++, one process" alone ./windows++.nompi files.alone
    many "Fortran, one process" alone ./windows.f.nompi files.alone
    for count in 2 5; do
        try "$count processes without MPI" processes windows.nompi "$count"
        try "$count processes without MPI (C++)" processes windows++.nompi "$count"
    done
fi

# The guide's program, as it is printed there, compiled and run with its own commands.
printed() { # printed LANGUAGE NUMBER: a block of this language
    awk -v begin="\`\`\`$1" -v wanted="$2" '$0 == "```" { inside = 0 } inside && number == wanted; $0 == begin { inside = 1; number++ }' "$guide"
}
as_in_the_guide() {
    local guide_work=$work/guide
    rm -rf "$guide_work"
    mkdir "$guide_work"
    printed c 1 >"$guide_work/program.c"
    printed c 2 >"$guide_work/read.c"
    { printed sh 1 && printed sh 2; } >"$guide_work/commands.sh"
    grep -qx 'mpirun -n 4 ./program' "$guide_work/commands.sh"
    grep -qx 'mpirun -n 4 ./read' "$guide_work/commands.sh"
    sed -i "s/^mpicc/$(basename "$MPICC")/; s/--libs thalweg)/--libs thalweg-$MPI)/; s/^mpirun -n 4/${mpiexec[*]} -n $MPI_RANKS/" "$guide_work/commands.sh"
    (cd "$guide_work" && limited 300 bash -e ./commands.sh)
    [[ $(stat -c %s "$guide_work/T.raw") == $((MPI_RANKS << 21)) ]]
}
try "the guide's programs write and read their file" as_in_the_guide
exit "$failed"
