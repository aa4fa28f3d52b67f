#!/usr/bin/env bash
# ParaView opens what method VTK writes: the list of steps of a Gray-Scott on 4 ranks, its times, extents and values, and draws a slice.
# ./dev test --tools runs it; $work/slice.png is what a person sees.
# shellcheck disable=SC2317  # functions are called by name, through try
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
source scripts/machine.sh
needs paraview python3-paraview xvfb xauth
work=$PWD/build/paraview
source tests/checks.sh
source scripts/build.sh
build_all
with_libraries
make --silent -C examples/gray-scott PREFIX="$prefix" MPICC="$MPICC" OUT="$work"
sed 's|<method group="fields" method="MPI"/>|&<method group="fields" method="VTK">time=time</method>|' examples/gray-scott/gray-scott.xml >"$work/gray-scott.xml"
grep -q VTK "$work/gray-scott.xml"
writes() { (cd "$work" && "${mpiexec[@]}" -n "$MPI_RANKS" ./gray-scott --size 32 --steps 200 --plotgap 50 --checkpoint 0) && [[ -s $work/gs.pvd ]]; }
try "a program writes files of VTK beside a BP file" writes
opens() {
    # ParaView's Python is the system's, and Debian's build draws on X alone.
    env -u PYTHON xvfb-run -a pvpython tests/tools/paraview_slice.py "$work/gs.pvd" "$work/slice.png" >"$work/told.txt" 2>"$work/said.log"
    grep -qx 'times 0.0 50.0 100.0 150.0 200.0' "$work/told.txt" && [[ $(grep -c '^extents 32 32 32 ' "$work/told.txt") == 2 ]]
}
try "ParaView finds its steps and extents" opens
equal() { # The smallest and largest values of the last step are those of the BP file.
    "$thalweg" dump --csv "$work/gs.bp" 'u[-1]' >"$work/u.csv"
    awk -F, 'NR == FNR { if (/^extents/) { split($0, own, " "); low = own[6]; high = own[7] } next }
             FNR > 1 { if (FNR == 2 || $NF < min) min = $NF; if (FNR == 2 || $NF > max) max = $NF }
             END { print min, max, low, high; exit !(max > min && (min - low) ^ 2 < 1e-20 && (max - high) ^ 2 < 1e-20) }' "$work/told.txt" "$work/u.csv"
}
try "its values are those of the BP file" equal
draws() { [[ $(stat -c %s "$work/slice.png") -gt 5000 ]]; }
try "ParaView draws a slice" draws
exit "$failed"
