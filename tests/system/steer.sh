#!/usr/bin/env bash
# Steering a run: `thalweg control` changes a program on ranks of MPI, in C and Fortran, at the step that it announces; a run that is dead; the commands of
# docs/guide/steering.md.
# shellcheck disable=SC2317  # functions are called by name, through try
# shellcheck disable=SC2046  # what pkg-config says is several flags
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
work=$PWD/build/steer/${MPI:-openmpi}
source tests/checks.sh
source scripts/build.sh
PATH=$(dirname "$thalweg"):$PATH

source=$PWD/tests/system/native/steer.c
with_libraries
compile() {
    local flags=(-std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror)
    "$MPICC" "${flags[@]}" $(pkg-config --cflags "thalweg-$MPI") "$source" -o "$work/steer" $(pkg-config --libs "thalweg-$MPI")
}
compile_cpp() {
    printf '%s\n' '#include <thalweg.hpp>' \
        'int main() { auto s = thalweg::Session(); bool (thalweg::Session::*w)(const std::string&, const std::string&, std::uint64_t) const = &thalweg::Session::wanted; (void)w; return s.stop_requested(); }' >"$work/steer.cpp"
    g++ -std=c++17 -Wall -Wextra -Werror -D_NOMPI $(pkg-config --cflags thalweg-nompi) "$work/steer.cpp" -o "$work/steer++" $(pkg-config --libs thalweg-nompi)
    "$work/steer++"
}
compile_fortran() {
    local warnings=(-cpp -std=f2018 -O1 -g -Wall -Wextra -Wno-compare-reals -fcheck=all)
    (cd "$work" && "$MPIF90" "${warnings[@]}" $(pkg-config --cflags "thalweg-fortran-$MPI") "${source%.c}.f90" -o steer.f $(pkg-config --libs "thalweg-fortran-$MPI"))
}
try "the program compiles" compile
try "the program compiles (Fortran)" compile_fortran
try "the calls of C++ compile and run" compile_cpp
[[ $failed == 0 ]] || exit 1

# begun FILE: waits until a run has opened the file.
begun() {
    local i
    for ((i = 0; i < 600; i++)); do
        [[ ! -s $1.control.run ]] || return 0
        sleep 0.1
    done
    return 1
}

# steer FILE: what someone does while the program runs; what it is told is kept.
steer() {
    local file=$1 box=$2
    begun "$file"
    thalweg control "$file" --every 10 >"$file.thin"
    sleep 0.5
    thalweg control "$file" --only w --json >"$file.refused" 2>&1 && echo accepted >>"$file.refused"
    thalweg control "$file" --every 1 --only T --box "$box" >"$file.box"
    sleep 0.3
    thalweg control "$file" --method POSIX >"$file.subfiles" 2>&1 && echo accepted >>"$file.subfiles"
    thalweg control "$file" --method 'MPI_COLLECTIVE;aggregators=1' >"$file.method"
    sleep 0.3
    thalweg control "$file" --status >"$file.status"
    # The request is for nobody else.
    [[ $(stat -c %a "$file.control.run") == 600 ]] || echo "not private" >>"$file.status"
    thalweg control "$file" --stop >"$file.stop"
}

as_announced() { # as_announced FILE BOX RANKS
    "${PYTHON:-python3}" - "$@" <<'PYTHON'
import csv, re, subprocess, sys

file, region, ranks, columns = sys.argv[1], sys.argv[2], int(sys.argv[3]), 16
def told(what):
    text = open(f"{file}.{what}").read()
    match = re.fullmatch(r"from output (\d+) \(step (\d+) of the file\) on: (.*)\n", text)
    assert match, text
    return int(match[1]), int(match[2]), match[3]
def thalweg(*words):
    return subprocess.run(["thalweg", *words], check=True, capture_output=True, text=True).stdout
def rows(name):
    return list(csv.reader(thalweg("dump", "--csv", file, name).splitlines()))[1:]

thin, box, stop = told("thin"), told("box"), told("stop")
assert thin[2] == "every=10" and stop[2] == "stop=yes", (thin, stop)
assert box[2].replace("/", "") == f"every=1, only=T, box={region}", box
steps = [int(value) for _, value in rows("step")]
before = [s for s in steps if s < thin[0]]
assert before == list(range(thin[0])), before
thinned = [s for s in steps if thin[0] <= s < box[0]]
assert thinned == [s for s in range(thin[0], box[0]) if s % 10 == 0] and len(thinned) >= 2, (thinned, thin, box)
all_again = [s for s in steps if s >= box[0]]
assert all_again == list(range(box[0], steps[-1] + 1)) and len(all_again) >= 3, all_again
# The announced step of the file is that of the announced output.
assert steps[thin[1]] >= thin[0] > steps[thin[1] - 1] and steps[box[1]] == box[0], (thin, box)
# From there on, T in the box and nothing else; before, everything.
(a, b), (c, d) = [map(int, part.split(":")) for part in region.split(",")]
inside = {(i, j) for i in range(a, b) for j in range(c, d)}
for name in "Tv":
    seen = {}
    for step, i, j, value in rows(name):
        # What no block covers is shown as 0.
        if float(value) == 0 and (step, i, j) != ("0", "0", "0"):
            continue
        seen.setdefault(int(step), set()).add((int(i), int(j)))
        assert abs(float(value) - steps[int(step)] - 0.001 * (int(i) * columns + int(j))) < 1e-9, (name, step, i, j, value)
    everything = {(i, j) for i in range(8 * ranks) for j in range(16)}
    for step in range(len(steps)):
        wanted = everything if step < box[1] else inside if name == "T" else set()
        assert seen.get(step, set()) == wanted, (name, step, len(seen.get(step, set())), len(wanted))
PYTHON
}

