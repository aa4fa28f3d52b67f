# shellcheck shell=bash
# watch: builds one crate and runs its tests at each change: watch [--once] CRATE [FILTER]; FILTER chooses tests by name, unit tests too
# All of the workspace is named to cargo, as in every other command: a crate by itself would have other features, and all below it would
# be built again. Tests of other crates that have the same name are built too, but not run. Unit tests of a crate with tests of its
# own are built where a FILTER is given alone: with them those of every crate that stands on it are linked again.
once=0
[[ ${1:-} != --once ]] || { once=1 && shift; }
crate=crates/${1:-}
if [[ -z ${1:-} || ! -f $crate/Cargo.toml ]]; then
    echo "watch: name a folder of crates/: $(cd crates && echo */Cargo.toml */*/Cargo.toml | sed 's|/Cargo.toml||g')" >&2
    exit 2
fi
filter=${2:-}
stamp=$(mktemp)
trap 'rm -f "$stamp" "$stamp.messages"' EXIT

# programs: the test programs of the crate among those that cargo's messages name.
programs() {
    python3 -c '
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    if message["reason"] == "compiler-artifact" and message["executable"] and message["profile"]["test"]:
        if os.path.dirname(message["manifest_path"]) == sys.argv[1]:
            print(message["executable"])
' "$(realpath "$crate")"
}

round() {
    local test program status=0 began=$SECONDS ran=0 targets=()
    for test in "$crate"/tests/*.rs "$crate"/tests/*/main.rs; do
        [[ -f $test ]] || continue
        test=${test%/main.rs}
        targets+=(--test "$(basename "$test" .rs)")
    done
    if [[ -n $filter || ${#targets[@]} == 0 ]]; then targets+=(--lib --bins); fi
    touch "$stamp"
    if cargo test --quiet --workspace "${targets[@]}" --no-run --message-format=json-render-diagnostics >"$stamp.messages"; then
        while IFS= read -r program; do
            ran=$((ran + 1))
            (cd "$crate" && "$program" --quiet ${filter:+"$filter"}) || status=$?
        done < <(programs <"$stamp.messages")
    else
        status=$?
    fi
    echo "watch: $crate: $([[ $status == 0 ]] && echo well || echo "failed, $status"), $ran test programs, $((SECONDS - began)) s"
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
