#!/usr/bin/env bash
# The page of method SOCKET in a browser, headless Chromium, on a Gray-Scott that runs: it shows the middle plane of the first array, and
# its elements are those that the run wrote. ./dev test --tools runs it; $work/page.png is what a person sees.
# shellcheck disable=SC2317  # functions are called by name, through try
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
source scripts/machine.sh
needs chromium
needs_python
PYTHON=$venv/bin/python
work=$PWD/build/viewer
source tests/checks.sh
source scripts/build.sh
build_all
with_libraries
export THALWEG_COMMAND=$thalweg
make --silent -C examples/gray-scott PREFIX="$prefix" MPICC="$MPICC" OUT="$work"
sed 's|<method group="fields" method="MPI"/>|&<method group="fields" method="SOCKET"/>|' examples/gray-scott/gray-scott.xml >"$work/gray-scott.xml"
grep -q SOCKET "$work/gray-scott.xml"

(cd "$work" && exec "${mpiexec[@]}" -n "$MPI_RANKS" ./gray-scott --size 64 --steps 1000000 --plotgap 20 --checkpoint 0) >"$work/run.log" 2>&1 &
run=$!
trap 'kill "$run" 2>/dev/null || true; wait "$run" || true' EXIT
url=
for _ in {1..300}; do
    url=$(sed -nE 's/.*can be seen at (http:[^ ]+).*/\1/p' "$work/run.log" | head -n 1)
    [[ -z $url ]] || break
    sleep 0.1
done
shows() {
    [[ -n $url ]]
    "$PYTHON" tests/tools/viewer_page.py "$url" "$work/page.png" >"$work/told.txt"
    grep -q '"variable": "u"' "$work/told.txt" && grep -q '"count": "64,64"' "$work/told.txt" && grep -q '"state": "connected"' "$work/told.txt"
    grep -q '"arrays": "u,v"' "$work/told.txt" && grep -q '"then": {[^}]*"variable": "v"' "$work/told.txt"
    # More than the ground and a line.
    [[ $(sed -nE 's/.*"colours": ([0-9]+).*/\1/p' "$work/told.txt") -gt 50 ]]
}
try "the page shows the arrays of a running program" shows
# equal WHAT SLICE: the sum that the page has, and that of the file. WHAT: what of told.txt it is.
equal() {
    local step sum
    step=$(sed -E "$1" "$work/told.txt" | sed -nE 's/.*"step": "([0-9]+)".*/\1/p')
    sum=$(sed -E "$1" "$work/told.txt" | sed -nE 's/.*"sum": "([0-9.e+]+)".*/\1/p')
    "$thalweg" dump --csv "$work/gs.bp" "${2//STEP/$step}" >"$work/plane.csv"
    awk -F, -v sum="$sum" 'NR > 1 { all += $NF; n++ } END { print n, all, sum; exit !(n == 4096 && all > 0 && (all - sum) ^ 2 < 1e-6 * all ^ 2) }' "$work/plane.csv"
}
try "its elements are those in the file" equal 's/"then".*//' 'u[STEP, 32, :, :]'
try "and those of another plane, too" equal 's/.*"then"//' 'v[STEP, :, :, 32]'
goes_on() {
    local before
    before=$("$thalweg" ls "$work/gs.bp" | wc -l)
    [[ $before -gt 0 ]] && kill -0 "$run"
}
try "the run goes on" goes_on
exit "$failed"
