# shellcheck shell=bash
# test [--long] [--mpi openmpi|mpich] [--tools]: every test; says how many ran, what was skipped and why
#
# Kinds: Rust (cargo test), real MPI (tests/mpi/*.sh), whole system (tests/system/*.sh), beside ADIOS 1.13
# (tests/compare/*.sh), Python (tests/**/test_*.py),
# and pytest for the package in bindings/python, which runs on both MPIs whichever is chosen.
# A script passes with exit code 0. It may print one line per check, "ok NAME" or "not ok NAME"; else it counts as one.
# Any kind says "skipped: WHAT: WHY" on a line of its own. Where CI=true a skip is a failure.
# --tools runs tests/tools/*.sh alone: what builds everything a second time, and takes as long.
# Rust tests with #[ignore = "long"] and scripts that ask for $LONG=1 wait for --long.
source scripts/machine.sh

long=0 mpi=openmpi tools=0
while [[ $# -gt 0 ]]; do
    case $1 in
        --long) long=1 ;;
        --tools) tools=1 ;;
        --mpi) mpi=${2:?--mpi needs a name} && shift ;;
        *) echo "dev test: unknown argument $1" >&2 && exit 2 ;;
    esac
    shift
done

# Scripts try both MPIs, whichever is chosen.
needs "${build_tools[@]}" "${openmpi_packages[@]}" "${mpich_packages[@]}" "${cpp_packages[@]}"
wants "${memory_packages[@]}" "${fault_packages[@]}"
wants "${foreign_packages[@]}" "${slurm_packages[@]}" "${node_packages[@]}"
use_mpi "$mpi"
needs_rust
needs_python
export LONG=$long PYTHON=$venv/bin/python
# The longest proofs are about what is installed.
[[ $long == 0 ]] || BUILD=release
source scripts/build.sh

logs=build/logs/test-$mpi
rm -rf "$logs"
mkdir -p "$logs"
passed=0 failed=0 skipped=0 waiting=0
reasons=()

# What is free for the build, the tests' files and the servers'. Of a full disk the tests tell by chance what failed first.
free() { df --output=avail --block-size=1M . | tail -n 1 | tr -d ' '; }
needed=20000
[[ $(free) -ge $needed || -d target/debug/deps ]] ||
    echo "dev test: $(free) MB are free here; a build and a run take up to $needed (CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=0: 10000)" >&2

# record PASSED FAILED LOG: adds to the totals and gathers the reasons of skips from the log.
record() {
    passed=$((passed + $1)) failed=$((failed + $2))
    local reason
    while IFS= read -r reason; do
        reasons+=("$reason")
        skipped=$((skipped + 1))
    done < <(sed -n 's/^skipped: //p' "$3")
}

