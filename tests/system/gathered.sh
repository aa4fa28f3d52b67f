#!/usr/bin/env bash
# Writes through the preload door to a store that the daemon serves: gathered, and seen, kept and lost as docs/consistency.md says.
# Programs that fork, run others, exit without a close, are killed; a full store; a daemon that dies.
# shellcheck disable=SC2317  # functions are called by name, through try
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
source scripts/build.sh
build_all
work=$PWD/build/gathered
cleanup() {
    [[ ! -e $work/pid ]] || kill "$(<"$work/pid")" 2>/dev/null || true
    umount "$work/small" 2>/dev/null || true
}
trap cleanup EXIT
umount "$work/small" 2>/dev/null || true
source tests/checks.sh

cc -std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror tests/system/preload/gathered.c -o "$work/gathered" -pthread

# A store far away; the daemon's own table says that it lies on this machine.
layouts=(container small_file)
serves() { # serves NAME LAYOUT FOLDER
    printf '[[mount]]\npath = "/mnt/served/%s"\nlayout = "%s"\nstore = "posix:%s"\ncounts = "%s"\n\n' "$1" "$2" "$3" "$work/counts.$1" >>"$work/daemon.toml"
    printf '[[mount]]\npath = "/mnt/served/%s"\nlayout = "%s"\nstore = "hdfs://127.0.0.1:1/x"\n\n' "$1" "$2" >>"$work/served.toml"
}
for layout in "${layouts[@]}"; do
    mkdir "$work/store.$layout"
    serves "$layout" "$layout" "$work/store.$layout"
done
mkdir "$work/small"
full=0
if mount -t tmpfs -o size=1m none "$work/small" 2>/dev/null; then
    full=1
    mkdir "$work/small/store"
    serves full container "$work/small/store"
else
    echo "skipped: a full store through the daemon: no right to mount one"
fi

mkdir -m 700 "$work/daemon"
export THALWEG_DAEMON=$work/daemon/socket
start() {
    local tries
    THALWEG_MOUNTS=$work/daemon.toml "$thalweg" mount --socket-only --foreground >>"$work/daemon.log" 2>&1 &
    echo $! >"$work/pid"
    for ((tries = 0; tries < 100; tries++)); do [[ ! -S $THALWEG_DAEMON ]] || break; sleep 0.1; done
}
stop() { # stop SIGNAL; the shell that started it may be another
    local pid
    pid=$(<"$work/pid")
    kill "-$1" "$pid"
    while [[ -e /proc/$pid && $(awk '{ print $3 }' "/proc/$pid/stat") != Z ]]; do sleep 0.05; done
    rm -f "$THALWEG_DAEMON"
}
start
served() { THALWEG_MOUNTS=$work/served.toml limited 600 "$thalweg" run -- "$@"; }

for layout in "${layouts[@]}"; do many "$layout" served "$work/gathered" "/mnt/served/$layout/calls"; done

# shellcheck disable=SC2016  # the inner shell expands them
shells() { # shells LAYOUT: a shell and its commands share one open file
    served bash -c '{ echo one; printf two; echo; (echo three; echo four | cat); for k in 5 6 7; do echo $k; done; } >"$1" && { echo 8; echo 9; } >>"$1" && cat "$1"' _ "/mnt/served/$1/shell" >"$work/got.shell"
    diff "$work/got.shell" <(printf 'one\ntwo\nthree\nfour\n5\n6\n7\n8\n9\n')
}
left() { # left LAYOUT HOW WANTED: what is there of a file that was left open
    local status=0
    served "$work/gathered" leave "$2" "/mnt/served/$1/left.$2" </dev/null || status=$?
    [[ $2 == kill || $status == 0 ]]
    # shellcheck disable=SC2053  # a pattern
    [[ $(served cat "/mnt/served/$1/left.$2") == $3 ]]
}
few() { # few LAYOUT: a thousand lines of 100 bytes, counted at the store
    rm -f "$work/counts.$1"/*
    served "$work/gathered" lines "/mnt/served/$1/lines" 1000
    [[ $(served cat "/mnt/served/$1/lines" | wc -c) == 100000 ]]
    stop TERM
    start
    local writes
    writes=$(cat "$work/counts.$1"/* | awk '$1 == "Write" { sum += $2 } END { print sum }')
    echo "$writes writes reached the store"
    [[ $writes -le 100 ]]
}
for layout in "${layouts[@]}"; do
    try "a shell and its commands share an open file ($layout)" shells "$layout"
    for how in exit _exit exec dup2; do try "a file that is left open by $how is whole ($layout)" left "$layout" $how "synced left"; done
    # What was synced stays; of the rest perhaps a part.
    try "a process that is killed keeps what it synced ($layout)" left "$layout" kill "synced *"
done
try "a thousand writes of 100 bytes are few at the store" few container

loses() { # a program that loses bytes does not exit with 0, although each of its calls told it
    local status=0
    served "$work/gathered" fails /mnt/served/full/file || status=$?
    [[ $status == 1 ]]
}
[[ $full == 0 ]] || many "full store" loses

# shellcheck disable=SC2016  # the inner shell expands them
dies() { # dies STATUS SAID COMMAND...: the daemon dies while bytes are not sent; what the program says and exits with
    local status=0
    rm -f "$work/go"
    GO=$work/go served "${@:3}" 2>"$work/told" </dev/null &
    local program=$!
    until [[ -e $work/go ]]; do sleep 0.05; done
    stop KILL
    rm "$work/go"
    wait "$program" || status=$?
    start
    echo "exits with $status and says"
    cat "$work/told"
    [[ $status == "$1" ]] && grep -q "$2" "$work/told"
}
# Builtins alone: nothing that is run sends the second line before.
# shellcheck disable=SC2016
waits='exec 5>/mnt/served/container/dies; echo first >&5; echo second >&5; : >"$GO"; while [[ -e $GO ]]; do :; done;'
try "a process whose bytes are lost at its end does not exit with 0" dies 1 '^thalweg: .*dies: written bytes are lost' bash -c "$waits exit 0"
try "nor where dup2 takes the file's number away" dies 1 '^thalweg: .*dies: written bytes are lost' "$work/gathered" dies /mnt/served/container/dies
# Who is told by close decides what that means.
try "a shell that closes the file hears of it" dies 7 'line .*: Input/output error' bash -c "$waits exec 5>&-; exit 7"
exit $failed
