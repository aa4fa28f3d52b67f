#!/usr/bin/env bash
# Locks of unchanged programs through the doors: counters of several processes, the rules of the manual pages (preload/locks.c),
# flock(1), Python, SQLite with several writers, MPI-IO's shared pointers, also on partitions; over one store and a
# burst buffer, through preload, through FUSE, and some through each.
# On stores that cannot hold lock objects every lock is refused.
#
#   ONLY=WORD runs the checks whose names hold it
# shellcheck disable=SC2317  # functions are called by name, through try
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
source scripts/build.sh
build_all
work=$(mktemp -d "${TMPDIR:-/tmp}/thalweg-locks.XXXXXX")
source tests/checks.sh
chmod 755 "$work"
fuse=1
if [[ ! -e /dev/fuse || $(id -u) != 0 ]]; then
    echo "skipped: locks through FUSE: no /dev/fuse, or not root"
    fuse=0
fi
# tiered: a container over a burst buffer.
layouts=(direct flat small_file container tiered)
daemon=
cleanup() {
    local layout
    [[ -z $daemon ]] || kill "$daemon" 2>/dev/null || true
    for layout in "${layouts[@]}" unlocked; do
        mountpoint -q "$work/at/$layout" 2>/dev/null && "$thalweg" unmount --lazy "$work/at/$layout"
        umount -l "$work/at/$layout" 2>/dev/null || true
    done
    for layout in partition listening; do
        [[ ! -e $work/$layout.cfg ]] || "$thalweg" partition stop "$work/$layout.cfg" >/dev/null || true
    done
    rm -rf "$work"
}
trap cleanup EXIT

cc -std=c11 -D_GNU_SOURCE -O1 -Wall -Wextra -Werror tests/system/preload/locks.c -o "$work/locks"
export THALWEG_MOUNTS=$work/mounts.toml THALWEG_DRAIN=manual
for layout in "${layouts[@]}"; do
    mkdir -p "$work/store.$layout" "$work/at/$layout"
    store=posix:$work/store.$layout
    [[ $layout != tiered ]] || { mkdir -p "$work/store.fast" && store="tiered:posix:$work/store.fast=>posix:$work/store.$layout"; }
    printf '[[mount]]\npath = "/mnt/locked/%s"\nlayout = "%s"\nstore = "%s"\n\n' "$layout" "${layout/tiered/container}" "$store" >>"$THALWEG_MOUNTS"
    [[ $fuse == 0 ]] || "$thalweg" mount "$work/at/$layout" --path "/mnt/locked/$layout"
done

# door DOOR LAYOUT COMMAND...: with AT as the folder of the layout, through a door.
door() {
    local door=$1 layout=$2
    shift 2
    case $door in
        preload) AT=/mnt/locked/$layout "$thalweg" run -- "$@" ;;
        fuse) AT=$work/at/$layout "$@" ;;
    esac
}
# doors WAY K: which door the process K takes.
doors() {
    case $1 in
        both) [[ $(($2 % 2)) == 0 ]] && echo preload || echo fuse ;;
        *) echo "$1" ;;
    esac
}
export locks=$work/locks

# together WAY LAYOUT PROCESSES COMMAND...: at once, each as `bash -c COMMAND _ NUMBER`; all end well.
together() {
    local way=$1 layout=$2 processes=$3 k pids=() status=0
    shift 3
    for ((k = 0; k < processes; k++)); do
        door "$(doors "$way" "$k")" "$layout" bash -c "$1" _ "$k" &
        pids+=($!)
    done
    for k in "${pids[@]}"; do wait "$k" || status=1; done
    return "$status"
}

# shellcheck disable=SC2016  # the inner shell expands them
counts() { # counts WAY LAYOUT KIND: 4 processes, 500 each
    local way=$1 layout=$2 kind=$3 got
    together "$way" "$layout" 4 '"$locks" count '"$kind"' "$AT/count.'"$way.$kind"'" 500'
    got=$(door "$(doors "$way" 0)" "$layout" bash -c 'cat "$AT/count.'"$way.$kind"'"')
    echo "the counter says $got"
    [[ $got == 00002000 ]]
}

