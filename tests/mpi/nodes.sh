#!/usr/bin/env bash
# A partition whose servers are on three nodes (network namespaces with names of their own, joined by links): servers started with ssh,
# clients over TCP with a token, programs of all nodes that append to one file at once, MPI programs with ranks on all nodes (views, shared
# pointers, atomic mode), holders of locks that are killed or cut off, and servers that are.
# shellcheck disable=SC2317,SC2016  # functions are called by name, through try; inner shells expand
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
work=$PWD/build/nodes
source tests/checks.sh
if [[ $(id -u) != 0 || -z $(command -v ip) || -z $(command -v tc) ]]; then
    echo "skipped: partitions on several nodes: namespaces need root, ip and tc"
    exit 0
fi
source scripts/build.sh
build_all
with_libraries
for program in benches/views/patterns.c tests/mpi/mpiio/nodes.c tests/mpi/mpiio/calls.c; do
    "$MPICC" -std=c11 -D_GNU_SOURCE -O1 -Wall -Wextra -Werror "$program" -o "$work/$(basename "$program" .c)"
done
export THALWEG_MOUNTS=$work/mounts.toml THALWEG_MPIIO=$prefix/lib XDG_RUNTIME_DIR=$work/run
mkdir -m 0700 "$work/run"
state=$work/made
ended() {
    [[ ! -e $work/p.cfg ]] || "$ON" tw0 "$built/thalweg partition stop $work/p.cfg --patience 5" >&2 || true
    scripts/servers/nodes.sh stop "$state"
}
trap ended EXIT
scripts/servers/nodes.sh start "$state" 3 1gbit
# shellcheck disable=SC1091  # made by nodes.sh
source "$state/env"
export PATH=$state/bin:$PATH
{
    printf 'name = p\nstripe_size = 4k\ncache_size = 16M\nlisten = 0.0.0.0\n'
    printf 'ahpios_server = tw%d:%s\n' 0 "$work/data0" 1 "$work/data1" 2 "$work/data2"
    printf 'metadata = tw0:%s\n' "$work/names"
} >"$work/p.cfg"
printf '[[mount]]\npath = "/mnt/p"\nlayout = "partition"\npartition = "%s"\n' "$work/p.cfg" >"$THALWEG_MOUNTS"
at() { # at NODE WORDS...: a command line on a node
    limited 120 "$ON" "$1" "${*:2}"
}
partition() { at "$1" "$built/thalweg partition ${*:2} $work/p.cfg"; }
program() { at "$1" "$built/thalweg run -- ${*:2}"; }

starts() {
    partition tw0 create
    partition tw0 start --by ssh | grep -q 'partition p runs, start 1'
    partition tw2 status --json >"$work/status.txt"
    python3 -c 'import json, sys; told = json.load(sys.stdin); assert [s["host"] for s in told["servers"]] == ["tw0", "tw1", "tw2"], told' <"$work/status.txt"
}
ONLY="" try "ssh starts a server on each node" starts

crosses() {
    seq 1 200000 >"$work/numbers"
    program tw0 cp "$work/numbers" /mnt/p/numbers
    program tw1 cmp "$work/numbers" /mnt/p/numbers
    program tw2 sha256sum /mnt/p/numbers | grep -qF "$(sha256sum <"$work/numbers" | cut -d' ' -f1)"
}
try "what one node writes the others read" crosses