rust_tests() {
    local log=$logs/rust.log arguments=(--show-output) status=0 yes no
    [[ $long == 1 ]] && arguments+=(--include-ignored)
    # Fuzz targets are programs without tests, but with examples, which cargo would build.
    local began=$SECONDS tested=(--workspace --exclude thalweg-fuzz)
    echo "== cargo test (log: $log)"
    build_all
    export BUILT=1
    echo "   built after $((SECONDS - began)) s"
    cargo test --quiet "${tested[@]}" "${features[@]}" --no-run
    echo "   and the test programs after $((SECONDS - began)) s"
    # Three programs side by side, each with a log of its own; cargo itself says what doc tests do.
    local side=$PWD/$logs/rust host program
    host=$(rustc -vV | sed -n 's/^host: //p')
    mkdir -p "$side"
    SIDE_BY_SIDE=$side cargo --config "target.$host.runner=['$PWD/scripts/side_by_side.sh']" \
        test "${tested[@]}" "${features[@]}" --no-fail-fast -- "${arguments[@]}" >"$log" 2>&1 || status=$?
    local slot
    for slot in "$side"/slot.*; do flock "$slot" true; done
    cat "$side"/*.log >>"$log"
    yes=$(grep -cE '^test .* \.\.\. ok$' "$log") || true
    no=$(grep -cE '^test .* \.\.\. FAILED$' "$log") || true
    [[ $status == 0 || $no -gt 0 ]] || no=1
    # A test program that dies prints no line for the test that killed it.
    for program in "$side"/*.log; do
        [[ $(cat "${program%.log}.status" 2>/dev/null) != 0 ]] || continue
        status=1
        echo "== $(sed -n '1s/^ *Running //p' "$program") ended with $(cat "${program%.log}.status" 2>/dev/null || echo nothing)"
        if ! grep -qE '^test .* \.\.\. FAILED$' "$program"; then
            no=$((no + 1))
            tail -n 40 "$program"
        fi
    done
    waiting=$((waiting + $(grep -cE '^test .* \.\.\. ignored, long' "$log" || true)))
    # shellcheck disable=SC2016  # $ is sed's
    sed -nE '/\.\.\. ignored, long/d; s/^test (.*) \.\.\. ignored,? ?(.*)$/skipped: \1: \2/p' "$log" >"$logs/rust-ignored.log"
    record "$yes" "$no" "$log"
    record 0 0 "$logs/rust-ignored.log"
    if [[ $status != 0 ]]; then
        sed -n '/^failures:$/,/^test result/p; /^error/,/^$/p' "$log"
    fi
    echo "   $yes passed, $no failed after $((SECONDS - began)) s"
}

# what_failed LOG: each check that failed, with what was shown of it: the indented lines behind it, at most 40.
what_failed() {
    awk '/^not ok / { left = 41 } /^ok / { left = 0 } /^[^ ]/ && !/^not ok / { left = 0 } left > 0 { print; left-- }' "$1"
    # Where none says so, and how the script ended.
    if grep -q '^not ok ' "$1"; then tail -n 10 "$1"; else tail -n 60 "$1"; fi
}

# run_script SCRIPT: its log, and beside it how it ended.
run_script() {
    local log=$1 script=$2 status=0 began=$SECONDS
    # Open MPI keeps what belongs to a run below one folder of the user, which the end of one run may take from the beginning of another.
    local -x OMPI_MCA_orte_tmpdir_base
    OMPI_MCA_orte_tmpdir_base=$(mktemp -d "${TMPDIR:-/tmp}/ompi.XXXXXX")
    "$script" >"$log" 2>&1 || status=$?
    rm -rf "$OMPI_MCA_orte_tmpdir_base"
    echo "$status" >"$log.status"
    echo "== $script: $(grep -c '^ok ' "$log") ok, $(grep -c '^not ok ' "$log") not ok, ended with $status after $((SECONDS - began)) s, $(free) MB free (log: $log)"
}

# Most of a script's time is spent waiting for programs to start, so two run side by side, and what runs already beside them; not with an
# MPI that waits busily.
script_tests() {
    local script log status yes no width
    width=$(($(jobs -rp | wc -l) + 2))
    [[ $mpi == openmpi ]] || width=1
    for script; do
        [[ -x $script ]] || continue
        while [[ $(jobs -rp | wc -l) -ge $width ]]; do wait -n || true; done
        run_script "$(script_log "$script")" "$script" &
    done
    wait
    for script; do
        [[ -x $script ]] || continue
        log=$(script_log "$script")
        status=$(cat "$log.status" 2>/dev/null || echo 1)
        yes=$(grep -c '^ok ' "$log") || true
        no=$(grep -c '^not ok ' "$log") || true
        if [[ $status != 0 ]]; then
            [[ $no -gt 0 ]] || no=1
            echo "== $script failed:"
            what_failed "$log"
        elif [[ $yes == 0 && $no == 0 ]] && ! grep -q '^skipped: ' "$log"; then
            yes=1
        fi
        record "$yes" "$no" "$log"
    done
}
script_log() { echo "$logs/$(basename "$(dirname "$1")")-$(basename "$1" .sh).log"; }

python_tests() {
    local folder log status yes no
    while IFS= read -r folder; do
        log=$logs/python-${folder//\//-}.log
        echo "== python unittest in $folder (log: $log)"
        status=0
        "$PYTHON" -m unittest discover -v -s "$folder" >"$log" 2>&1 || status=$?
        yes=$(grep -cE ' \.\.\. ok$' "$log") || true
        no=$(grep -cE ' \.\.\. (FAIL|ERROR)$' "$log") || true
        if [[ $status != 0 ]]; then
            [[ $no -gt 0 ]] || no=1
            tail -n 60 "$log"
        fi
        sed -nE "s/^(.*) \.\.\. skipped '(.*)'$/skipped: \1: \2/p" "$log" >>"$log.skipped"
        record "$yes" "$no" "$log.skipped"
        echo "   $yes passed, $no failed"
    done < <(find tests -name 'test_*.py' -printf '%h\n' 2>/dev/null | sort -u)
}

# The package is installed into build/venv as users install it.
package_tests() {
    local log=$PWD/$logs/pytest.log status=0 yes no
    echo "== pytest in bindings/python (log: $log)"
    local began=$SECONDS
    MATURIN_PEP517_ARGS="--profile $BUILD" needs_thalweg_in_python
    echo "   installed after $((SECONDS - began)) s"
    # What the other tests have installed, and the command: the examples in C are compiled against it.
    local prefix=$PWD/build/c-api/prefix
    install -D "$thalweg" "$prefix/bin/thalweg"
    [[ ! -x $thalweg-convert ]] || install "$thalweg-convert" "$prefix/bin/thalweg-convert"
    (cd bindings/python && PREFIX=$prefix "$PYTHON" -m pytest -v -rs -p no:cacheprovider) >"$log" 2>&1 || status=$?
    yes=$(grep -cE '^tests/[^ ]+::.* PASSED ' "$log") || true
    no=$(grep -cE '^tests/[^ ]+::.* (FAILED|ERROR) ' "$log") || true
    if [[ $status != 0 ]]; then
        [[ $no -gt 0 ]] || no=1
        tail -n 60 "$log"
    fi
    sed -nE 's/^SKIPPED \[[0-9]+\] ([^ ]+): (.*)$/skipped: \1: \2/p' "$log" >"$log.skipped"
    record "$yes" "$no" "$log.skipped"
    echo "   $yes passed, $no failed after $((SECONDS - began)) s"
}

# shellcheck disable=SC2030,SC2031,SC1091  # the shell apart hands its counts over in a file
if [[ $tools == 1 ]]; then
    script_tests tests/tools/*.sh
else
    rust_tests
    # What they all install, once.
    bindings/c/install.sh build/c-api/prefix
    # A shell of its own, which hands over what it has counted.
    (
        passed=0 failed=0 skipped=0 reasons=()
        python_tests
        package_tests
        declare -p passed failed skipped reasons >"$logs/python.counted"
    ) >"$logs/python.log" 2>&1 &
    [[ $mpi == openmpi ]] || wait
    # The longest ones first.
    script_tests tests/compare/*.sh tests/mpi/*.sh tests/system/*.sh
    cat "$logs/python.log"
    if [[ -s $logs/python.counted ]]; then
        before=("$passed" "$failed" "$skipped" "${reasons[@]}")
        source "$logs/python.counted"
        passed=$((passed + before[0])) failed=$((failed + before[1])) skipped=$((skipped + before[2]))
        reasons+=("${before[@]:3}")
    else
        echo "the tests in Python ended before their last line"
        failed=$((failed + 1))
    fi
fi

echo
[[ $waiting == 0 ]] || echo "$waiting long tests wait for ./dev test --long"
if [[ $skipped -gt 0 ]]; then
    echo "$skipped skipped:"
    printf '  %s\n' "${reasons[@]}"
    if [[ ${CI:-} == true ]]; then
        echo "CI=true: each skip counts as a failure"
        failed=$((failed + skipped))
    fi
fi
echo "$passed passed, $failed failed"
[[ $failed == 0 && $passed -gt 0 ]]
