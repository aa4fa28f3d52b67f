# shellcheck shell=bash
# watch: builds one crate and runs its tests at each change: watch [--once] CRATE [FILTER]; FILTER also runs unit tests of such names
# All of the workspace is named to cargo, as in every other command: a crate by itself would have other features, and all below it would
# be built again. What is built and run is the crate's own tests/*.rs alone.
once=0
[[ ${1:-} != --once ]] || { once=1 && shift; }
crate=crates/${1:-}
if [[ -z ${1:-} || ! -f $crate/Cargo.toml ]]; then
    echo "watch: name a folder of crates/: $(cd crates && echo */Cargo.toml */*/Cargo.toml | sed 's|/Cargo.toml||g')" >&2
    exit 2
fi
filter=${2:-}
stamp=$(mktemp)
trap 'rm -f "$stamp"' EXIT

tests=()
round() {
    local file status=0 began=$SECONDS
    tests=()
    for file in "$crate"/tests/*.rs; do [[ ! -f $file ]] || tests+=(--test "$(basename "$file" .rs)"); done
    touch "$stamp"
    if [[ ${#tests[@]} -gt 0 ]]; then cargo test --quiet --workspace "${tests[@]}" -- ${filter:+"$filter"} || status=$?; fi
    if [[ $status == 0 && -n $filter ]]; then cargo test --quiet --workspace --lib -- "$filter" || status=$?; fi
    if [[ $status == 0 && ${#tests[@]} == 0 && -z $filter ]]; then cargo build --quiet --workspace --lib || status=$?; fi
    echo "watch: $crate: $([[ $status == 0 ]] && echo well || echo "failed, $status"), $((SECONDS - began)) s"
    return "$status"
}

if [[ $once == 1 ]]; then
    round
    exit
fi
while true; do
    round || true
    until [[ -n $(find "$crate" \( -name '*.rs' -o -name Cargo.toml \) -newer "$stamp" -print -quit) ]]; do sleep 0.5; done
done
