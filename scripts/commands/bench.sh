# shellcheck shell=bash
# bench NAME [--check]: measures, prints a table, writes build/bench/NAME.json; --check exits 1 where a target is missed
source scripts/machine.sh

name=${1:-}
if [[ -z $name || ! -x benches/$name/run ]]; then
    echo "usage: ./dev bench NAME [--check]; there are:" >&2
    for run in benches/*/run; do
        [[ -x $run ]] && echo "  $(basename "$(dirname "$run")")" >&2
    done
    exit 2
fi
shift
needs "${build_tools[@]}"
wants "${foreign_packages[@]}" "${bench_packages[@]}"
use_mpi openmpi
needs_rust
needs_python
mkdir -p build/bench
PYTHON=$venv/bin/python ADIOS1_LIBS=$(link_adios1) BENCH_JSON=$PWD/build/bench/$name.json exec "benches/$name/run" "$@"
