#!/usr/bin/env bash
# Profiles over real MPI, on 4 ranks: every rank is in each, clocks are aligned, the rank that comes late is named.
# shellcheck disable=SC2317  # functions are called by name, through try
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
work=$PWD/build/profile/${MPI:-openmpi}
source tests/checks.sh

source scripts/build.sh
build_all
with_libraries
# shellcheck disable=SC2046  # several flags
"$MPICC" -std=gnu11 -O1 -Wall -Wextra -Werror $(pkg-config --cflags "thalweg-$MPI") tests/mpi/profile.c -o "$work/profile" \
    $(pkg-config --libs "thalweg-$MPI")

# profiled METHOD PARAMETERS: the program with this method, profiled, and what the profile has to say.
profiled() {
    local output=$work/$1.bp
    cat >"$work/$1.xml" <<XML
<adios-config host-language="C">
  <adios-group name="g">
    <var name="rank" type="integer"/>
    <var name="ranks" type="integer"/>
    <global-bounds dimensions="ranks,1024" offsets="rank,0"><var name="v" type="double" dimensions="1,1024"/></global-bounds>
  </adios-group>
  <method group="g" method="$1">$2</method>
</adios-config>
XML
    THALWEG_PROFILE=1 limited 900 "${mpiexec[@]}" -n 4 "$work/profile" "$work/$1.xml" "$output" &&
        "$thalweg" profile "$output" --svg "$output.svg" --chrome "$output.trace" --json >"$output.json" &&
        python3 - "$output.json" <<'PYTHON'
import json, sys
told = json.load(open(sys.argv[1]))
assert [o["step"] for o in told["outputs"]] == [0, 1, 2], told["outputs"]
for output in told["outputs"]:
    assert output["ranks"] == 4 and output["missing"] == 0 and output["error"] is None, output
    assert output["bytes"] > 4 * 8192 and 0.1 < output["seconds"] < 60, output
    assert 0 < output["clock_error_seconds"] < 1, output
phases = {row["phase"]: row for row in told["phases"]}
assert phases["calculation"]["calls"] == 12 and phases["calculation"]["shortest_seconds"] >= 0.06, phases
assert phases["iteration"]["calls"] == 12, phases
assert phases["write"]["bytes"] >= sum(o["bytes"] for o in told["outputs"]), phases
late = told["kept_waiting"][0]
assert late["rank"] == 2 and late["doing"] is None and late["others_waited_seconds"] > 0.6, told["kept_waiting"]
PYTHON
}
for method in MPI 'MPI_AGGREGATE aggregators=2' 'MPI_SCHEDULED num_files=2'; do
    read -r name parameters <<<"$method"
    try "a profile of $name names the rank that came late" profiled "$name" "$parameters"
done
refused() {
    ! THALWEG_PROFILE=perhaps run 2 ./profile MPI.xml none.bp && grep 'THALWEG_PROFILE=perhaps' "$work/stderr.log"
}
try "THALWEG_PROFILE is yes or no" refused
exit "$failed"