appends() {
    cat >"$work/append.py" <<'P'
import os, sys
node, count = sys.argv[1], int(sys.argv[2])
log = os.open("/mnt/p/log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
for n in range(count):
    line = f"{node} {n} ".encode() + b"x" * (n * 37 % 900) + b"\n"
    assert os.write(log, line) == len(line)
os.close(log)
P
    program tw0 touch /mnt/p/log
    local node jobs=()
    for node in tw0 tw1 tw2; do
        program "$node" python3 "$work/append.py" "$node" 200 &
        jobs+=($!)
    done
    for node in "${jobs[@]}"; do wait "$node"; done
    program tw1 cat /mnt/p/log >"$work/appended"
    python3 - "$work/appended" <<'P'
import sys
left = {node: 0 for node in ("tw0", "tw1", "tw2")}
for line in open(sys.argv[1], "rb").read().splitlines():
    node, n, rest = line.split(b" ", 2)
    assert rest == b"x" * (int(n) * 37 % 900), line
    assert left[node.decode()] == int(n), line
    left[node.decode()] += 1
assert set(left.values()) == {200}, left
P
}
try "programs of three nodes append to one file at once, and no line is lost" appends

locks() { # locks WORD: programs of two nodes add to a number under lockf or flock, through FUSE
    cat >"$work/counter.py" <<'P'
import fcntl, os, sys
path, count, how = sys.argv[1], int(sys.argv[2]), {"lockf": fcntl.lockf, "flock": fcntl.flock}[sys.argv[3]]
for n in range(count):
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    how(file, fcntl.LOCK_EX)
    number = int(os.pread(file, 20, 0) or b"0")
    os.pwrite(file, b"%020d" % (number + 1), 0)
    how(file, fcntl.LOCK_UN)
    os.close(file)
P
    program tw0 touch "/mnt/p/counter.$1"
    local node jobs=()
    for node in tw0 tw1; do
        mkdir -p "$work/at.$node"
        at "$node" "$thalweg mount $work/at.$node --path /mnt/p && python3 $work/counter.py $work/at.$node/counter.$1 60 $1; status=\$?; $thalweg unmount $work/at.$node; exit \$status" &
        jobs+=($!)
    done
    for node in "${jobs[@]}"; do wait "$node"; done
    [[ $(program tw2 cat "/mnt/p/counter.$1") == 00000000000000000120 ]]
}
if [[ -e /dev/fuse ]]; then
    try "a number that programs of two nodes add to under fcntl locks is right, through FUSE" locks lockf
    try "and under flock" locks flock
else
    echo "skipped: locks through FUSE: no /dev/fuse"
fi
refused() {
    local status=0
    program tw0 flock --exclusive /mnt/p/numbers true 2>"$work/told.txt" || status=$?
    [[ $status != 0 ]] && grep -q 'keeps locks at its servers' "$work/told.txt"
}
try "the preload door refuses locks, and says why" refused

across() { # across PROGRAM...: four ranks on three nodes
    local settings=(--mca plm_rsh_agent "$ON" --mca plm_rsh_no_tree_spawn 1 --mca btl "tcp,self"
        --mca btl_tcp_if_include "$NODES_NETWORK" --mca oob_tcp_if_include "$NODES_NETWORK")
    limited 120 "${mpiexec[@]}" -n 4 --host tw0:2,tw1,tw2 "${settings[@]}" "$@"
}
door=("$built/thalweg" run --mpi openmpi --)
ranks() { across "${door[@]}" "$work/patterns" nodes btio 24 /mnt/p/btio | grep -q 'value nodes/btio:read'; }

shared_pointers() {
    # Ranks that see no process of another: the pointer is at a server.
    across env THALWEG_TRANSPORT=tcp unshare --pid --fork --mount-proc "${door[@]}" "$work/nodes" shared /mnt/p/shared >"$work/told.txt" 2>&1
    grep -q '^ok every byte' "$work/told.txt"
}

atomic_mode() {
    across "${door[@]}" "$work/nodes" atomic /mnt/p/atomic 40 60000 >"$work/told.txt" 2>&1
    # Others came in between, or nothing is shown.
    grep -Eq '^ok no access is mixed, [1-9][0-9]* of 160 reads' "$work/told.txt"
}

# one NODE WORDS...: a program of one rank; its output in $work/NODE.txt
one() { at "$1" "${mpiexec[*]} -n 1 ${door[*]} $work/nodes ${*:2}" >"$work/$1.txt" 2>&1; }
# says NODE WORDS SECONDS: waits until it has printed them
says() {
    local n
    for ((n = 0; n < $3 * 10; n++)); do
        ! grep -q "$2" "$work/$1.txt" 2>/dev/null || return 0
        sleep 0.1
    done
    echo "no \"$2\" of $1 within $3 s"
    return 1
}
long=$((32 << 20))
# holds NODE: a program that writes to /mnt/p/held in atomic mode all the time; another one on tw0 waits for $work/flag to write there.
holds() {
    rm -f "$work/flag" "$work/$1.txt" "$work/tw0.txt"
    one "$1" hold /mnt/p/held "$long" &
    one tw0 go /mnt/p/held 4096 "$work/flag" &
    says "$1" '^began' 60
    says tw0 '^open' 60
}
waited() { awk '/^wrote/ { print int($2) }' "$work/tw0.txt"; }

killed_holder() {
    local pid
    # A holder is seldom met between two of its locks.
    for _ in 1 2 3; do
        holds tw2
        pid=$(awk '/^began/ { print $2 }' "$work/tw2.txt")
        kill -STOP "$pid"
        touch "$work/flag"
        sleep 3
        ! grep -q '^wrote' "$work/tw0.txt" || { kill -KILL "$pid" && wait && continue; }
        kill -KILL "$pid"
        says tw0 '^wrote' 20
        wait
        (($(waited) >= 2))
        return
    done
    return 1
}

cut_off_holder() {
    local tag
    tag=$(cut -d' ' -f1 "$state/made")
    holds tw2
    ip -n "$tag-2" link set eth0 down
    touch "$work/flag"
    local status=0
    # Bytes of the first server alone.
    says tw0 '^wrote' 60 && says tw2 'cannot write' 90 || status=$?
    ip -n "$tag-2" link set eth0 up
    wait
    [[ $status == 0 ]] && grep -Eq 'server [01] of partition p on tw[01]' "$work/tw2.txt"
    # And all goes on.
    rm -f "$work/flag"
    touch "$work/flag"
    one tw2 go /mnt/p/held 100000 "$work/flag"
    grep -q '^wrote' "$work/tw2.txt"
}

killed_server() {
    holds tw1
    partition tw0 status --json >"$work/status.txt"
    kill -KILL "$(python3 -c 'import json, sys; print(json.load(sys.stdin)["servers"][0]["pid"])' <"$work/status.txt")"
    touch "$work/flag"
    local status=0
    says tw1 'cannot write' 60 && says tw0 'cannot write' 60 || status=$?
    wait
    [[ $status == 0 ]]
    if grep '^wrote' "$work/tw0.txt"; then return 1; fi
    grep -q 'server 0 of partition p on tw0' "$work/tw1.txt"
    partition tw0 start --by ssh >/dev/null
    one tw1 go /mnt/p/held 100000 "$work/flag"
    grep -q '^wrote' "$work/tw1.txt"
}

if [[ $MPI == openmpi ]]; then
    try "ranks on three nodes write and read views of one file" ranks
    [[ -n ${ONLY:-} ]] || many "ranks on three nodes" across "${door[@]}" "$work/calls" /mnt/p/calls noexchange on_servers
    try "ranks on three nodes share a pointer, and every byte is there once" shared_pointers
    try "atomic accesses of three nodes to the same bytes are never mixed" atomic_mode
    try "the locks of a killed process are released" killed_holder
    try "the locks of a node that is cut off are released, and the node is told so" cut_off_holder
    try "a killed server's locks are lost, and all are told so" killed_server
fi

cut_off() {
    local started=$SECONDS status=0
    ip -n "$(cut -d' ' -f1 "$state/made")-2" link set eth0 down
    program tw0 cat /mnt/p/numbers >"$work/read" 2>"$work/told.txt" || status=$?
    ip -n "$(cut -d' ' -f1 "$state/made")-2" link set eth0 up
    [[ $status != 0 ]] && ((SECONDS - started < 100))
    # What came before the error is right: no byte of the node that was cut off is told to be zero.
    cmp -n "$(stat -c %s "$work/read")" "$work/read" "$work/numbers"
    program tw0 cmp "$work/numbers" /mnt/p/numbers
}
try "a node that is cut off is an error in bounded time, and its bytes are no zeros" cut_off

ends() {
    partition tw1 check | grep 'nothing is wrong'
    partition tw1 stop
    local n
    for n in 0 1 2; do [[ -z $(ip netns pids "$(cut -d' ' -f1 "$state/made")-$n") ]]; done
    # Another start has the files.
    partition tw0 start --by ssh >/dev/null
    program tw2 cmp "$work/numbers" /mnt/p/numbers
    partition tw0 stop
}
spawned() { # the program's MPI starts a server on each node, which serve until they are idle
    printf 'start = spawn\nidle = 5s\n' >>"$work/p.cfg"
    printf '#!/bin/sh\necho "$(uname -n) $*" >>%q\nexec %q "$@"\n' "$work/commands.txt" "$thalweg" >"$work/command"
    chmod +x "$work/command"
    THALWEG_COMMAND=$work/command across "${door[@]}" "$work/nodes" shared /mnt/p/spawned >"$work/told.txt" 2>&1
    grep -q '^ok every byte' "$work/told.txt"
    sort "$work/commands.txt" | diff - <(printf "tw%d partition serve $work/p.cfg --server %d --detached\n" 0 0 1 1 2 2)
    program tw1 cmp "$work/numbers" /mnt/p/numbers
    local n
    for n in {1..300}; do
        # It fails where some have ended.
        partition tw0 status >"$work/status.txt" || true
        if grep -q '^partition .*not started' "$work/status.txt"; then return 0; fi
        sleep 0.1
    done
    return 1
}
try "a check finds nothing wrong, a stop from any node ends all servers, and the next start has the files" ends
[[ $MPI != openmpi ]] || try "an MPI program starts a server on each node, with MPI_Comm_spawn" spawned
exit "$failed"
