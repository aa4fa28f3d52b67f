# shellcheck shell=bash
# bench NAME|all [--check]: measures, prints a table, writes build/bench/NAME.json; --check exits 1 where a target is missed;
# --before CHECKOUT [--turns N]: measures in another checkout too, in turns, and prints the ratios of each measurement
source scripts/machine.sh

name=${1:-}
if [[ $name == all ]]; then
    shift
    missed=()
    for run in benches/*/run; do
        one=$(basename "$(dirname "$run")")
        printf '\n# %s\n\n' "$one"
        ./dev bench "$one" "$@" || missed+=("$one")
    done
    [[ ${#missed[@]} == 0 ]] || { echo "dev bench: with missed targets, or not run to the end: ${missed[*]}" >&2 && exit 1; }
    exit 0
fi
if [[ -z $name || ! -x benches/$name/run ]]; then
    echo "usage: ./dev bench NAME|all [--check]; there are:" >&2
    for run in benches/*/run; do
        [[ -x $run ]] && echo "  $(basename "$(dirname "$run")")" >&2
    done
    exit 2
fi
shift
before='' turns=2
if [[ ${1:-} == --before ]]; then
    before=${2:?--before needs another checkout} && shift 2
    [[ -x $before/dev ]] || { echo "dev bench: $before is no checkout: it has no ./dev" >&2 && exit 2; }
    if [[ ${1:-} == --turns ]]; then turns=${2:?--turns needs a number} && shift 2; fi
fi
needs "${build_tools[@]}"
wants "${foreign_packages[@]}" "${bench_packages[@]}"
use_mpi openmpi
needs_rust
needs_python
mkdir -p build/bench
if [[ -n $before ]]; then
    results=$PWD/build/bench/before-after/$name here=$PWD
    rm -rf "$results"
    mkdir -p "$results"
    for ((turn = 1; turn <= turns; turn++)); do
        # Each is the first in every second turn.
        order=("before=$before" "after=$here")
        ((turn % 2)) || order=("after=$here" "before=$before")
        for one in "${order[@]}"; do
            log=$results/${one%%=*}-$turn.log
            (cd "${one#*=}" && ./dev bench "$name" "$@" >"$log" 2>&1) || {
                tail -n 20 "$log" >&2
                echo "dev bench: the bench failed in ${one#*=} (log: $log)" >&2
                exit 1
            }
            cp "${one#*=}/build/bench/$name.json" "$results/${one%%=*}-$turn.json"
        done
    done
    exec "$venv/bin/python" benches/before_after.py "$results"/before-*.json -- "$results"/after-*.json
fi
PYTHON=$venv/bin/python ADIOS1_LIBS=$(link_adios1) BENCH_JSON=$PWD/build/bench/$name.json exec "benches/$name/run" "$@"
