#!/usr/bin/env bash
# Method STAGING and the layout `staging` over real MPI: a server of a partition takes outputs over. Each promise; programs that are killed
# after a close; a server that is killed, stopped, or whose disk is slow; readers of what is held; services on the way. The program is that of methods.sh.
# STAGING_SEED=N chooses the moments of kills; LONG=1 kills 200 times instead of 8.
# shellcheck disable=SC2317,SC2046  # functions are called by name, through try; flags are several words
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
work=$PWD/build/staging/${MPI:-openmpi}
source tests/checks.sh
source scripts/build.sh
build_all
with_libraries
export THALWEG_ERRORS=quiet LC_ALL=C XDG_RUNTIME_DIR=$work/run
mkdir -m 0700 "$work/run"
flags=(-std=c11 -D_GNU_SOURCE -O1 -Wall -Wextra)
try "the program compiles" "$MPICC" "${flags[@]}" -Werror $(pkg-config --cflags "thalweg-$MPI") tests/mpi/methods.c -o "$work/methods" \
    $(pkg-config --libs "thalweg-$MPI")
[[ $failed == 0 ]] || exit 1

# One partition; what is staged lies in a folder that is slow for its server alone.
mkdir "$work/out"
printf '%s\n' 'name = stage' "staging = $work/out" "ahpios_server = localhost:$work/data" "metadata = localhost:$work/names" >"$work/stage.cfg"
for rate in 1 4; do
    printf '[[mount]]\npath = "%s"\nlayout = "direct"\nstore = "posix:%s"\nrate = "%sMiB"\n' "$work/out" "$work/out" $rate >"$work/slow$rate.toml"
done
printf '[[mount]]\npath = "%s"\nlayout = "staging"\npartition = "%s"\n' "$work/out" "$work/stage.cfg" >"$work/held.toml"
for promise in none held stored; do
    sed -e "s/METHOD/STAGING/" -e "s#PARAMETERS#partition=$work/stage.cfg;promise=$promise#" tests/mpi/methods.xml >"$work/out/$promise.xml"
done
"$thalweg" partition create "$work/stage.cfg" >&2
server=''
begin() { # begin [MOUNTS]: the server, with these mounts of its own
    THALWEG_MOUNTS=${1:-} "$thalweg" partition start "$work/stage.cfg" >&2
    server=$(pgrep -f "partition serve $work/stage.cfg")
}
end() { "$thalweg" partition stop "$work/stage.cfg" >&2; }
ended() {
    [[ -z $server ]] || kill -CONT "$server" 2>/dev/null || true
    local partition
    for partition in "$work/stage.cfg" "$work/own/own.cfg"; do
        [[ ! -f $partition ]] || "$thalweg" partition stop "$partition" --patience 5 >&2 || true
    done
}
trap ended EXIT
steps() { "$thalweg" ls "$work/out/$1.bp" --json | "${PYTHON:-python3}" -c 'import json,sys; print(json.load(sys.stdin)["steps"])'; }
held() { # held YES|NO: whether the server holds bytes that are not stored
    "$thalweg" partition status "$work/stage.cfg" >"$work/status.txt"
    grep -Eq 'staging: [0-9]+ of at most' "$work/status.txt"
    if [[ $1 == yes ]]; then grep -Eq 'staging: [1-9]' "$work/status.txt"; else grep -Eq 'staging: 0 of' "$work/status.txt"; fi
}

whole() { # whole PROMISE: written, stored when the server has ended, and read back
    begin "$2"
    run "$MPI_RANKS" ./methods write "$work/out" "$1"
    [[ $1 != stored ]] || held no
    end
    "$thalweg" verify "$work/out/$1.bp"
    run 1 ./methods check "$work/out" "$MPI_RANKS" 5 "$1"
}
for promise in none held stored; do
    try "what is written with promise=$promise is stored ($MPI)" whole "$promise" ''
    rm -f "$work/out/$promise.bp"
    try "and by a slow server ($MPI, promise=$promise)" whole "$promise" "$work/slow4.toml"
    rm -f "$work/out/$promise.bp"
done

