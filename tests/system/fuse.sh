#!/usr/bin/env bash
# The FUSE door: programs of every day on mounts of each layout beside the same on a plain folder; names, modes, owners,
# times and errors call by call (fuse/names.py); the exerciser (exercise.c) over 1 and 3 stores; a daemon that is killed, a
# program that is killed, mounts that are taken away while files are open.
#
#   LONG=1 exercises with 10 seeds of 20,000 operations; ONLY=WORD runs the checks whose names hold it
# shellcheck disable=SC2317  # functions are called by name, through try
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
# shellcheck source-path=SCRIPTDIR/../..
source scripts/machine.sh
here=$PWD/tests/system
# shellcheck disable=SC2154  # of machine.sh
[[ ${CI:-} != true ]] || wants "${door_packages[@]}"
if [[ ! -e /dev/fuse ]]; then
    echo "skipped: files through FUSE: this machine has no /dev/fuse"
    exit 0
elif [[ $(id -u) != 0 ]]; then
    echo "skipped: files through FUSE: owners and other users are tried as root"
    exit 0
fi
source scripts/build.sh
build_all

# Elsewhere than below the sources: programs look upwards for repositories and settings.
work=$(mktemp -d "${TMPDIR:-/tmp}/thalweg-fuse.XXXXXX")
source tests/checks.sh
chmod 755 "$work"
# shellcheck disable=SC2154  # of build.sh
cleanup() {
    local point
    for point in "$work"/at/*; do
        mountpoint -q "$point" 2>/dev/null && "$thalweg" unmount --lazy "$point"
        umount -l "$point" 2>/dev/null || true
    done
    rm -rf "$work"
}
trap cleanup EXIT

soon() { # soon COMMAND...: until it succeeds; the limit is for hangs
    local began=$SECONDS
    until "$@" 2>/dev/null; do
        [[ $((SECONDS - began)) -lt 300 ]] || { echo "still not so after 300 s, the limit for hangs: $*" && return 1; }
        sleep 0.05
    done
}

export THALWEG_MOUNTS=$work/mounts.toml
table() { # table NAME LAYOUT STORES [LINE...]
    local name=$1 layout=$2 stores=$3 list="" k
    shift 3
    for ((k = 0; k < stores; k++)); do
        mkdir -p "$work/stores/$name.$k"
        list+="${list:+, }\"posix:$work/stores/$name.$k\""
    done
    printf '[[mount]]\npath = "/%s"\nlayout = "%s"\nstores = [%s]\n' "$name" "$layout" "$list" >>"$THALWEG_MOUNTS"
    printf '%s\n' "$@" '' >>"$THALWEG_MOUNTS"
    mkdir -p "$work/at/$name"
}
table direct direct 1
table flat flat 1
table flat-3 flat 3
table container container 1
table container-3 container 3
table small_file small_file 1
table counted small_file 1 "counts = \"$work/counts\""
printf '[[mount]]\npath = "/memory"\nlayout = "direct"\nstore = "memory:fuse"\n' >>"$THALWEG_MOUNTS"
mkdir -p "$work/at/memory" "$work/at/all"
up() { "$thalweg" mount "$work/at/$1" --path "/$1" "${@:2}"; }
down() { "$thalweg" unmount "$work/at/$1"; }
not_mounted() { if grep -q "$1" /proc/mounts; then return 1; fi; }

# --- Programs, beside the same on a plain folder.

# listing FOLDER: what a program could see of it: kinds, modes, lengths, targets, bytes.
listing() {
    (cd "$1" && find . -printf '%P %y %m %l ' \( -type f -printf '%s\n' -o -printf '\n' \) | LC_ALL=C sort &&
        find . -type f -print0 | LC_ALL=C sort -z | xargs -0 -r cksum)
}

same() { diff <(listing "$1") <(listing "$2"); }

sources=$work/sources
make_sources() {
    mkdir -p "$sources/deep/er" "$sources/empty"
    cp -r crates/types/src "$sources/rust"
    head -c 3000000 /dev/urandom >"$sources/deep/random"
    : >"$sources/deep/nothing"
    printf 'script\n' >"$sources/deep/er/script"
    chmod 755 "$sources/deep/er/script"
    chmod 640 "$sources/deep/random"
    find "$sources" -exec touch -d '2024-02-29 12:34:56.789' {} +
}
make_sources

uses_cp() { cp -a "$sources" "$1/cp" && same "$sources" "$1/cp" && cp -r "$1/cp" "$1/cp2" && same "$1/cp" "$1/cp2"; }

uses_ls_and_find() {
    [[ $(ls -A "$1/cp/deep") == $'er\nnothing\nrandom' ]]
    [[ $(find "$1/cp" -name '*.rs' | wc -l) == $(find "$sources" -name '*.rs' | wc -l) ]]
    [[ $(du --apparent-size -b "$1/cp/deep/random" | cut -f1) == 3000000 ]]
    mv "$1/cp2" "$1/moved"
    same "$1/cp" "$1/moved"
    rm -r "$1/moved"
    [[ ! -e $1/moved ]]
    df "$1" >/dev/null
}

uses_tar() {
    tar -C "$sources" -cf "$1/a.tar" .
    mkdir "$1/tar"
    tar -C "$1/tar" -xpf "$1/a.tar"
    same "$sources" "$1/tar"
    tar -C "$1/tar" -df "$1/a.tar"
}

uses_rsync() {
    rsync -a "$sources/" "$1/rsync/"
    same "$sources" "$1/rsync"
    printf 'changed\n' >"$1/rsync/deep/er/script"
    rm -r "$1/rsync/rust"
    rsync -a --delete --checksum "$sources/" "$1/rsync/"
    same "$sources" "$1/rsync"
    # A second time nothing is left to do.
    [[ -z $(rsync -ai "$sources/" "$1/rsync/") ]]
}

uses_dd() {
    dd if="$sources/deep/random" of="$1/dd" bs=47001 status=none
    dd if="$sources/deep/random" of="$1/dd" bs=4096 skip=7 seek=7 count=3 conv=notrunc,fsync status=none
    cmp "$sources/deep/random" "$1/dd"
    dd if="$1/dd" bs=1M status=none | cmp - "$sources/deep/random"
    dd if=/dev/zero of="$1/hole" bs=1 count=1 seek=1M status=none && [[ $(stat -c %s "$1/hole") == 1048577 ]]
}

uses_fio() {
    fio --name=verified --directory="$1" --rw=randrw --bs=4k-64k --size=4m --verify=crc32c --do_verify=1 --ioengine=psync \
        --numjobs=2 --fsync=64 --verify_state_save=0 --minimal >"$1.fio" && rm "$1.fio"
}

uses_python() {
    python3 - "$1" <<'PYTHON'
import json, os, pathlib, shelve, shutil, sys, tempfile
at = pathlib.Path(sys.argv[1]) / "python"
at.mkdir()
(at / "a.json").write_text(json.dumps(list(range(1000))))
assert json.loads((at / "a.json").read_text())[999] == 999
with open(at / "log", "a") as log:
    for n in range(2000):
        print("line", n, file=log)
assert sum(1 for _ in open(at / "log")) == 2000
with tempfile.NamedTemporaryFile(dir=at) as f:
    f.write(b"bytes"), f.flush()
    assert os.stat(f.name).st_size == 5
with open(at / "both", "w+b") as f:
    f.write(b"x" * 100_000), f.seek(50_000), f.write(b"y" * 10), f.seek(49_999)
    assert f.read(12) == b"x" + b"y" * 10 + b"x"
os.replace(at / "both", at / "log")
assert (at / "log").stat().st_size == 100_000
with shelve.open(str(at / "shelf")) as shelf:
    shelf["key"] = [1, 2, 3]
with shelve.open(str(at / "shelf")) as shelf:
    assert shelf["key"] == [1, 2, 3]
shutil.copytree(at, at.with_name("python2"))
assert sorted(os.listdir(at)) == sorted(os.listdir(at.with_name("python2")))
shutil.rmtree(at), shutil.rmtree(at.with_name("python2"))
PYTHON
}

uses_sqlite3() {
    local mode
    for mode in delete wal; do
        sqlite3 "$1/$mode.db" "pragma journal_mode=$mode" "create table t(a integer primary key, b text)" \
            "with recursive n(x) as (select 1 union all select x+1 from n where x<3000) insert into t select x, hex(randomblob(20)) from n" \
            "begin; update t set b = 'rolled back'; rollback" "delete from t where a % 3 = 0" "vacuum" >/dev/null
        [[ $(sqlite3 "$1/$mode.db" "select count(*), sum(a) from t where b != 'rolled back'") == "2000|3000000" ]]
        [[ $(sqlite3 "$1/$mode.db" "pragma integrity_check") == ok ]]
    done
}

uses_git() {
    local settings=(-c user.name=a -c user.email=a@b -c commit.gpgsign=false -c init.defaultBranch=main -c safe.directory='*')
    git "${settings[@]}" clone -q --no-hardlinks "$work/repository" "$1/clone"
    # Of modes git keeps who may execute alone.
    diff -r "$work/repository/deep" "$1/clone/deep"
    [[ -x $1/clone/deep/er/script ]]
    cd "$1/clone"
    printf 'more\n' >>deep/er/script
    git "${settings[@]}" commit -qam "more"
    git gc -q
    git fsck --no-progress
    [[ -z $(git status --porcelain) && $(git log --oneline | wc -l) == 2 ]]
}
cp -r "$sources" "$work/repository"
git -C "$work/repository" init -q -b main
git -C "$work/repository" add .
git -C "$work/repository" -c user.name=a -c user.email=a@b commit -qm first

stays() { # what was written is there when it is mounted again
    listing "$work/at/$1" >"$work/before"
    [[ -s $work/before ]]
    down "$1"
    [[ -z $(ls -A "$work/at/$1") ]]
    up "$1"
    listing "$work/at/$1" | diff "$work/before" -
    down "$1"
}

programs=(cp ls_and_find tar rsync dd fio python sqlite3 git)
for program in "${programs[@]}"; do
    command -v "${program%%_*}" >/dev/null || [[ $program == python ]] || echo "skipped: $program through FUSE: it is not installed"
done
mkdir "$work/plain"
for program in "${programs[@]}"; do
    command -v "${program%%_*}" >/dev/null || [[ $program == python ]] || continue
    try "plain $program" "uses_$program" "$work/plain"
done
for name in direct flat-3 container-3 small_file memory; do
    try "$name is mounted" up "$name"
    for program in "${programs[@]}"; do
        command -v "${program%%_*}" >/dev/null || [[ $program == python ]] || continue
        # Memory keeps neither modes nor owners, which these compare.
        [[ $name != memory || ! $program =~ ^(cp|ls_and_find|tar|rsync|python|git)$ ]] || continue
        try "$name $program" "uses_$program" "$work/at/$name"
    done
    [[ $name != memory ]] || { try "$name is unmounted" down "$name" && continue; }
    try "$name keeps everything over an unmount" stays "$name"
done

# --- Call by call.

compares() { # compares NAME LAYOUT
    up "$1"
    local status=0
    python3 "$here/fuse/names.py" "$work/plain" "$work/at/$1" "$2" >"$work/names" || status=$?
    down "$1"
    grep -v '^ok' "$work/names" || true
    return "$status"
}
# `flat` makes hard links only within one store: compared on a single store.
for name in direct flat container; do
    try "$name names, modes, owners, links, times and errors" compares "$name" "$name"
    grep -hs '^[0-9]* calls' "$work/names" || true
    rm -f "$work/names"
done

# --- The exerciser.

cc -std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror "$here/exercise.c" -o "$work/exercise"
seeds=1 operations=600
[[ ${LONG:-0} == 0 ]] || seeds=10 operations=20000
exercises() { # exercises NAME LEFT_OUT [OPTION...]
    local seed status=0
    up "$1" "${@:3}"
    for ((seed = 1; seed <= seeds; seed++)); do
        "$work/exercise" -s "$seed" -n "$operations" ${2:+-x "$2"} "$work/at/$1/exercised-$seed" || status=1
    done
    down "$1"
    return "$status"
}
for name in direct flat flat-3 container container-3 small_file; do
    # A rename to another store copies the file: who has it open goes on with the old one.
    left_out=""
    [[ $name != flat-3 ]] || left_out=r
    try "$name exercised" exercises "$name" "$left_out"
done
try "flat exercised through the page cache" exercises flat "" --cache through
try "container exercised with writes kept by the kernel" exercises container "" --cache writeback

# --- Processes that go.

server() { getfattr --only-values -n user.thalweg.process "$work/at/$1" 2>/dev/null || python3 -c 'import os, sys; print(os.getxattr(sys.argv[1], "user.thalweg.process").decode())' "$work/at/$1"; }

killed_daemon() {
    local point=$work/at/$1
    up "$1"
    printf 'synced\n' >"$point/synced"
    sync "$point/synced"
    kill -9 "$(server "$1")"
    # Dead, and told so.
    dead() {
        local said
        said=$(stat -f "$point" 2>&1) || true
        [[ $said == *"not connected"* ]]
    }
    soon dead
    down "$1"
    [[ -z $(ls -A "$point") ]]
    up "$1"
    [[ $(cat "$point/synced") == synced ]]
    kill -9 "$(server "$1")"
    # Mounted over the dead one.
    up "$1"
    [[ $(cat "$point/synced") == synced ]]
    down "$1"
    not_mounted "$point"
}
for name in direct container-3; do
    try "$name: a daemon that was killed leaves a mount that can be taken away or mounted again" killed_daemon "$name"
done

killed_program() {
    local point=$work/at/$1 program
    rm -f "$work/said"
    up "$1"
    python3 -c 'import sys, time; f = open(sys.argv[1], "wb", 0); f.write(b"written"); print("written", flush=True); time.sleep(60)' \
        "$point/of the dead" >"$work/said" &
    program=$!
    soon grep -q written "$work/said"
    kill -9 "$program"
    wait "$program" || true
    [[ $(cat "$point/of the dead") == written ]]
    # Nothing is busy: its handles were closed.
    down "$1"
    up "$1" && [[ $(cat "$point/of the dead") == written ]] && down "$1"
}
for name in direct container-3 small_file; do
    try "$name: a program that was killed leaves no open file" killed_program "$name"
done

ends_while_open() { # ends_while_open NAME SIGNAL
    local point=$work/at/$1
    up "$1"
    exec 7>"$point/open"
    printf 'written' >&7
    # Not by force.
    if down "$1" 2>"$work/busy"; then return 1; fi
    grep -q -i busy "$work/busy"
    local server
    server=$(server "$1")
    kill "-$2" "$server"
    gone() { ! kill -0 "$server"; }
    soon gone
    exec 7>&- || true
    not_mounted "$point"
    up "$1" && [[ $(cat "$point/open") == written ]] && down "$1"
}
for name in direct container-3; do
    try "$name: SIGTERM closes what is open and publishes it" ends_while_open "$name" TERM
    try "$name: SIGINT as well" ends_while_open "$name" INT
done

lazily() {
    up container
    exec 7>"$work/at/container/lazy"
    printf 'written' >&7
    "$thalweg" unmount --lazy "$work/at/container"
    exec 7>&- || true
    up container && [[ $(cat "$work/at/container/lazy") == written ]] && down container
}
try "unmount --lazy closes what is open" lazily

close_tells() {
    # Others see a file when close returns. The handle ends a moment later, which the system tells nobody: before that the file
    # cannot be flattened, as its writer might go on.
    up container-3
    printf 'closed' >"$work/at/container-3/closed"
    [[ $("$thalweg" run -- cat /container-3/closed) == closed ]]
    soon "$thalweg" layout flatten /container-3/closed "$work/flattened"
    [[ $(cat "$work/flattened") == closed ]]
    down container-3
}
try "a file that was closed is seen by others" close_tells

open_handles() { # open_handles NAME: a program under preload, or one of another mount of the same files, is the other process
    local status=0
    up "$1" --timeout 0
    mkdir -p "$work/at/second"
    "$thalweg" mount "$work/at/second" --path "/$1" --timeout 0
    limited 300 python3 "$here/open_handles.py" reopened "$thalweg" "run:/$1/open" "$work/at/$1/open" || status=1
    limited 300 python3 "$here/open_handles.py" reopened "$thalweg" "$work/at/$1/open2" "$work/at/second/open2" || status=1
    down second && down "$1" && return "$status"
}
# Of `container` the short file is inline, of `container-3` in data logs.
for name in container container-3 small_file flat; do many "$name" open_handles "$name"; done

# shellcheck disable=SC2016  # the inner shell expands it
appends_behind() { # appends_behind NAME [OPTION...]: what others append while the kernel still has an earlier length
    local lines=$work/at/$1/lines.$# n
    up "$@"
    "$thalweg" run -- sh -c ': >"$1"' _ "/$1/lines.$#"
    by_others() { "$thalweg" run -- sh -c 'echo "$2" >>"$1"' _ "/$1" "$2"; }
    for ((n = 0; n < 40; n += 4)); do
        cat "$lines" >/dev/null
        by_others "$1/lines.$#" "$n"
        echo $((n + 1)) >>"$lines"
        by_others "$1/lines.$#" $((n + 2))
        # A handle that also reads.
        python3 -c 'import sys; print(sys.argv[2], file=open(sys.argv[1], "a+"))' "$lines" $((n + 3))
    done
    diff <(seq 0 39) "$lines" || { down "$1" && return 1; }
    down "$1"
    diff <(seq 0 39) <("$thalweg" run -- cat "/$1/lines.$#")
}
for name in container container-3 small_file flat-3 direct; do
    try "$name: an append goes behind what others appended" appends_behind "$name"
done
try "direct, without passthrough: an append goes behind what others appended" appends_behind direct --cache through

asked() { # operations on names that the store was asked for so far; what failed was one too
    cat "$work/counts"/* | awk '$1 ~ /^(OpenWrite|OpenRead|Stat|List|Rename|Remove|MakeFolder|SyncFolder|Attributes|Failed)$/ { sum += $2 } END { print sum }'
}
few_names() {
    local point=$work/at/counted before
    # What is told of a folder holds as long as the test takes.
    up counted --timeout 3600
    mkdir "$point/d" && printf 'first' >"$point/d/first"
    before=$(asked)
    python3 -c 'import sys; [open(f"{sys.argv[1]}/d/file.{n}", "xb").write(b"x" * 1024) for n in range(300)]' "$point"
    (($(asked) - before <= 30))
    [[ $(find "$point/d" -type f -size 1k | wc -l) == 301 ]]
    down counted
}
try "small files are made without a question to the store for each" few_names

# What the kernel asks for each file, and how often the process that serves the mount names a file to the system: of what is
# waited for, whatever the machine.
asks() { # asks NAME WHAT WORD:MOST...
    local name=$1 what=$2 pair word most count status=0
    shift 2
    for pair in "$@"; do
        word=${pair%:*} most=${pair#*:}
        count=$(awk -v what="$what" -v word="$word" '$1 == what && $2 == word { print $3 }' "$work/asked.$name")
        if ((${count:-0} > most)); then
            echo "$name, $what: $word is asked ${count} times, expected at most $most"
            status=1
        fi
    done
    return "$status"
}
few_requests() {
    local name status=0
    for name in direct container small_file; do
        # What the kernel is told holds as long as the test takes.
        up "$name" --timeout 3600
        python3 "$here/fuse/requests.py" "$work/at/$name" >"$work/asked.$name" || status=1
        down "$name"
    done
    asks direct make lookup:1 getattr:1 create:1 getxattr:1 write:0 flush:1 release:1 names:4 looks:1 || status=1
    asks direct read lookup:1 getattr:0 open:1 read:0 flush:0 release:1 names:3 looks:1 || status=1
    asks direct remove lookup:1 getattr:1 unlink:1 names:3 || status=1
    for name in container small_file; do
        asks "$name" make lookup:1 getattr:1 create:1 getxattr:0 write:1 flush:1 release:1 || status=1
        asks "$name" read lookup:1 getattr:0 open:1 read:1 flush:0 release:1 || status=1
        asks "$name" remove lookup:1 getattr:1 unlink:1 || status=1
    done
    # A list tells the attributes of all names that it has; a container opens the object of each once.
    for name in direct container small_file; do
        asks "$name" show lookup:1 readdir:0 getattr:4 || status=1
    done
    asks container show names:1 looks:1 || status=1
    asks container make names:7 looks:5 || status=1
    asks container read names:3 looks:3 || status=1
    asks container remove names:5 looks:3 || status=1
    for name in make read show remove; do asks small_file "$name" names:1 looks:1 || status=1; done
    # For ten files of a repository; versions of git differ a little.
    for name in direct container small_file; do
        asks "$name" clone lookup:95 getattr:78 setattr:14 create:27 rename:4 getxattr:27 open:27 read:27 write:29 || status=1
    done
    asks direct clone names:360 looks:60 || status=1
    asks container clone names:400 looks:310 || status=1
    asks small_file clone names:560 looks:20 || status=1
    return "$status"
}
if command -v strace >/dev/null; then
    try "few requests for each file that is made, read, listed, removed" few_requests
else
    echo "skipped: requests of the kernel for each file: strace is not installed"
fi

all_of_them() {
    "$thalweg" mount "$work/at/all" --path all
    [[ -d $work/at/all/container-3 ]]
    printf 'text' >"$work/at/all/direct/through all"
    [[ $(cat "$work/stores/direct.0/through all") == text ]]
    mv "$work/at/all/direct/through all" "$work/at/all/flat/moved"
    [[ $(cat "$work/at/all/flat/moved") == text ]]
    if touch "$work/at/all/x" 2>/dev/null; then return 1; fi
    "$thalweg" unmount "$work/at/all"
}
try "all mounts below one mount point" all_of_them

as_another_user() {
    command -v setpriv fusermount3 >/dev/null
    mkdir -p "$work/theirs" "$work/their-store"
    chown nobody "$work/theirs" "$work/their-store"
    chmod 666 /dev/fuse
    local user=(setpriv --reuid nobody --clear-groups env "THALWEG_MOUNTS=$work/theirs.toml" HOME=/nonexistent)
    printf '[[mount]]\npath = "/theirs"\nlayout = "direct"\nstore = "posix:%s"\n' "$work/their-store" >"$work/theirs.toml"
    "${user[@]}" "$thalweg" mount "$work/theirs"
    "${user[@]}" sh -c "echo text >'$work/theirs/f' && cat '$work/theirs/f' && chmod 600 '$work/theirs/f'"
    # Not even root comes in.
    if ls "$work/theirs" 2>/dev/null; then return 1; fi
    [[ $(stat -c '%U %a' "$work/their-store/f") == "nobody 600" ]]
    "${user[@]}" "$thalweg" unmount "$work/theirs"
    not_mounted "$work/theirs"
}
if ! command -v fusermount3 >/dev/null; then
    echo "skipped: a mount of a user who is not root: fusermount3 is not installed"
elif ! setpriv --reuid nobody --clear-groups test -x "$thalweg"; then
    echo "skipped: a mount of a user who is not root: others may not enter the folder of the build"
else
    try "a user who is not root mounts for itself" as_another_user
fi

refuses() { # refuses PART COMMAND...: fails, and says PART
    if "${@:2}" 2>"$work/said"; then return 1; fi
    grep -q -- "$1" "$work/said" || { cat "$work/said" >&2 && return 1; }
}
twice() { # a second mount at one folder is refused, and the first stays
    up container
    local status=0
    "$thalweg" mount "$work/at/container" --path /direct >"$work/told" 2>&1 || status=$?
    cat "$work/told"
    [[ $status == 3 ]]
    grep -q 'has mounted there already' "$work/told"
    [[ $(grep -c "$work/at/container " /proc/mounts) == 1 ]]
    down container && not_mounted "$work/at/container"
}
try "a folder where something is mounted is not mounted again" twice

fills_all() { # large and small files made through one mount lie on all stores of a container, each of which gets its share
    local k store sizes=() all=0 size
    table filled container 3
    up filled
    for ((k = 0; k < 90; k++)); do head -c 50000 /dev/urandom >"$work/at/filled/large.$k" && echo small >"$work/at/filled/small.$k"; done
    down filled
    for store in 0 1 2; do
        size=$(find "$work/stores/filled.$store" -type f -printf '%s\n' | awk '{ sum += $1 } END { print sum + 0 }')
        sizes+=("$size")
        all=$((all + size))
    done
    echo "bytes on the stores: ${sizes[*]}"
    # A third is expected; chance alone gives one of three less than a tenth of 90 files once in a million times.
    for size in "${sizes[@]}"; do ((size * 10 > all)) || return 1; done
    rm -r "$work/stores"/filled.*
}
try "one mount fills all stores of a container" fills_all

# A store that is full takes no more: what programs wrote and nobody was told of is told to whoever unmounts.
told_at_unmount() {
    local pid status=0 log
    mkdir -p "$work/full" "$work/at/full"
    mount -t tmpfs -o size=3m none "$work/full"
    printf '[[mount]]\npath = "/full"\nlayout = "container"\nstore = "posix:%s"\n' "$work/full" >"$work/full.toml"
    THALWEG_MOUNTS=$work/full.toml "$thalweg" mount "$work/at/full" --path /full
    "$thalweg" mount --status --json >"$work/status.json"
    log=$(python3 - "$work/status.json" "$work/at/full" <<'PYTHON'
import json, os, stat, sys
[mount] = [m for m in json.load(open(sys.argv[1]))["mounts"] if m["mount_point"] == sys.argv[2]]
assert mount["mount"] == "/full" and mount["errors"] == 0 and mount["last_error"] is None, mount
os.kill(mount["pid"], 0)
assert stat.S_IMODE(os.stat(mount["log"]).st_mode) == 0o600, mount
print(mount["log"])
PYTHON
    )
    python3 - "$work/at/full/file" "$work/wrote" <<'PYTHON' &
import os, sys, time
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
os.write(fd, b"x" * 1500000)
open(sys.argv[2], "w").close()
time.sleep(600)
PYTHON
    pid=$!
    soon test -e "$work/wrote"
    # Where its marks lie there is no folder any more. (On a full store there is room kept for them.)
    rm -r "$work/full/.thalweg/c"
    touch "$work/full/.thalweg/c"
    "$thalweg" unmount --lazy "$work/at/full" >"$work/told" 2>&1 || status=$?
    kill "$pid" 2>/dev/null || true
    cat "$work/told"
    umount "$work/full"
    [[ $status == 3 ]]
    grep -q 'cannot publish' "$work/told"
    grep -q 'Not a directory' "$log"
    rm -f "$log" "${log%.log}.unpublished"
}
try "what could not be published is told by unmount --lazy, in the log and by mount --status" told_at_unmount

told_or_there() { # told_or_there LAYOUT: unmount --lazy on a full store fails and says why, or all of the open file is there
    local pid status=0
    mkdir -p "$work/full" "$work/at/full"
    mount -t tmpfs -o size=3m none "$work/full"
    printf '[[mount]]\npath = "/full"\nlayout = "%s"\nstores = ["posix:%s"]\n' "$1" "$work/full" >"$work/full.toml"
    THALWEG_MOUNTS=$work/full.toml "$thalweg" mount "$work/at/full" --path /full
    rm -f "$work/wrote"
    python3 - "$work/at/full/file" "$work/wrote" <<'PYTHON' &
import os, sys, time
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
os.write(fd, b"x" * 20000)
open(sys.argv[2], "w").close()
time.sleep(600)
PYTHON
    pid=$!
    soon test -e "$work/wrote"
    dd if=/dev/zero of="$work/full/filler" bs=4k status=none 2>/dev/null || true
    "$thalweg" unmount --lazy "$work/at/full" >"$work/told" 2>&1 || status=$?
    kill "$pid" 2>/dev/null || true
    echo "unmount ends with $status"
    cat "$work/told"
    if [[ $status == 0 ]]; then
        [[ $(THALWEG_MOUNTS=$work/full.toml "$thalweg" run -- cat /full/file | wc -c) == 20000 ]] || status=1
    elif [[ $status == 3 ]]; then
        grep -q 'cannot publish' "$work/told" && status=0
    fi
    umount "$work/full"
    return "$status"
}
for layout in container small_file flat; do
    try "unmount --lazy on a full store loses nothing without a word ($layout)" told_or_there "$layout"
done

errors_are_counted() { # a damaged file is an error of the mount
    local log
    up container
    printf 'x%.0s' {1..3000} >"$work/at/container/damaged"
    down container
    # A small file lies in the object of its name.
    printf 'y' | dd of="$work/stores/container.0/damaged" bs=1 seek=2000 conv=notrunc status=none
    up container
    if cat "$work/at/container/damaged" >/dev/null 2>&1; then return 1; fi
    "$thalweg" mount --status >"$work/status"
    cat "$work/status"
    grep -A2 "^$work/at/container " "$work/status" | grep -q 'last error'
    log=$(grep -A2 "^$work/at/container " "$work/status" | sed -n 's/^ *log: //p')
    [[ -s $log ]]
    down container
    rm -f "$log" "$work/at/container/damaged"
}
try "errors of a mount are counted, written and told" errors_are_counted

try "a mount point that is not there is said" refuses "No such file" "$thalweg" mount "$work/at/nowhere" --path /direct
try "a mount that is not in the table is said" refuses "has no mount /other" "$thalweg" mount "$work/at/direct" --path /other
try "which of several must be told" refuses "several mounts: choose" "$thalweg" mount "$work/at/direct"
try "what is not mounted is not unmounted" refuses "no mount of Thalweg" "$thalweg" unmount "$work/at/direct"

exit "$failed"