refused_and_shown() { # refused_and_shown FILE
    grep -q 'no array "w"' "$1.refused"
    ! grep -q accepted "$1.refused" || return 1
    grep -q 'every=1, only=/\{0,1\}T, box=' "$1.status"
    ! grep -q 'not private' "$1.status" || return 1
    grep -q 'a file cannot have both' "$1.subfiles"
    ! grep -q accepted "$1.subfiles" || return 1
    grep -q 'on: method=MPI_COLLECTIVE;aggregators=1$' "$1.method"
    grep -q 'method=MPI_COLLECTIVE;aggregators=1' "$1.status"
    # Only the changes that held are on record.
    [[ $(thalweg ls "$1" | sed -n '/^changes/,$p' | grep -c '^from step') == 4 ]]
    thalweg ls "$1" | grep -q 'box='
    [[ ! -e $1.control && ! -e $1.control.run ]]
}

steered() { # steered NAME RANKS PROGRAM... FILE
    local name=$1 ranks=$2 file=${*: -1}
    shift 2
    steer "$work/$file" 4:12,2:6 &
    local steering=$!
    many "$name, $ranks ranks" run "$ranks" "$@"
    wait "$steering" || say 1 "someone steers the run ($name)"
    try "what is written changes at the announced output ($name)" as_announced "$work/$file" 4:12,2:6 "$ranks"
    try "refusals, settings and the record ($name)" refused_and_shown "$work/$file"
}
steered "$MPI, asks" "$MPI_RANKS" ./steer asks asks.bp
steered "$MPI, offers" "$MPI_RANKS" ./steer offers offers.bp
ruled() { # T is above 20 from output 20 on, and above 100 from 100 on: known at the open of the third one, and of the next written one
    "$thalweg" ls "$work/rules.bp" >"$work/rules.txt"
    grep -qF 'from step 24 (output 24) on: every=10, only=/T (rule: when max(T) > 20 for 3 steps: every=10, only=T)' "$work/rules.txt" ||
        grep -qF 'from step 24 (output 24) on: every=10, only=T (rule: when max(T) > 20 for 3 steps: every=10, only=T)' "$work/rules.txt"
    grep -qE '^from step 33 \(output 111\) on: stop=yes \(rule: when max\(T\) > 100: stop\)$' "$work/rules.txt"
    "$thalweg" dump --csv "$work/rules.bp" step | sed 1d | cut -d, -f 2 | uniq | diff - <(seq 0 23; seq 30 10 110)
    grep -qE '^double +/?v +24 ' "$work/rules.txt"
}
many "rules, $MPI, $MPI_RANKS ranks" run "$MPI_RANKS" ./steer rules rules.bp
try "what is written changes by the rules of the XML ($MPI)" ruled
steered "Fortran, $MPI" "$MPI_RANKS" ./steer.f fortran.bp