read_held() { # while the server stores it
    begin "$work/slow1.toml"
    run "$MPI_RANKS" ./methods write "$work/out" held
    held yes
    THALWEG_MOUNTS=$work/held.toml run 1 ./methods check "$work/out" "$MPI_RANKS" 5 held
    end
    run 1 ./methods check "$work/out" "$MPI_RANKS" 5 held
}
try "readers of a mount with layout staging see what is held ($MPI)" read_held
rm -f "$work/out/held.bp"

mended() { # mended FILE: bytes behind the last whole step, of an output that was not closed, are no damage
    "$thalweg" recover "$1" >&2
    "$thalweg" verify "$1"
}
die() { # die PROMISE: a rank is killed in its fourth step, and MPI ends the others; three steps had been closed
    begin "$work/slow4.toml"
    local status=0
    run "$MPI_RANKS" ./methods die "$work/out" "$1" $((MPI_RANKS - 1)) >"$work/said.txt" || status=$?
    [[ $status != 0 ]]
    grep -qx 'closed 2' "$work/said.txt"
    end
    mended "$work/out/$1.bp"
    run 1 ./methods has "$work/out" "$MPI_RANKS" 3 "$1"
}
for promise in held stored; do
    try "closed steps survive the program ($MPI, promise=$promise)" die "$promise"
    rm -f "$work/out/$promise.bp"
done

kill_server() { # kill_server PROMISE: once the program has ended
    begin "$work/slow1.toml"
    run "$MPI_RANKS" ./methods write "$work/out" "$1"
    [[ $1 == stored ]] || sleep 3
    kill -9 "$server"
    while kill -0 "$server" 2>"$work/no.log"; do sleep 0.1; done
    if [[ $1 == stored ]]; then
        run 1 ./methods check "$work/out" "$MPI_RANKS" 5 stored
    else
        # Steps that were stored are whole, and the others are not there.
        local stored
        mended "$work/out/$1.bp"
        stored=$(steps "$1")
        ((0 < stored && stored < 5))
        run 1 ./methods check "$work/out" "$MPI_RANKS" "$stored" "$1"
    fi
}
try "stored steps survive the server ($MPI)" kill_server stored
rm -f "$work/out/stored.bp"
try "a server that is killed leaves the steps that it had stored, each whole ($MPI)" kill_server held
rm -f "$work/out/held.bp"

server_dies() { # while the program writes
    local status=0
    begin ''
    (
        sleep 2
        kill -9 "$server"
    ) &
    limited 120 "${mpiexec[@]}" -n "$MPI_RANKS" "$work/methods" die "$work/out" held 99 >"$work/said.txt" 2>"$work/said.err.txt" || status=$?
    wait
    [[ $status != 0 && $status != 124 ]]
    # Of the rank that says which server it is, MPI may have ended the process.
    grep -Eq 'server 0 of partition stage|a rank was lost' "$work/said.err.txt"
    mended "$work/out/held.bp"
    (($(steps held) > 0))
}
try "a program whose server is killed gets an error ($MPI)" server_dies
rm -f "$work/out/held.bp"

