#!/usr/bin/env bash
# N processes write one file on a real HDFS, which alone lets one process write a file and only at its end: four processes write a
# checkpoint of strided records through thalweg_file_ calls into a `container` mount, and each reads what another wrote. How
# large a record is makes no difference to what the store is asked; with one copy of each block and with three. Then the same by a
# program that knows nothing of all this, through the preload door and the local daemon.
# shellcheck disable=SC2317  # functions are called by name, through try
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
# shellcheck source-path=SCRIPTDIR/../..
source scripts/machine.sh
# shellcheck disable=SC2154  # of machine.sh and build.sh
[[ ${CI:-} != true ]] || wants "${server_packages[@]}"
work=$PWD/build/n1
source tests/checks.sh
unset HADOOP_CONF_DIR HADOOP_HOME
cleanup() {
    [[ -z ${daemon:-} ]] || kill "$daemon" 2>/dev/null || true
    scripts/servers/hdfs.sh stop "$work/hdfs"
    rm -rf "$work"/hdfs/data-*/blocks
}
trap cleanup EXIT

for command in java curl; do
    command -v $command >/dev/null || { echo "skipped: N to 1 on HDFS: there is no $command" && exit 0; }
done
if [[ ! -f $(echo build/servers/hdfs-*/complete) ]] && ! command -v mvn >/dev/null; then
    echo "skipped: N to 1 on HDFS: there is no mvn to fetch the servers with" && exit 0
fi
# shellcheck source-path=SCRIPTDIR/../..
source scripts/build.sh
build_all
cc -std=c11 -D_GNU_SOURCE -D_NOMPI -O2 -g -Wall -Wextra -Werror -I bindings/c/include tests/system/files/files.c -o "$work/files" \
    "$built/libthalweg_core.so" -Wl,-rpath,"$work"
core_into "$work"
cc -std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror tests/system/preload/calls.c -o "$work/calls" -pthread
try "the servers start" scripts/servers/hdfs.sh start "$work/hdfs" 3
[[ $failed == 0 ]] || exit 1
# shellcheck disable=SC1091  # made by hdfs.sh
source "$work/hdfs/env"

# Each replication and each record has a mount, so that its calls are counted alone.
export THALWEG_MOUNTS=$work/mounts.toml
units=(47001 49152 1048576)
for way in 1 3 door; do
    for unit in "${units[@]}"; do
        printf '[[mount]]\npath = "/n1/%s/%s"\nlayout = "container"\nstore = "%s/n1-%s-%s?replication=%s"\ncounts = "%s"\n\n' \
            $way "$unit" "$TEST_HDFS" $way "$unit" ${way/door/1} "$work/counts/$way.$unit" >>"$THALWEG_MOUNTS"
    done
done

together() { # together COMMAND FILE UNIT ROUNDS: four processes of "${program[@]}" at once; what they print goes to said.RANK
    local rank pids=() pid status=0
    for rank in 0 1 2 3; do
        "${program[@]}" "$1" "$2" "$rank" 4 "$3" "$4" >"$work/said.$rank" &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid" || status=1; done
    cat "$work"/said.*
    ! grep -q '^not ok' "$work"/said.* && return "$status"
}

# calls FOLDER: all operations that the counts of a folder tell of. But for what processes ask that begin at one moment: each tries to
# make folders that another makes, and fails, 21 to 30 of some 175 operations at any unit, by chance. And but for `stat`: who looks at a
# container and finds other writers than at the last look asks whether its stamp is still there. Through the daemon the four share
# what was seen last, so that it depends on who comes between whom: 4 to 7 times of some 120 operations at each unit, in four runs.
calls() {
    cat "$1"/* | awk '$1 !~ /^(store|BytesRead|BytesWritten|Stat|MakeFolder|Failed)$/ { sum += $2 } END { print sum }'
}

# Of each process; not at a multiple of its buffer, where the heads of records would decide.
checkpoint=$(((${LONG:-0} == 1 ? 63 : 15) << 20))
# Where it is looked for by programs that are run.
export THALWEG_DAEMON=$work/daemon/socket
mkdir -m 700 "$work/daemon"
"$thalweg" mount --socket-only --foreground >>"$work/daemon.log" 2>&1 &
daemon=$!
for ((tries = 0; tries < 100; tries++)); do [[ ! -S $THALWEG_DAEMON ]] || break; sleep 0.1; done

for way in 1 3 door; do
    program=("$work/files") told="replication $way"
    [[ $way != door ]] || program=("$thalweg" run -- "$work/calls") told="through the preload door"
    for unit in "${units[@]}"; do
        file=/n1/$way/$unit/checkpoint rounds=$((checkpoint / unit))
        # As codes do: one makes the file, then all open it.
        "${program[@]}" strided "$file" 0 4 "$unit" 0 >>"$work/made.log" 2>&1 || true
        try "four processes write one file ($unit bytes a record, $told)" together strided "$file" "$unit" $rounds
        # Only what the writing asked for: later calls of the daemon count in the same file.
        mkdir -p "$work/counts/written" && cp -r "$work/counts/$way.$unit" "$work/counts/written/" && rm -f "$work/counts/$way.$unit"/*
        try "each reads what another wrote ($unit bytes a record, $told)" together shifted "$file" "$unit" $rounds
    done
    counted=()
    for unit in "${units[@]}"; do counted+=("$(calls "$work/counts/written/$way.$unit")"); done
    echo "$told: store calls at ${units[*]} bytes a record: ${counted[*]}" >&2
    # Processes that begin at one moment look once more at marks that are being made: a call or two in a hundred.
    within() { # the most and the least of them differ by less than 5 %
        printf '%s\n' "${counted[@]}" | sort -n |
            awk 'NR == 1 { least = $1 } { most = $1 } END { exit !(NR == 3 && least > 0 && (most - least) * 20 < least) }'
    }
    try "the size of a record changes the number of store calls by less than 5 % ($told)" within
    # What is left out above, because chance decides how often it happens, has a limit of its own: several times of what four
    # processes need at worst (Stat 7, MakeFolder and Failed 30 each), and far less than one for each record would be, which
    # is 1,300 at the smallest record.
    few() {
        local unit operation most count status=0
        for unit in "${units[@]}"; do
            for operation in Stat:100 MakeFolder:150 Failed:150; do
                most=${operation#*:} operation=${operation%:*}
                count=$(cat "$work/counts/written/$way.$unit"/* | awk -v operation="$operation" '$1 == operation { sum += $2 } END { print sum + 0 }')
                echo "$unit bytes a record: $operation $count times, at most $most"
                ((count <= most)) || status=1
            done
        done
        return "$status"
    }
    try "what processes ask by chance does not grow with the number of records ($told)" few
done

replicated() { # replicated UNIT COPIES: what the name node says of the file's stamp
    local said
    said=$(curl --silent "$TEST_WEBHDFS/webhdfs/v1/n1-$2-$1/checkpoint?op=GETFILESTATUS")
    echo "$said"
    [[ $said == *"\"replication\":$2"* ]]
}
try "as many copies as the mount says (1)" replicated 47001 1
try "as many copies as the mount says (3)" replicated 47001 3
try "the checkpoint is whole" "$thalweg" layout check /n1/3/47001/checkpoint
flattened() { # one stream of bytes again, beside what was written record by record
    "$thalweg" layout flatten /n1/3/47001/checkpoint "$work/flat" && [[ $(stat -c %s "$work/flat") == $((4 * 47001 * (checkpoint / 47001))) ]]
}
try "flattened, it is a plain file of its length" flattened
exit $failed