# shellcheck disable=SC2016
shells() { # shells WAY LAYOUT: flock(1) on a descriptor of the shell, whose lock outlives flock(1)
    local way=$1 layout=$2 got
    together "$way" "$layout" 2 'for i in $(seq 30); do (flock 9; n=$(cat "$AT/shell.'"$way"'" 2>/dev/null || echo 0); echo $((n + 1)) >"$AT/shell.'"$way"'") 9>"$AT/lock.'"$way"'"; done'
    got=$(door "$(doors "$way" 0)" "$layout" bash -c 'cat "$AT/shell.'"$way"'"')
    echo "the counter says $got"
    [[ $got == 60 ]]
}

# shellcheck disable=SC2016
python() { # python WAY LAYOUT: multiprocessing in two programs
    local way=$1 layout=$2 got
    cat >"$work/count.py" <<'PYTHON'
import fcntl, multiprocessing, os, sys
path = os.environ["AT"] + "/python." + sys.argv[1]
def work(number):
    for _ in range(50):
        with open(path, "r+") as file:
            fcntl.lockf(file, fcntl.LOCK_EX)
            value = int(file.read() or 0)
            file.seek(0)
            file.write(str(value + 1))
            file.flush()
if __name__ == "__main__":
    open(path, "a").close()
    pool = [multiprocessing.Process(target=work, args=(k,)) for k in range(3)]
    [p.start() for p in pool]
    [p.join() for p in pool]
    sys.exit(any(p.exitcode for p in pool))
PYTHON
    together "$way" "$layout" 2 "python3 '$work/count.py' $way"
    got=$(door "$(doors "$way" 0)" "$layout" bash -c 'cat "$AT/python.'"$way"'"')
    echo "the counter says $got"
    [[ $got == 300 ]]
}

# shellcheck disable=SC2016
sqlite() { # sqlite WAY LAYOUT: three writers, journal mode delete
    local way=$1 layout=$2 got
    door "$(doors "$way" 0)" "$layout" bash -c 'sqlite3 "$AT/db.'"$way"'" "pragma journal_mode=delete; create table t(writer, row);"' >/dev/null
    together "$way" "$layout" 3 'for i in $(seq 25); do echo "pragma busy_timeout=60000; insert into t values ($1, $i);"; done | sqlite3 "$AT/db.'"$way"'" >/dev/null'
    got=$(door "$(doors "$way" 0)" "$layout" bash -c 'sqlite3 "$AT/db.'"$way"'" "pragma integrity_check; select count(*), count(distinct writer * 1000 + row) from t;"')
    echo "SQLite says $got"
    [[ $got == $'ok\n75|75' ]]
}

# shellcheck disable=SC2016
rules() { door "$1" "$2" bash -c '"$locks" rules "$AT/rules.'"$1"'"'; }

# shellcheck disable=SC2016
across() { # across LAYOUT KIND HOLDER OTHER: a lock through one door excludes through the other, and ends there
    local layout=$1 kind=$2 holder=$3 other=$4 status=0 began=$SECONDS
    exec 7> >(door "$holder" "$layout" bash -c '"$locks" hold '"$kind"' "$AT/across.'"$kind.$holder"'"' >"$work/held")
    until grep -q locked "$work/held" 2>/dev/null; do sleep 0.05; done
    door "$other" "$layout" bash -c '"$locks" try '"$kind"' "$AT/across.'"$kind.$holder"'"' || status=$?
    exec 7>&-
    [[ $status == 1 ]]
    until door "$other" "$layout" bash -c '"$locks" try '"$kind"' "$AT/across.'"$kind.$holder"'"'; do
        [[ $((SECONDS - began)) -lt 300 ]] || { echo "the lock is still there after 300 s, the limit for hangs" && return 1; }
        sleep 0.05
    done
    rm -f "$work/held"
}