kills=8 seed=${STAGING_SEED:-$((${LONG:-0} == 0 ? 1 : RANDOM))}
[[ ${LONG:-0} == 0 ]] || kills=200
RANDOM=$seed
# Ranks wait for their server, or MPI ends them.
end_program() { # end_program PID
    pkill -9 -f "$work/methods die" || true
    wait "$1" || true
}
killed() { # killed program|server PROMISE MOUNTS MILLISECONDS: steps whose close had returned are there
    local closed there program
    rm -f "$work/out/$2.bp"
    begin "$3"
    "${mpiexec[@]}" -n "$MPI_RANKS" "$work/methods" die "$work/out" "$2" 99 >"$work/said.txt" 2>"$work/said.err.txt" &
    program=$!
    sleep "$(printf '%d.%03d' $(($4 / 1000)) $(($4 % 1000)))"
    if [[ $1 == server ]]; then
        kill -9 "$server"
        wait "$program" || true
    else
        end_program "$program"
        end
    fi
    closed=$(grep -c '^closed' "$work/said.txt" || true)
    echo "$1, promise=$2, after $4 ms: $closed steps closed (STAGING_SEED=$seed)"
    [[ $closed != 0 ]] || return 0
    some=yes
    mended "$work/out/$2.bp"
    there=$(steps "$2")
    ((there >= closed))
    run 1 ./methods has "$work/out" "$MPI_RANKS" "$closed" "$2" || run 1 ./methods check "$work/out" "$MPI_RANKS" "$closed" "$2"
}
at_moments() {
    local n mounts some=no
    for ((n = 0; n < kills; n++)); do
        mounts=$([[ $((n / 3 % 2)) == 0 ]] || echo "$work/slow4.toml")
        case $((n % 3)) in
            0) killed program held "$mounts" $((300 + RANDOM % 1500)) ;;
            1) killed program stored "$mounts" $((300 + RANDOM % 1500)) ;;
            2) killed server stored "$mounts" $((300 + RANDOM % 1500)) ;;
        esac
    done
    [[ $some == yes ]]
}
try "steps whose close had returned are there after $kills kills of program or server ($MPI)" at_moments
rm -f "$work"/out/*.bp

# Services of the group: a library of ours, Python, and a function that fails in one step. $work is the program's working directory.
printf '%s\n' '#include <thalweg.h>' '#include <stdlib.h>' \
    'int twice(const thalweg_block_values *b, size_t n, thalweg_function_result *r) {' \
    '    for (uint64_t i = 0; i < r->bytes / 8; i++) ((double *)r->values)[i] = 2 * ((const double *)b->values)[i];' \
    '    return (int)n - 1; }' \
    'int dies(const thalweg_block_values *b, size_t n, thalweg_function_result *r) { (void)r; if (b->step == 2 && n) abort(); return 0; }' >"$work/f.c"
try "functions of the services compile" cc "${flags[@]}" -Werror -shared -fPIC -I bindings/c/include "$work/f.c" -o "$work/libf.so"
printf 'def largest(field, step):\n    return [field.max(), step]\n' >"$work/f.py"
with_services() { # with_services NAME SERVICES: a configuration with these
    sed "s#</adios-config>#<services group=\"fields\">$2</services></adios-config>#" "$work/out/held.xml" >"$work/out/$1.xml"
}
all='<reorganize blocks="merged"/><histogram var="field" bins="4" min="0" max="1e9"/><function library="libf.so" name="twice" var="field" into="double"/>'
all+='<function python="f.py" name="largest" var="field" into="largest" values="2"/>'
export THALWEG_PYTHON=${PYTHON:-python3}
as_served() { # as_served NAME STEPS: the file of the services has these steps of NAME, and what the services make of them
    "$thalweg" verify "$work/out/$1.served.bp"
    [[ $(steps "$1.served") == "$2" ]]
    "$thalweg" copy "$work/out/$1.bp" "$work/first.bp" --steps ":$2" --force
    "$thalweg" diff "$work/first.bp" "$work/out/$1.served.bp" --only 'field,note,mine,some,deep/plane' # values alone
    "$thalweg" ls -l "$work/out/$1.served.bp" --json >"$work/served.json"
    "${PYTHON:-python3}" - "$work/served.json" "$2" <<'CHECK'
import json, sys
listed = {v["name"]: v for v in json.load(open(sys.argv[1]))["variables"]}
field, double, largest = listed["field"], listed["double"], listed["largest"]
assert field["blocks"] == double["blocks"] == largest["blocks"] == int(sys.argv[2]), listed
assert (double["min"], double["max"]) == (2 * field["min"], 2 * field["max"]), (double, field)
assert largest["max"] == max(field["max"], int(sys.argv[2]) - 1), largest
assert listed["histogram/field"]["shape"] == [4] and listed["histogram/field_edges"]["shape"] == [5]
CHECK
}
served() { # while the program runs, and what is left when the server is told to end
    with_services served "$all"
    begin ''
    run "$MPI_RANKS" ./methods write "$work/out" served
    "$thalweg" partition status "$work/stage.cfg" >"$work/status.txt"
    grep -q "services of group fields: $work/out/served.bp to $work/out/served.served.bp" "$work/status.txt"
    end
    run 1 ./methods check "$work/out" "$MPI_RANKS" 5 served
    as_served served 5
}
try "services write a file of their own beside the program's ($MPI)" served
served_late() { # the program dies, and the storage is slow: the closed steps are served before the server ends
    with_services late "$all"
    begin "$work/slow4.toml"
    local status=0
    run "$MPI_RANKS" ./methods die "$work/out" late $((MPI_RANKS - 1)) >"$work/said.txt" || status=$?
    [[ $status != 0 ]]
    end
    "$thalweg" recover "$work/out/late.bp" >&2
    as_served late 3
}
try "steps that a killed program has closed are served ($MPI)" served_late
served_badly() { # a function that dies: the program hears nothing of it; the process of the services is killed: the rest is served later
    with_services badly '<function library="libf.so" name="dies" var="field"/>'
    begin ''
    run "$MPI_RANKS" ./methods write "$work/out" badly
    end
    run 1 ./methods check "$work/out" "$MPI_RANKS" 5 badly
    "$thalweg" ls "$work/out/badly.served.bp" -a >"$work/said.txt"
    grep -q '/thalweg/services/2.1 .*signal 6' "$work/said.txt"
    [[ $(steps badly.served) == 5 ]]
    with_services killed "$all"
    begin "$work/slow1.toml"
    run "$MPI_RANKS" ./methods write "$work/out" killed
    pkill -9 -f "copy $work/out/killed.bp" || true
    end
    run 1 ./methods check "$work/out" "$MPI_RANKS" 5 killed
    (cd "$work" && "$thalweg" copy out/killed.bp out/killed.served.bp --services out/killed.xml --continue)
    as_served killed 5
}
try "where services fail, the program's file is whole, and the rest is served later ($MPI)" served_badly
killed_services() { # whenever the process of the services is killed: its file has whole steps, and the rest is served later
    local n name program delay hit=0
    for ((n = 0; n < service_kills; n++)); do
        # The first one is met as soon as it is there.
        name=at$n delay=$((n == 0 ? 0 : RANDOM % 600))
        with_services "$name" "$all"
        begin "$([[ $((n % 2)) == 0 ]] || echo "$work/slow4.toml")"
        run "$MPI_RANKS" ./methods write "$work/out" "$name" &
        program=$!
        for _ in {1..400}; do
            if pgrep -f "copy $work/out/$name.bp" >/dev/null; then break; fi
            sleep 0.02
        done
        sleep "$(printf '0.%03d' "$delay")"
        if pkill -9 -f "copy $work/out/$name.bp"; then hit=$((hit + 1)); fi
        wait "$program"
        end
        run 1 ./methods check "$work/out" "$MPI_RANKS" 5 "$name"
        if [[ -e $work/out/$name.served.bp ]]; then "$thalweg" recover "$work/out/$name.served.bp" >&2 || true; fi
        (cd "$work" && "$thalweg" copy "out/$name.bp" "out/$name.served.bp" --services "out/$name.xml" --continue)
        as_served "$name" 5
        rm -rf "$work/out/$name"*
    done
    echo "$hit of $service_kills kills met a process of services (STAGING_SEED=$seed)"
    [[ $hit -gt 0 ]]
}
service_kills=4
[[ ${LONG:-0} == 0 ]] || service_kills=200
try "whole steps are served, and the rest later, after $service_kills kills of services ($MPI)" killed_services
unserved() { # a library that is not there, and a document that asks for nothing known
    with_services none '<function library="./none.so" name="f" var="field"/>'
    begin ''
    run "$MPI_RANKS" ./methods write "$work/out" none
    end
    run 1 ./methods check "$work/out" "$MPI_RANKS" 5 none
    "$thalweg" ls "$work/out/none.served.bp" -a >"$work/said.txt"
    # Three steps, and the next one for all behind it; a process that began behind that (the program was slow) has called it once more.
    [[ $(grep -c '/thalweg/services/[0-9]' "$work/said.txt") =~ ^[45]$ ]]
    grep -q '/thalweg/services/2.1 .*not found' "$work/said.txt"
}
try "a function that is not there is given up, and marks say so ($MPI)" unserved
rm -f "$work"/out/*.bp

own_server() { # of a run: it ends when process 0 has told it so, unless another run had started it
    local folder=$work/own
    local -x PATH=${thalweg%/*}:$PATH # the first open calls the command
    mkdir -p "$folder/out"
    printf '%s\n' 'name = own' 'start = on-demand' "staging = $folder/out" "ahpios_server = localhost:$folder/data" \
        "metadata = localhost:$folder/names" >"$folder/own.cfg"
    sed -e "s/METHOD/STAGING/" -e "s#PARAMETERS#partition=$folder/own.cfg;promise=held#" tests/mpi/methods.xml >"$folder/out/x.xml"
    "$thalweg" partition create "$folder/own.cfg"
    runs() { pgrep -f "partition serve $folder/own.cfg" >/dev/null; }
    FINALIZE=7 run "$MPI_RANKS" ./methods write "$folder/out" x
    sleep 3
    runs
    run "$MPI_RANKS" ./methods write "$folder/out" x
    sleep 3
    runs
    "$thalweg" partition stop "$folder/own.cfg"
    run "$MPI_RANKS" ./methods write "$folder/out" x
    for ((n = 0; n < 200; n++)); do runs || break; sleep 0.1; done
    ((n < 200)) || { echo "its server still runs" && "$thalweg" partition stop "$folder/own.cfg" && return 1; }
    run 1 ./methods check "$folder/out" "$MPI_RANKS" 5 x
}
try "a run's last finalize of process 0 ends the server that the run has started, and no other ($MPI)" own_server

as_in_the_guide() { # its configuration and commands, with folders of ours; a program writes in between
    local page=$PWD/docs/guide/staging.md folder=$work/guide line
    mkdir -p "$folder/run7"
    awk '/^```$/ { n++; next } n == 1' "$page" | sed "s#/lustre/run7#$folder/run7#; s#n9:/local#localhost:$folder#; s#16G#16M#" >"$folder/stage.cfg"
    grep -q "^staging .*$folder/run7" "$folder/stage.cfg"
    sed -n 's/^\$ \(thalweg partition [^#]*\).*/\1/p' "$page" >"$folder/commands.txt"
    [[ $(wc -l <"$folder/commands.txt") == 4 ]]
    sed -e "s/METHOD/STAGING/" -e "s#PARAMETERS#partition=$folder/stage.cfg;promise=held#" tests/mpi/methods.xml >"$folder/run7/x.xml"
    while read -r line; do
        # shellcheck disable=SC2086  # several words
        (cd "$folder" && "$thalweg" ${line#thalweg } >>said.txt </dev/null)
        [[ $line != *start* ]] || run "$MPI_RANKS" ./methods write "$folder/run7" x </dev/null
    done <"$folder/commands.txt"
    grep -Eq 'staging: [0-9]+ of at most 16777216 bytes held' "$folder/said.txt"
    run 1 ./methods check "$folder/run7" "$MPI_RANKS" 5 x
}
try "the guide's configuration and commands ($MPI)" as_in_the_guide
rm -rf "$work/guide"

mistakes() {
    local status=0
    begin ''
    mkdir -p "$work/elsewhere"
    sed -e "s/METHOD/STAGING/" -e "s#PARAMETERS#partition=$work/stage.cfg#" tests/mpi/methods.xml >"$work/elsewhere/x.xml"
    run "$MPI_RANKS" ./methods write "$work/elsewhere" x || status=$?
    [[ $status != 0 ]]
    grep -q "the partition stages files below $work/out" "$work/stderr.log"
    end
    : >"$work/stderr.log"
    status=0
    run "$MPI_RANKS" ./methods write "$work/out" held || status=$?
    [[ $status != 0 ]]
    grep -q 'partition stage is not started' "$work/stderr.log"
}
try "a file elsewhere, and a partition that does not run, are errors that say what to do ($MPI)" mistakes
exit "$failed"