# A staging server takes the outputs over for a while; a second time it does not run any more.
staged() {
    local folder=$work/staged file status=0
    file=$folder/out/run.bp
    mkdir -p "$folder/out"
    printf '%s\n' 'name = steered' "staging = $folder/out" "ahpios_server = localhost:$folder/data" "metadata = localhost:$folder/names" >"$folder/stage.cfg"
    local -x XDG_RUNTIME_DIR=$folder/run
    mkdir -m 0700 "$folder/run"
    thalweg partition create "$folder/stage.cfg"
    thalweg partition start "$folder/stage.cfg"
    run "$MPI_RANKS" ./steer offers "$file" >"$folder/said.txt" &
    local program=$!
    begun "$file"
    local staging="STAGING;partition=$folder/stage.cfg;promise=held"
    {
        thalweg control "$file" --method "$staging" && sleep 0.5 &&
            thalweg control "$file" --method declared && sleep 0.3 &&
            thalweg partition stop "$folder/stage.cfg" &&
            thalweg control "$file" --method "$staging" && sleep 0.3
    } >"$folder/control.txt" || status=$?
    thalweg control "$file" --stop >>"$folder/control.txt" || status=$?
    wait "$program"
    [[ $status == 0 ]]
    grep -q 'method STAGING cannot write output' "$work/stderr.log"
    thalweg ls "$file" >"$folder/ls.txt"
    grep -q "on: method=$staging\$" "$folder/ls.txt"
    grep -qF '(STAGING failed)' "$folder/ls.txt"
    thalweg verify "$file"
    # Each step is there, whoever wrote it.
    thalweg dump --csv "$file" step | sed 1d | cut -d, -f 2 | uniq >"$folder/steps.txt"
    [[ $(wc -l <"$folder/steps.txt") -ge 30 ]]
    diff "$folder/steps.txt" <(seq 0 $(($(wc -l <"$folder/steps.txt") - 1)))
}
try "a run goes over to a staging server and back, and on without one that has ended" staged

# A run that is killed: the command says so, also while it waits.
dead() {
    local pid
    cd "$work"
    mkdir -p dead
    "${mpiexec[@]}" -n 1 ./steer offers dead/run.bp >dead/log.txt 2>&1 &
    local job=$!
    begun dead/run.bp
    thalweg control dead/run.bp --every 1000000 >dead/thin
    thalweg control dead/run.bp --every 1 >dead/waits 2>&1 &
    local waits=$!
    sleep 0.5
    pid=$(thalweg control dead/run.bp --status --json | sed 's/.*"pid":\([0-9]*\).*/\1/')
    thalweg control dead/run.bp --status | grep -q '^waiting *every=1$'
    thalweg control dead/run.bp --stop >dead/second 2>&1 && return 1
    grep -q 'another change waits' dead/second
    thalweg control dead/run.bp --stop --control dead/none 2>/dev/null && return 1
    kill -9 "$pid"
    wait "$waits" && return 1
    grep -q 'has ended or is dead' dead/waits
    wait "$job" || true
    [[ ! -e dead/run.bp.control ]]
    thalweg control dead/run.bp --stop >dead/after 2>&1 && return 1
    grep -q 'has ended or is dead' dead/after
}
try "a run that is dead is told" dead

# The guide's program and commands, as they are printed there.
printed() { # printed LANGUAGE NUMBER: the NUMBER-th block of this language
    awk -v first="\`\`\`$1" -v number="$2" '/^```/ { if (inside) inside = 0; else { inside = 1; if ($0 == first) n++; shown = $0 == first && n == number }; next } inside && shown' \
        docs/guide/steering.md
}
as_in_the_guide() {
    local guide_work=$work/guide
    mkdir -p "$guide_work"
    printed c 1 >"$guide_work/program.c"
    printed sh 1 >"$guide_work/commands.sh"
    grep -qx 'mpirun -n 4 ./program &' "$guide_work/commands.sh"
    sed -i "s/^mpicc/$(basename "$MPICC")/; s/--libs thalweg)/--libs thalweg-$MPI)/; s/^mpirun -n 4/${mpiexec[*]} -n $MPI_RANKS/" "$guide_work/commands.sh"
    # Whoever types the commands sees that the program has begun.
    # shellcheck disable=SC2016  # for the other shell
    echo 'while [[ ! -s run.bp.control.run ]]; do sleep 0.1; done' >>"$guide_work/commands.sh"
    printed sh 2 >>"$guide_work/commands.sh"
    (cd "$guide_work" && limited 300 bash -e ./commands.sh) >"$guide_work/said.txt"
    [[ $(grep -c '^from output [0-9]* (step [0-9]* of the file) on: ' "$guide_work/said.txt") == 3 ]]
    [[ $(grep -c '^from step [0-9]* (output [0-9]*) on: ' "$guide_work/said.txt") == 3 ]]
    grep -q 'every=1, only=v, box=20:40,0:32$' "$guide_work/said.txt"
}
try "the commands of the guide steer its program" as_in_the_guide
exit "$failed"