ways=(preload)
[[ $fuse == 0 ]] || ways+=(fuse both)
command -v sqlite3 >/dev/null || echo "skipped: locks of SQLite: it is not installed"
many "plain folder" "$work/locks" rules "$work/rules"
for layout in "${layouts[@]}"; do
    for way in "${ways[@]}"; do
        [[ $way == both ]] || many "$way, $layout" rules "$way" "$layout"
        for kind in fcntl flock ofd lockf; do try "a counter under $kind is exact ($way, $layout)" counts "$way" "$layout" $kind; done
        try "flock(1) in two shells excludes ($way, $layout)" shells "$way" "$layout"
        try "Python's processes count exactly ($way, $layout)" python "$way" "$layout"
        ! command -v sqlite3 >/dev/null || try "SQLite keeps the rows of three writers ($way, $layout)" sqlite "$way" "$layout"
    done
    if [[ $fuse == 1 ]]; then
        for kind in flock fcntl part; do
            try "a $kind lock through preload excludes through FUSE ($layout)" across "$layout" $kind preload fuse
            try "a $kind lock through FUSE excludes through preload ($layout)" across "$layout" $kind fuse preload
        done
    fi
done
# Partitions of two servers: locks are the system's, or those of servers that have an address, which the preload door refuses.
partition() { # partition NAME [LINE]
    {
        printf 'name = locked-%s\nstripe_size = 4k\ncache_size = 4M\n%s\n' "$1" "${2:-}"
        printf 'ahpios_server = localhost:%s\n' "$work/store.$1."{0,1}
        printf 'metadata = localhost:%s\n' "$work/store.$1.names"
    } >"$work/$1.cfg"
    "$thalweg" partition create "$work/$1.cfg"
    "$thalweg" partition start "$work/$1.cfg"
    printf '[[mount]]\npath = "/mnt/locked/%s"\nlayout = "partition"\npartition = "%s"\n\n' "$1" "$work/$1.cfg" >>"$THALWEG_MOUNTS"
}
ONLY='' try "a partition starts" partition partition
ONLY='' try "a partition starts whose servers listen" partition listening 'listen = 127.0.0.1'
# MPI-IO keeps the shared pointer in a file that it locks. Open MPI has two implementations of MPI-IO: ROMIO, and ompio, which on one
# machine prefers a pointer in memory (sm).
shared_pointer() { # shared_pointer MPI COMPONENT LAYOUT RANKS
    local options=()
    [[ $1 == mpich ]] || options=(--oversubscribe)
    [[ $2 == - ]] || options+=(--mca io "${2%+*}")
    [[ $2 != *+* ]] || options+=(--mca sharedfp "${2#*+}")
    limited 900 "mpiexec.$1" "${options[@]}" -n "$4" "$thalweg" run --mpi none -- "$work/shared_pointer.$1" "/mnt/locked/$3/shared.$1.$2" 20
}
# Right, or refused: the MPI fails where it cannot lock, and the reason is said.
right_or_refused() { # as shared_pointer
    local status=0
    shared_pointer "$@" >"$work/told.pointer" 2>&1 || status=$?
    cat "$work/told.pointer"
    if [[ $status == 0 ]]; then
        grep -q '^0 of [1-9][0-9]* records are missing' "$work/told.pointer"
    else
        [[ $status != 124 ]]
        grep -q 'cannot lock: .*keeps locks at its servers' "$work/told.pointer"
        # It failed in a call, before anything was found to be lost.
        if grep -E '^(.*: )?[1-9][0-9]* of .*(missing|did not come once)$' "$work/told.pointer"; then return 1; fi
    fi
}
romio=$(ompi_info --parsable 2>/dev/null | sed -n 's/^mca:io:\(romio[0-9]*\):version:.*/\1/p' | head -n 1)
for mpi in mpich openmpi; do
    if ! command -v "mpicc.$mpi" >/dev/null; then
        echo "skipped: shared pointers of $mpi: it is not installed"
        continue
    fi
    "mpicc.$mpi" -O1 -Wall -Wextra -Werror tests/system/preload/shared_pointer.c -o "$work/shared_pointer.$mpi"
    components=(-)
    if [[ $mpi == openmpi ]]; then
        components=(ompio ompio+lockedfile)
        if [[ -n $romio ]]; then components+=("$romio"); else echo "skipped: shared pointers of ROMIO in Open MPI: ompi_info lists no component of it"; fi
    fi
    for component in "${components[@]}"; do
        of=$mpi
        [[ $component == - ]] || of="$component of $mpi"
        for layout in "${layouts[@]}" partition; do
            try "shared pointers of MPI-IO lose no record ($of, $layout)" shared_pointer $mpi "$component" "$layout" 3
        done
        try "shared pointers of MPI-IO are right, or refused ($of, partition whose servers listen)" right_or_refused $mpi "$component" listening 3
    done
