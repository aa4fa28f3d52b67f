#!/usr/bin/env bash
# Partitions of real server processes: their life, from one start to the next; programs of others and the exerciser on them; BP files;
# clients that cannot reach the storage; clients of other hosts (TCP with a token); servers and clients that are killed or stopped.
#
#   LONG=1 kills 100 times instead of 10
# shellcheck disable=SC2317,SC2016  # functions are called by name, through try; inner shells expand
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
work=$PWD/build/partition
source tests/checks.sh
source scripts/build.sh
build_all
flags=(-std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror)
cc "${flags[@]}" tests/system/exercise.c -o "$work/exercise"
cc "${flags[@]}" -D_NOMPI -I bindings/c/include tests/system/partition/acknowledged.c -o "$work/acknowledged" "$built/libthalweg_core.so" -Wl,-rpath,"$work"
core_into "$work"
thalweg=$built/thalweg
export THALWEG_MOUNTS=$work/mounts.toml
# Sockets of this test alone.
export XDG_RUNTIME_DIR=$work/run
mkdir -m 0700 "$work/run"

# configured NAME [LINE...]: a partition of three servers, and a mount /mnt/NAME
configured() {
    local name=$1
    shift
    {
        printf 'name = %s\nstripe_size = 4k\ncache_size = 2M\nnr_ios = 3\n' "$name"
        printf 'ahpios_server = localhost:%s\n' "$work/$name.data"{0,1,2}
        printf 'metadata = localhost:%s\n' "$work/$name.names"
        (($# == 0)) || printf '%s\n' "$@"
    } >"$work/$name.cfg"
    printf '[[mount]]\npath = "/mnt/%s"\nlayout = "partition"\npartition = "%s"\n\n' "$name" "$work/$name.cfg" >>"$THALWEG_MOUNTS"
}
partition() { limited 300 "$thalweg" partition "$@"; }
on() { limited 600 "$thalweg" run -- "$@"; }
pid_of() { # pid_of NAME SERVER
    partition status "$work/$1.cfg" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["servers"][int(sys.argv[1])]["pid"])' "$2"
}
ended() {
    local file
    for file in "$work"/*.cfg; do "$thalweg" partition stop "$file" --patience 5 >&2 || true; done
}
trap ended EXIT
# A function fails with the first of its commands that fails, but not with one behind an exclamation mark.
no() { if "$@"; then return 1; fi; }
# fails STATUS WORDS COMMAND...
fails() {
    local wanted=$1 words=$2 status=0
    shift 2
    "$@" >"$work/told.log" 2>&1 || status=$?
    [[ $status == "$wanted" ]] && grep -qF -- "$words" "$work/told.log"
}

configured p
not_yet() {
    fails 3 'there is no partition p' partition start "$work/p.cfg"
    partition create "$work/p.cfg"
    fails 3 'there is a partition p already' partition create "$work/p.cfg"
    fails 1 'p is not started: thalweg partition start p' on cat /mnt/p/x || fails 1 'Input/output error' on cat /mnt/p/x
    partition start "$work/p.cfg" --print >"$work/printed.txt"
    [[ $(grep -c "partition serve $work/p.cfg --server" "$work/printed.txt") == 3 ]]
}
try "a partition is created once, and not used before it is started" not_yet
begins() {
    partition start "$work/p.cfg" | grep -q 'partition p runs, start 1'
    partition start "$work/p.cfg" | grep -q 'start 1'
    partition status "$work/p.cfg" | grep -c 'open files' | grep -qx 3
    partition list "$work/.thalweg-partitions" | grep -q '^p: 3 servers, stripes of 4096 bytes, started'
    fails 3 'is started' partition remove "$work/p.cfg"
}
try "its servers start once, and say what they do" begins
# of NAME PYTHON: an expression of a partition's state; `servers` are those of its servers.
of() {
    partition status "$work/$1.cfg" --json >"$work/state.json" || true
    python3 -c 'import json, sys
servers = [server["state"] for server in json.load(open(sys.argv[1]))["servers"]]
print(eval(sys.argv[2]))' "$work/state.json" "$2"
}
hits() {
    local before missed after
    on bash -c 'head -c 100000 /dev/zero >/mnt/p/cached && cat /mnt/p/cached >/dev/null'
    before=$(of p 'sum(s["hits"] for s in servers)')
    missed=$(of p 'sum(s["misses"] for s in servers)')
    on cat /mnt/p/cached | wc -c | grep -qx 100000
    after=$(of p 'sum(s["hits"] for s in servers)')
    # A hit for each block at least, and no block that is read from the storage again.
    echo "hits $before, then $after; misses $missed"
    [[ $after -gt $before && $(of p 'sum(s["misses"] for s in servers)') == "$missed" ]]
    partition status "$work/p.cfg" | grep -q "blocks of 64 KiB in the cache, [1-9][0-9]* hits"
    on rm /mnt/p/cached
}
try "blocks are found in the cache by another program, and counted" hits
clients() {
    cat >"$work/clients.py" <<'P'
import json, os, subprocess, sys, time
program, configuration, name, wanted = sys.argv[1:5]
with open(f"/mnt/{name}/clients", "wb") as file:
    file.write(b"x" * 1_000_000)
    file.flush()
    with open(f"/mnt/{name}/clients", "rb") as again:
        assert again.read() == b"x" * 1_000_000
    out = subprocess.run([program, "partition", "status", configuration, "--json"], check=True, capture_output=True).stdout
    clients = [client for server in json.loads(out)["servers"] for client in server["state"]["clients"]]
    ours = [client for client in clients if f"process {os.getpid()} over a Unix socket" in client["client"]]
    assert {client["mount"] for client in ours} == {"/data", "/names"}, clients
    data = {client["bytes"] for client in ours if client["mount"] == "/data"}
    assert len(data) == 1 and wanted in data.pop(), clients
os.remove(f"/mnt/{name}/clients")
P
    says() { on python3 "$work/clients.py" "$thalweg" "$work/$1.cfg" "$1" "$2"; }
    local pulled="long writes are read from the client's memory" shared='long reads pass through shared memory'
    says p "$pulled; $shared"
    THALWEG_TRANSPORT=memfd says p "long writes pass through shared memory; $shared"
    THALWEG_TRANSPORT=memory says p "$pulled; long reads are sent"
    THALWEG_TRANSPORT=unix says p 'long writes are sent: the client has not asked'
    THALWEG_TRANSPORT=ring on cat /mnt/p/x 2>"$work/told.log" || true
    grep -qF 'THALWEG_TRANSPORT=ring: expected auto, memfd, memory, unix or tcp' "$work/told.log" || fails 1 'THALWEG_TRANSPORT=ring' env THALWEG_TRANSPORT=ring "$thalweg" run -- cat /mnt/p/x
    configured w 'transport = memory'
    partition create "$work/w.cfg"
    partition start "$work/w.cfg"
    says w "$pulled; long reads are sent"
    THALWEG_TRANSPORT=auto says w "$pulled; $shared"
    partition stop "$work/w.cfg"
}
try "the state of a server has its clients and how their bytes come" clients
if unshare --pid --fork --mount-proc true 2>/dev/null; then
    # Neither side sees the other's process.
    container() {
        unshare --pid --fork --mount-proc "$thalweg" run -- bash -c 'seq 1 30000 >/mnt/p/container && cmp <(seq 1 30000) /mnt/p/container'
        on bash -c 'cmp <(seq 1 30000) /mnt/p/container && rm /mnt/p/container'
    }
    try "a program in a container reaches the servers of its host over their sockets" container
else
    echo "skipped: a program in a PID namespace of its own: unshare is not allowed here"
fi
named() {
    on cp crates/bp/tests/golden/four-steps.bp /mnt/p/named.bp
    "$thalweg" ls crates/bp/tests/golden/four-steps.bp >"$work/named.txt"
    # By a partition's name: of the mount table, of a variable, of the folder; the mount table may be empty.
    "$thalweg" ls thalweg:p/named.bp | cmp - "$work/named.txt"
    THALWEG_MOUNTS='' THALWEG_PARTITION=$work/p.cfg "$thalweg" ls thalweg:p/./named.bp | cmp - "$work/named.txt"
    mkdir -p "$work/here"
    cp "$work/p.cfg" "$work/here/filesystem.cfg"
    printf 'registry = %s\n' "$work/.thalweg-partitions" >>"$work/here/filesystem.cfg"
    (cd "$work/here" && THALWEG_MOUNTS='' "$thalweg" ls thalweg:p/named.bp | cmp - "$work/named.txt")
    (cd "$work/here" && "$thalweg" partition status | grep -c 'open files' | grep -qx 3)
    (cd "$work" && THALWEG_PARTITION=p.cfg "$thalweg" partition status | grep -c 'open files' | grep -qx 3)
    fails 3 'No such file' env THALWEG_MOUNTS= "$thalweg" ls thalweg:p/named.bp
    fails 3 'THALWEG_PARTITION names a configuration that does not exist' env THALWEG_PARTITION=/none.cfg "$thalweg" ls thalweg:p/named.bp
    on rm /mnt/p/named.bp
}
try "paths and commands name a partition without the mount table" named
differs() {
    sed 's/4k/8k/' "$work/p.cfg" >"$work/q.cfg"
    fails 3 'stripe_size = 8192, but the partition p was created with 4096' partition start "$work/q.cfg"
    rm "$work/q.cfg"
}
try "a static setting that differs from the registry's is an error with both values" differs

programs() {
    on bash -c 'mkdir /mnt/p/sub && cd /mnt/p/sub && seq 1 20000 >a && cp a b && sed -i s/777/thread/ b && grep -c thread b && sort -u a | wc -l &&
        tar -cf t.tar a b && mkdir out && tar -xf t.tar -C out && cmp out/a a && mv out/b c && ls -l && rm -r out a && ln -s b link && cat link | tail -n 1 &&
        dd if=b of=b conv=notrunc bs=1 seek=3 count=5 status=none && truncate -s 10 c && wc -c c && gzip -k b && zcat b.gz | cmp - b && du -sb b'
}
try "programs of others work on it" programs
# Connections are none of the program's: neither do they take numbers that it expects, nor does it close them.
descriptors() {
    on python3 - <<'P'
import os
with open("/mnt/p/first", "w") as f: f.write("first")
low = os.open("/dev/null", os.O_RDONLY)
assert low == 3, low
os.close(low)
f = open("/mnt/p/second", "wb")
for n in range(3, 70000):
    if n != f.fileno():
        try: os.close(n)
        except OSError: pass
plain = [open(f"/dev/null", "rb") for _ in range(5)]
f.write(b"x" * 100000)
f.close()
assert open("/mnt/p/second", "rb").read() == b"x" * 100000
assert open("/mnt/p/first").read() == "first"
if os.fork() == 0:
    with open("/mnt/p/third", "w") as f: f.write("third")
    os._exit(0)
os.wait()
assert open("/mnt/p/third").read() == "third" and open("/mnt/p/first").read() == "first"
P
}
try "connections are none of the program's descriptors" descriptors
same() {
    local -a body=(bash -c 'cd "$1" && sqlite3 db "create table t(a, b); insert into t values (1, 2), (3, 4); select sum(a * b) from t; pragma integrity_check;"' _)
    mkdir -p "$work/plain"
    on "${body[@]}" /mnt/p >"$work/got.txt"
    "${body[@]}" "$work/plain" >"$work/expected.txt"
    diff "$work/expected.txt" "$work/got.txt"
}
if command -v sqlite3 >/dev/null; then try "a database is as on a plain folder" same; else echo "skipped: sqlite3 on a partition: it is not installed"; fi
try "the exerciser finds no difference" on "$work/exercise" -s 3 -n 1500 /mnt/p/exercised

# A client whose view of the filesystem lacks the storage: all its bytes go through the servers.
hidden() {
    on unshare -m bash -c 'for k in 0 1 2; do mount -t tmpfs none "$1/p.data$k"; done; mount -t tmpfs none "$1/p.names"
        seq 1 30000 >/mnt/p/through && [[ -z $(find "$1"/p.data? "$1/p.names" -type f) ]] && wc -l </mnt/p/through' _ "$work" | grep -qx 30000
    on bash -c 'seq 1 30000 | cmp - /mnt/p/through'
    [[ -n $(find "$work"/p.data? -type f -size +1k) ]]
}
if unshare -m true 2>/dev/null; then
    try "clients that cannot reach the storage write through servers that can" hidden
else
    echo "skipped: clients without the storage: this user makes no mount namespaces"
fi

again() {
    on bash -c 'seq 5 25000 >/mnt/p/kept'
    partition stop "$work/p.cfg" | grep -q 'is stopped'
    [[ -z $(ls "$XDG_RUNTIME_DIR"/thalweg/*.sock 2>/dev/null) ]]
    sed -i 's/cache_size = 2M/cache_size = 8M/; s/optimizations = .*//' "$work/p.cfg"
    printf 'optimizations = 1\nnet_buf_size = 4k\n' >>"$work/p.cfg"
    partition start "$work/p.cfg" | grep -q 'start 2'
    on bash -c 'seq 5 25000 | cmp - /mnt/p/kept'
}
try "a later start with other dynamic settings has the files" again

# What each of these files holds is acknowledged by the line that is printed after its close.
cat >"$work/acknowledged.py" <<'P'
import os, sys
folder, first = sys.argv[1], int(sys.argv[2])
for k in range(first, first + 100000):
    body = (f"{k} " * (k * 7919 % 8999 + 1)).encode()
    with open(f"{folder}/{k}", "wb") as f:
        f.write(body)
    os.write(1, f"{k}\n".encode())
P
cat >"$work/check.py" <<'P'
import sys
bad = 0
for k in map(int, open(sys.argv[2])):
    body = (f"{k} " * (k * 7919 % 8999 + 1)).encode()
    if open(f"{sys.argv[1]}/{k}", "rb").read() != body:
        print("file", k, "differs")
        bad = 1
sys.exit(bad)
P
# writes ROUND COMMAND...: a program that writes such files: through the preload door, or with thalweg_file_ calls.
writes() {
    local round=$1
    shift
    if ((round % 2)); then
        "$@" "$work/acknowledged" /mnt/k $((round * 100000))
    else
        "$@" "$thalweg" run -- python3 "$work/acknowledged.py" /mnt/k $((round * 100000))
    fi
}
# moment LONGEST: a random time below so many milliseconds.
moment() { sleep "$(printf '0.%03d' $((RANDOM % $1 + 1)))"; }
kills=10
[[ ${LONG:-0} == 0 ]] || kills=100
configured k
partition create "$work/k.cfg" >&2
killed_servers() {
    local round server pid writer
    for ((round = 0; round < kills; round++)); do
        partition start "$work/k.cfg"
        writes "$round" limited 600 >"$work/acknowledged.txt" 2>"$work/writer.txt" &
        writer=$!
        moment 900
        server=$((RANDOM % 3))
        pid=$(pid_of k "$server")
        kill -9 "$pid"
        # Its clients get an error, all of them, soon.
        no wait "$writer"
        grep -q 'Error' "$work/writer.txt"
        partition start "$work/k.cfg"
        on python3 "$work/check.py" /mnt/k "$work/acknowledged.txt"
        [[ -s $work/acknowledged.txt ]] || echo "nothing was acknowledged in round $round"
        on bash -c 'rm -f /mnt/k/*'
        partition stop "$work/k.cfg" --patience 20
    done
}
try "what was acknowledged survives $kills killed servers" killed_servers
killed_clients() {
    local round writer
    partition start "$work/k.cfg"
    for ((round = 0; round < kills; round++)); do
        writes "$round" exec setsid >"$work/acknowledged.txt" 2>/dev/null &
        writer=$!
        moment 600
        kill -9 "$writer"
        wait "$writer" || true
        on python3 "$work/check.py" /mnt/k "$work/acknowledged.txt"
        on bash -c 'rm -f /mnt/k/*'
    done
    # Nothing of theirs is left open.
    partition status "$work/k.cfg" | grep -c ' 0 open files' | grep -qx 3
}
try "what was acknowledged survives $kills killed clients, and nothing of them stays open" killed_clients
stopped_server() {
    local pid begin status=0
    on bash -c 'seq 1 10000 >/mnt/k/whole'
    pid=$(pid_of k 1)
    kill -STOP "$pid"
    begin=$SECONDS
    on cat /mnt/k/whole >"$work/cat.txt" 2>&1 || status=$?
    kill -CONT "$pid"
    [[ $status != 0 ]]
    echo "an error after $((SECONDS - begin)) s"
    # With the server's name.
    grep -q 'server 1 of partition k' "$work/cat.txt"
    on bash -c 'seq 1 10000 | cmp - /mnt/k/whole'
}
try "a stopped server is an error that names it, and works again once it goes on" stopped_server

# The state of a partition one of whose servers is stopped, or was killed: the others say theirs, and this one is named.
others_answer() {
    local pid
    partition start "$work/k.cfg"
    pid=$(pid_of k 1)
    kill -STOP "$pid"
    fails 1 'server 1 of partition k' partition status "$work/k.cfg" --patience 2
    kill -CONT "$pid"
    grep -c 'open files, ' "$work/told.log" | grep -qx 2
    grep -qE '^server 1 .*(has not answered|does not answer|has ended)' "$work/told.log"
    partition status "$work/k.cfg" --patience 60
    kill -9 "$pid"
    fails 1 'server 1 of partition k' partition status "$work/k.cfg"
    grep -c 'open files, ' "$work/told.log" | grep -qx 2
    partition start "$work/k.cfg"
    partition status "$work/k.cfg" | grep -c 'open files, ' | grep -qx 3
}
try "the state of a partition is told when one of its servers is stopped or was killed" others_answer
# all_are_told NAME TRANSPORT HOW...: several programs use a partition when one of its servers goes away; each gets an error with its name.
all_are_told() {
    local name=$1 transport=$2 kind began=$SECONDS
    shift 2
    rm -f "$work"/ready.* "$work/go"
    local pids=()
    for kind in writer reader idle syncer; do
        THALWEG_TRANSPORT=$transport on python3 tests/system/partition/clients.py "$kind" "/mnt/$name/of.$kind" "$work/ready.$kind" "$work/go" >"$work/client-$kind.txt" 2>&1 &
        pids+=($!)
    done
    for kind in writer reader idle syncer; do
        for _ in {1..600}; do
            [[ ! -e $work/ready.$kind ]] || break
            sleep 0.1
        done
        [[ -e $work/ready.$kind ]]
    done
    "$@"
    touch "$work/go"
    # Each ends with another status: it could not close its file.
    wait "${pids[@]}" || true
    echo "all were told after $((SECONDS - began)) s"
    for kind in writer reader idle syncer; do
        grep -q '^error ' "$work/client-$kind.txt"
        grep -qF "server 1 of partition $name" "$work/client-$kind.txt"
    done
}
filled() { on bash -c "for kind in writer reader idle syncer; do head -c 400000 /dev/zero >/mnt/$1/of.\$kind; done"; }
killed_for_all() {
    filled k
    all_are_told k auto kill -9 "$(pid_of k 1)"
    partition start "$work/k.cfg"
    on bash -c 'cat /mnt/k/of.* | wc -c' | grep -qx 1600000
}
try "all programs are told of a server that is killed" killed_for_all
stopped_for_all() {
    local pid status=0
    pid=$(pid_of k 1)
    all_are_told k auto kill -STOP "$pid" || status=$?
    kill -CONT "$pid"
    [[ $status == 0 ]]
    on bash -c 'cat /mnt/k/of.* | wc -c && rm /mnt/k/of.*' | grep -qx 1600000
}
try "all programs are told of a server that is stopped" stopped_for_all

configured t 'listen = 127.0.0.1'
by_tcp() {
    partition create "$work/t.cfg"
    partition start "$work/t.cfg"
    [[ $(stat -c %a "$work/.thalweg-partitions/t.token") == 600 ]]
    THALWEG_TRANSPORT=tcp on bash -c 'seq 1 30000 >/mnt/t/x && cmp <(seq 1 30000) /mnt/t/x'
    on bash -c 'cmp <(seq 1 30000) /mnt/t/x'
    # Only the addresses that were asked for.
    python3 - "$work/t.cfg" "$thalweg" <<'P'
import json, subprocess, sys
state = json.loads(subprocess.run([sys.argv[2], "partition", "status", sys.argv[1], "--json"], check=True, capture_output=True).stdout)
assert all(server["address"].startswith("127.0.0.1:") for server in state["servers"]), state
P
    cp "$work/.thalweg-partitions/t.token" "$work/t.token"
    printf '%064d\n' 7 >"$work/.thalweg-partitions/t.token"
    no env THALWEG_TRANSPORT=tcp "$thalweg" run -- cat /mnt/t/x 2>"$work/told.log"
    grep -q 'token' "$work/told.log"
    cp "$work/t.token" "$work/.thalweg-partitions/t.token"
    partition status "$work/k.cfg" --json | grep -q '"address": null'
}
try "clients of other hosts come by TCP, with the token; without listen nothing listens" by_tcp

# A server's host that has lost its power: connections stand, and no byte passes.
silent_for_all() {
    local entry=$work/.thalweg-partitions/t.toml address port
    address=$(partition status "$work/t.cfg" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["servers"][1]["address"])')
    mkfifo "$work/silence"
    python3 tests/system/partition/silent.py "$address" <"$work/silence" >"$work/port.txt" &
    local proxy=$!
    exec 9>"$work/silence"
    for _ in {1..100}; do
        [[ ! -s $work/port.txt ]] || break
        sleep 0.1
    done
    port=$(<"$work/port.txt")
    cp "$entry" "$work/entry.toml"
    sed -i "s/$address/127.0.0.1:$port/" "$entry"
    filled t
    local status=0
    all_are_told t tcp bash -c 'echo silent >&9' || status=$?
    exec 9>&-
    kill "$proxy"
    cp "$work/entry.toml" "$entry"
    rm "$work/silence"
    [[ $status == 0 ]]
    THALWEG_TRANSPORT=tcp on bash -c 'cat /mnt/t/of.* | wc -c && rm /mnt/t/of.*' | grep -qx 1600000
}
try "all programs are told of a server whose connections have gone silent" silent_for_all

# A storage that takes four megabytes a second, and servers that are killed one second after SIGTERM.
configured_slowly() {
    mkdir "$work/slow.data"
    printf '[[mount]]\npath = "/slow storage"\nlayout = "direct"\nstore = "posix:%s"\nrate = "4MB"\n\n' "$work/slow.data" >>"$THALWEG_MOUNTS"
    {
        printf 'name = slow\ncache_size = 64M\nkill_wait = %s\nahpios_server = localhost:/slow storage\n' "$1"
        printf 'metadata = localhost:%s\n' "$work/slow.names"
    } >"$work/slow.cfg"
    printf '[[mount]]\npath = "/mnt/slow"\nlayout = "partition"\npartition = "%s"\n\n' "$work/slow.cfg" >>"$THALWEG_MOUNTS"
}
open_end='import os, sys, time
file = os.open("/mnt/slow/open", os.O_RDWR | os.O_CREAT)
for part in range(int(sys.argv[2])):
    os.pwrite(file, b"first" * 200_000, part * 1_000_000)
os.fsync(file)
for part in range(int(sys.argv[3])):
    os.pwrite(file, b"later" * 200_000, part * 1_000_000)
open(sys.argv[1], "w").close()
time.sleep(600)'
writes_openly() { # writes_openly SYNCED THEN: a program that does not close what it has written, so many megabytes
    rm -f "$work/written"
    setsid "$thalweg" run -- python3 -c "$open_end" "$work/written" "$@" 2>"$work/open.txt" &
    open_writer=$!
    for _ in {1..1200}; do
        [[ ! -e $work/written ]] || return 0
        sleep 0.1
    done
    return 1
}
waits_for() { # waits_for WORDS FILE
    for _ in {1..1200}; do
        ! grep -qF -- "$1" "$2" || return 0
        sleep 0.1
    done
    tail "$2"
    return 1
}
late() {
    configured_slowly 1s
    partition create "$work/slow.cfg"
    partition start "$work/slow.cfg"
    local log=$XDG_RUNTIME_DIR/thalweg/partition-slow-0.log pid
    pid=$(pid_of slow 0)
    writes_openly 8 24
    partition status "$work/slow.cfg" >"$work/told.log"
    grep -qE '24000000 bytes are not stored yet; at [0-9]+ bytes per second this takes [0-9]+ s; WARNING: a server that has to end is killed after about 1 s' "$work/told.log"
    waits_for 'warning: 24000000 bytes are not stored yet' "$log"
    kill -TERM "$pid"
    waits_for 'servers are killed after about 1 s: bytes of 1 open files may be lost; bytes closed or synced before are stored' "$log"
    # Nobody kills it here, so nothing is lost.
    for _ in {1..1200}; do
        [[ -e /proc/$pid ]] || break
        sleep 0.1
    done
    kill -9 "$open_writer"
    grep -c 'warning: ' "$log" | grep -qx 1
    partition start "$work/slow.cfg"
    on python3 -c 'assert open("/mnt/slow/open", "rb").read() == b"later" * 4_800_000'
    partition status "$work/slow.cfg" >"$work/told.log"
    if grep -q 'not stored yet' "$work/told.log"; then return 1; fi
    partition stop "$work/slow.cfg"
}
try "a server warns of bytes that it cannot store in time, before it is told to end and then" late
before_the_end() {
    sed -i 's/kill_wait = .*/kill_wait = 200s/' "$work/slow.cfg"
    SLURM_JOB_END_TIME=$(($(date +%s) + 150)) partition start "$work/slow.cfg"
    local log=$XDG_RUNTIME_DIR/thalweg/partition-slow-0.log
    writes_openly 0 3
    waits_for 'bytes are written to the storage from now on' "$log"
    for _ in {1..1200}; do
        [[ $(of slow 'servers[0]["outlook"]["bytes"]') != 0 ]] || break
        sleep 0.1
    done
    # The file is open still, and a server that is killed has lost nothing.
    [[ $(of slow 'servers[0]["files"]') == 1 ]]
    kill -9 "$(pid_of slow 0)" "$open_writer"
    partition start "$work/slow.cfg"
    on python3 -c 'assert open("/mnt/slow/open", "rb").read()[:3_000_000] == b"later" * 600_000'
    fails 3 'is started' partition remove "$work/slow.cfg"
    partition stop "$work/slow.cfg"
    fails 3 'is a mount' partition remove "$work/slow.cfg"
}
try "servers write everything before the end of their job" before_the_end

lost() {
    partition stop "$work/k.cfg"
    mv "$work/k.data1" "$work/k.moved"
    fails 3 'k.data1' partition start "$work/k.cfg"
    mkdir "$work/k.data1"
    fails 3 'lost its stamp' partition start "$work/k.cfg"
    rmdir "$work/k.data1"
    mv "$work/k.moved" "$work/k.data1"
    partition start "$work/k.cfg"
    on bash -c 'seq 1 10000 | cmp - /mnt/k/whole'
}
try "storage that is missing or empty is not served" lost
idle() {
    configured i 'idle = 1s'
    partition create "$work/i.cfg"
    partition start "$work/i.cfg"
    on bash -c 'echo kept >/mnt/i/x'
    # Who asks all the time how they are is no client that keeps them.
    local began=$SECONDS
    until partition status "$work/i.cfg" | grep -q 'bytes, not started'; do
        if ((SECONDS - began > 60)); then return 1; fi
    done
    partition start "$work/i.cfg" | grep -q 'start 2'
    on cat /mnt/i/x | grep -qx kept
}
try "servers without clients end by themselves" idle
on_demand() {
    configured d 'start = on-demand'
    partition create "$work/d.cfg"
    # Four programs at once: one starts the servers.
    local k pids=()
    for k in 1 2 3 4; do
        THALWEG_COMMAND=$thalweg on bash -c "seq 1 1000 >/mnt/d/$k" &
        pids+=($!)
    done
    for k in "${pids[@]}"; do wait "$k"; done
    [[ $(on bash -c 'cat /mnt/d/* | wc -l') == 4000 ]]
    partition start "$work/d.cfg" | grep -q 'start 1'
    kill -9 "$(pid_of d 2)"
    THALWEG_COMMAND=$thalweg on bash -c 'seq 1 1000 | cmp - /mnt/d/3'
    partition stop "$work/d.cfg"
    no env THALWEG_COMMAND=/none "$thalweg" run -- cat /mnt/d/1 2>"$work/told.log"
    grep -q 'cannot start thalweg partition start' "$work/told.log"
}
try "the first of several programs starts the servers on demand" on_demand
# One program on two partitions; both at once while another program works on one of them.
two() {
    local pid
    on bash -c 'for k in {1..20}; do seq 1 $((k * 100)) >/mnt/k/both.$k && cp /mnt/k/both.$k /mnt/d/both.$k; done' &
    pid=$!
    on bash -c 'for k in {1..20}; do seq 1 $((k * 77)) >/mnt/k/other.$k; done'
    wait "$pid"
    on bash -c 'for k in {1..20}; do cmp /mnt/k/both.$k /mnt/d/both.$k && seq 1 $((k * 77)) | cmp - /mnt/k/other.$k || exit 1; done'
}
partition start "$work/k.cfg" >&2
partition start "$work/d.cfg" >&2
try "two programs work on one partition, and one of them on two" two
moved() {
    local expected
    expected=$(on bash -c 'cd /mnt/d && find . | sort && cat both.* | cksum')
    sed "s/name = d/name = wide/; s/stripe_size = 4k/stripe_size = 64k/; s|$work/d\.|$work/wide.|; /data2/d; s/nr_ios = 3/nr_ios = 2/" "$work/d.cfg" >"$work/wide.cfg"
    printf '[[mount]]\npath = "/mnt/wide"\nlayout = "partition"\npartition = "%s"\n\n' "$work/wide.cfg" >>"$THALWEG_MOUNTS"
    fails 3 'there is no partition wide' partition move "$work/d.cfg" "$work/wide.cfg"
    partition create "$work/wide.cfg"
    partition start "$work/wide.cfg"
    partition move "$work/d.cfg" "$work/wide.cfg" | grep -q ' files and '
    [[ $(on bash -c 'cd /mnt/wide && find . | sort && cat both.* | cksum') == "$expected" ]]
    partition stop "$work/d.cfg"
    partition remove "$work/d.cfg"
    [[ $(on bash -c 'cd /mnt/wide && find . | sort && cat both.* | cksum') == "$expected" ]]
}
try "the files of a partition move to one with other static settings" moved
# The commands for other launchers, as text: none of them is here.
launchers() {
    sed 's/localhost:/node7:/' "$work/p.cfg" >"$work/far.cfg"
    sed -i 's/name = p/name = far/' "$work/far.cfg"
    partition create "$work/far.cfg"
    local by words
    while IFS='|' read -r by words; do
        partition start "$work/far.cfg" --print --by "$by" >"$work/printed.txt"
        [[ $(grep -cF -- "node7: $words $thalweg partition serve $work/far.cfg --server " "$work/printed.txt") == 3 ]]
    done <<'W'
slurm|srun --overlap -N1 -n1 --mem=0 --nodelist node7
pbs|pbsdsh -h node7 --
flux|flux run -N1 -n1 --requires=host:node7
ssh|ssh -n node7
W
    # In a job of one of them by themselves; what this host is called there.
    by_itself() { # by_itself WORDS SETTING...
        local words=$1
        shift
        env "$@" "$thalweg" partition start "$work/far.cfg" --print >"$work/printed.txt"
        [[ $(grep -cF -- "node7: $words $thalweg partition serve $work/far.cfg --server " "$work/printed.txt") == 3 ]]
    }
    printf 'node7\n%s\n' "$(uname -n)" >"$work/nodes.txt"
    by_itself 'pbsdsh -h node7 --' PBS_JOBID=7.pbs "PBS_NODEFILE=$work/nodes.txt"
    by_itself 'flux run -N1 -n1 --requires=host:node7' FLUX_JOB_ID=f7
    by_itself 'flux run -N1 -n1 --requires=host:node7' FLUX_URI=local:///f SLURM_JOB_ID=7
    by_itself 'srun --overlap -N1 -n1 --mem=0 --nodelist node7' SLURM_JOB_ID=7 PBS_JOBID=7.pbs "PBS_NODEFILE=$work/nodes.txt"
    PBS_JOBID=7.pbs PBS_NODEFILE=$work/nodes.txt "$thalweg" partition start "$work/p.cfg" --print >"$work/printed.txt"
    grep -c "^localhost: pbsdsh -h $(uname -n) -- " "$work/printed.txt" | grep -qx 3
    FLUX_JOB_ID=f7 "$thalweg" partition start "$work/p.cfg" --print >"$work/printed.txt"
    grep -c "^localhost: flux run -N1 -n1 --requires=host:$(uname -n) " "$work/printed.txt" | grep -qx 3
    # A launcher that is missing is told at once, each time.
    for _ in 1 2; do fails 3 'cannot start server 0 with flux' partition start "$work/far.cfg" --by flux; done
    fails 3 'are started in a Slurm job, or there by hand' partition start "$work/far.cfg"
    fails 3 'is no folder of this host' partition remove "$work/far.cfg"
    rm "$work/far.cfg"
}
try "servers of other hosts have commands for each launcher" launchers
# The same settings as a table of the mount table.
inline() {
    {
        printf '\n[[mount]]\npath = "/mnt/inline"\nlayout = "partition"\n[mount.partition]\nname = "inline"\nstripe_size = "4k"\n'
        printf 'ahpios_server = ["localhost:%s", "localhost:%s"]\nmetadata = "localhost:%s"\nidle = 600\n\n' "$work/inline.0" "$work/inline.1" "$work/inline.names"
    } >>"$THALWEG_MOUNTS"
    # Not an error of the table: nobody has made the partition.
    "$thalweg" config check >"$work/told.log" || true
    grep -q '^fails  /mnt/inline .*there is no partition inline' "$work/told.log"
    partition create "$THALWEG_MOUNTS#inline"
    partition start "$THALWEG_MOUNTS"
    "$thalweg" config check >"$work/told.log" || true
    grep -q '^works  /mnt/inline ' "$work/told.log"
    on bash -c 'seq 1 20000 >/mnt/inline/x && seq 1 20000 | cmp - /mnt/inline/x'
    on cp crates/bp/tests/golden/four-steps.bp /mnt/inline/named.bp
    "$thalweg" ls thalweg:inline/named.bp | cmp - "$work/named.txt"
    THALWEG_MOUNTS='' THALWEG_PARTITION=$work/mounts.toml#inline "$thalweg" ls thalweg:inline/named.bp | cmp - "$work/named.txt"
    partition status "$THALWEG_MOUNTS" | grep -c 'open files' | grep -qx 2
    partition stop "$THALWEG_MOUNTS#inline"
    partition remove "$THALWEG_MOUNTS"
    [[ ! -e $work/inline.0 ]]
    sed 's/^metadata = "localhost:/metadata = "/' "$THALWEG_MOUNTS" >"$work/wrong.toml"
    local line
    line=$(grep -n '^metadata = "' "$work/wrong.toml" | cut -d: -f1)
    fails 1 "wrong.toml:$line:" "$thalweg" config check "$work/wrong.toml"
    grep -q 'names no storage of a host' "$work/told.log"
    fails 3 "wrong.toml:$line:" partition status "$work/wrong.toml"
}
try "the settings of a partition are a table of the mount table" inline
torn() {
    {
        printf 'name = torn\nregistry = torn.registry\nstripe_size = 4k\nahpios_server = localhost:%s\n' "$work/torn.data"
        printf 'metadata = localhost:%s\n' "$work/torn.names"
    } >"$work/torn.cfg"
    partition create "$work/torn.cfg"
    python3 tests/system/partition/torn.py "$thalweg" "$work" "$work/torn.cfg"
}
if strace -qq -o "$work/strace.log" true 2>"$work/stderr.log"; then
    many "the registry" torn
else
    echo "skipped: registry changes that are killed: strace cannot trace here ($(head -n 1 "$work/stderr.log"))"
fi
removed() {
    partition stop "$work/k.cfg"
    partition remove "$work/k.cfg"
    [[ ! -e $work/k.data0 && ! -e $work/k.names ]]
    fails 3 'there is no partition k' partition status "$work/k.cfg"
}
try "a partition is removed with its files" removed
nothing() {
    ended
    [[ -z $(ls "$XDG_RUNTIME_DIR"/thalweg/*.sock 2>/dev/null) ]]
    no pgrep -f "partition serve $work/"
    [[ -z $(find /dev/shm -name '*thalweg*') ]]
}
try "nothing is left" nothing
exit "$failed"