done

# Lock objects need a folder of this machine, which a store in memory lacks: every lock is refused with ENOLCK. The memory is the daemon's
# for programs under preload, the FUSE server's for others.
mkdir -m 700 "$work/daemon"
mkdir "$work/at/unlocked"
for layout in small_file container; do
    printf '[[mount]]\npath = "/mnt/unlocked/%s"\nlayout = "%s"\nstore = "memory:%s"\n\n' $layout $layout $layout >>"$work/memory.toml"
    # The table of the programs names a store of another machine, so that they use the daemon.
    printf '[[mount]]\npath = "/mnt/unlocked/%s"\nlayout = "%s"\nstore = "hdfs://127.0.0.1:1/x"\n\n' $layout $layout >>"$work/far.toml"
done
cat >"$work/refused.py" <<'PYTHON'
import errno, fcntl, os, struct, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o644)
# struct flock: the whole file.
whole = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
F_OFD_SETLK = 37
locks = {
    "flock, exclusive": lambda: fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB),
    "flock that waits": lambda: fcntl.flock(fd, fcntl.LOCK_SH),
    "F_SETLK": lambda: fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB),
    "F_SETLKW": lambda: fcntl.lockf(fd, fcntl.LOCK_SH),
    "F_OFD_SETLK": lambda: fcntl.fcntl(fd, F_OFD_SETLK, whole),
    "lockf": lambda: os.lockf(fd, os.F_TLOCK, 0),
}
wrong = []
for name, lock in locks.items():
    try:
        lock()
        wrong.append(f"{name}: a lock without effect")
    except OSError as e:
        if e.errno != errno.ENOLCK:
            wrong.append(f"{name}: {e}")
# The file works all the same.
assert os.write(fd, b"written") == 7
os.close(fd)
assert open(sys.argv[1], "rb").read() == b"written"
sys.exit("\n".join(wrong) or None)
PYTHON
refused_through_preload() { # refused_through_preload LAYOUT
    local status=0
    THALWEG_MOUNTS=$work/far.toml limited 300 "$thalweg" run -- python3 "$work/refused.py" "/mnt/unlocked/$1/file" 2>"$work/told.$1" || status=$?
    cat "$work/told.$1"
    [[ $status == 0 ]]
    grep -q '^thalweg: .*cannot lock: .*has no folder of this machine' "$work/told.$1"
}
refused_through_fuse() { # refused_through_fuse LAYOUT
    local status=0
    THALWEG_MOUNTS=$work/memory.toml "$thalweg" mount "$work/at/unlocked" --path "/mnt/unlocked/$1"
    limited 300 python3 "$work/refused.py" "$work/at/unlocked/file" || status=$?
    "$thalweg" unmount "$work/at/unlocked"
    [[ $status == 0 ]]
}
export THALWEG_DAEMON=$work/daemon/socket
THALWEG_MOUNTS=$work/memory.toml "$thalweg" mount --socket-only --foreground >>"$work/daemon.log" 2>&1 &
daemon=$!
for ((tries = 0; tries < 300; tries++)); do [[ ! -S $THALWEG_DAEMON ]] || break; sleep 0.1; done
for layout in small_file container; do
    try "locks on a store without folders are refused, and why is said (preload, $layout)" refused_through_preload "$layout"
    [[ $fuse == 0 ]] || try "locks on a store without folders are refused (fuse, $layout)" refused_through_fuse "$layout"
done

no_litter() { # nothing is left of locks that nobody has
    local left
    left=$(find "$work"/store.*/.thalweg*/locks -name 'lock-*' 2>/dev/null | wc -l)
    echo "$left lock objects are left"
    [[ $left == 0 ]]
}
try "no lock object is left" no_litter
exit $failed
