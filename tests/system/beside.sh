#!/usr/bin/env bash
# Tools and doors beside writers of `container` files: shells that append, two through preload and one through FUSE, while `thalweg layout`
# repairs, checks, compacts and flattens in a loop, on one store, on three and on a burst buffer; `check` of folders of `container` and
# `small_file` in which such shells create, append, rename and remove; a writer that is killed; files that other users must not read.
# shellcheck disable=SC2317,SC2016  # functions are called by name, through try; inner shells expand what is quoted
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
source scripts/build.sh
build_all
work=$PWD/build/beside
mountpoint -q "$work/at" 2>/dev/null && umount -l "$work/at"
source tests/checks.sh
trap 'mountpoint -q "$work/at" && umount -l "$work/at"' EXIT
# The third writer goes through FUSE where it can.
fuse=0
if [[ -e /dev/fuse && $(id -u) == 0 ]]; then
    fuse=1
else
    echo "skipped: a writer through FUSE beside tools, and a killed writer's file through FUSE: no /dev/fuse, or not root"
fi
thalweg=$built/thalweg
seconds=$((${LONG:-0} == 1 ? 60 : 6))

export THALWEG_MOUNTS=$work/mounts.toml
mkdir -p "$work/one" "$work/small" "$work/packed" "$work/at" "$work"/three.{0,1,2} "$work"/{fast,slow}
{
    printf '[[mount]]\npath = "/beside/small"\nlayout = "small_file"\nstores = ["posix:%s"]\n\n' "$work/small"
    # Short logs, and files of their own for what is larger than 16 KiB.
    printf '[[mount]]\npath = "/beside/packed"\nlayout = "small_file"\nstores = ["posix:%s"]\nsmall = "16KiB"\nlog = "64KiB"\n\n' "$work/packed"
    printf '[[mount]]\npath = "/beside/tiered"\nlayout = "container"\nstore = "tiered:posix:%s=>posix:%s"\ndrain = "manual"\n\n' "$work/fast" "$work/slow"
    printf '[[mount]]\npath = "/beside/one"\nlayout = "container"\nstores = ["posix:%s"]\n\n' "$work/one"
    printf '[[mount]]\npath = "/beside/three"\nlayout = "container"\nstores = ["posix:%s", "posix:%s", "posix:%s"]\n' \
        "$work/three.0" "$work/three.1" "$work/three.2"
} >"$THALWEG_MOUNTS"

appends='n=0; while [[ ! -e "$2" ]]; do echo "$3 $n" >>"$1" || exit 1; n=$((n + 1)); done; echo "$n" >"$4"'

# Who only looks at folders (an indexer, du) may hold the mount for a moment.
unmount() {
    local tries
    for ((tries = 0; tries < 20; tries++)); do
        "$thalweg" unmount "$work/at" 2>"$work/unmount.log" && return
        sleep 0.5
    done
    cat "$work/unmount.log"
    return 1
}

# beside FILE COMMAND...: three shells append lines to FILE, one of them through FUSE; the command runs beside them, again and again.
beside() {
    local status=0
    [[ $fuse == 0 ]] || "$thalweg" mount "$work/at" --path "${1%/*}"
    beside_writers "$@" || status=1
    [[ $fuse == 0 ]] || unmount
    return "$status"
}
beside_writers() {
    local file=$1 stop=$work/stop pids=() pid number status=0 rounds=0 end
    shift
    rm -f "$stop" "$work"/wrote.*
    : >"$work/tool.log"
    "$thalweg" run -- bash -c ': >"$1"' _ "$file" || return 1
    for number in 1 2 3; do
        if [[ $number == 3 && $fuse == 1 ]]; then
            bash -c "$appends" _ "$work/at/${file##*/}" "$stop" "$number" "$work/wrote.$number" 2>>"$work/writers.log" &
        else
            "$thalweg" run -- bash -c "$appends" _ "$file" "$stop" "$number" "$work/wrote.$number" 2>>"$work/writers.log" &
        fi
        pids+=($!)
    done
    end=$((SECONDS + seconds))
    while ((SECONDS < end)); do
        "$@" "$file" >>"$work/tool.log" 2>&1 || status=$?
        # 3: it is being written, which some tools refuse.
        [[ $status == 0 || $status == 3 ]] || break
        grep -q "not whole" "$work/tool.log" && status=1 && break
        status=0
        rounds=$((rounds + 1))
    done
    : >"$stop"
    for pid in "${pids[@]}"; do wait "$pid" || { echo "a writer failed" && cat "$work/writers.log" && return 1; }; done
    [[ $status == 0 || $status == 3 ]] || { tail "$work/tool.log" && return 1; }
    ((rounds > 1)) || return 1
    for number in 1 2 3; do
        seq -f "$number %.0f" 0 $(($(cat "$work/wrote.$number") - 1))
    done | LC_ALL=C sort >"$work/expected"
    "$thalweg" run -- cat "$file" | LC_ALL=C sort >"$work/found"
    echo "$rounds rounds, $(wc -l <"$work/found") lines of $(wc -l <"$work/expected")"
    cmp "$work/expected" "$work/found"
}
flat() { rm -f "$work/flat" && "$thalweg" layout flatten "$1" "$work/flat"; }
for mount in one three tiered; do
    for tool in repair check compact stat; do
        try "nothing is lost beside $tool ($mount)" beside "/beside/$mount/$tool" "$thalweg" layout "$tool"
    done
done
for tool in check compact; do
    try "nothing is lost beside $tool (packed)" beside "/beside/packed/$tool" "$thalweg" layout "$tool"
done
try "nothing is lost beside flatten" beside /beside/one/flatten flat
touches() { "$thalweg" run -- bash -c 'touch "$1" && chmod 640 "$1" && stat "$1" && cat "$1"' _ "$1"; }
try "nobody fails beside chmod, touch and stat" beside /beside/one/touched touches

# A shell that holds a file open: printf is its own, so that nothing closes the file.
holds() { # holds FILE COMMAND...
    local file=$1
    shift
    mkfifo "$work/go.$$" "$work/ready.$$"
    "$thalweg" run -- bash -c 'exec 3>>"$1"; printf "more\n" >&3; echo >"$3"; read -r _ <"$2"' _ "$file" "$work/go.$$" "$work/ready.$$" &
    local writer=$! status=0
    read -r _ <"$work/ready.$$"
    "$@" || status=$?
    echo >"$work/go.$$"
    wait "$writer"
    rm "$work/go.$$" "$work/ready.$$"
    return "$status"
}
refuses_live() {
    "$thalweg" run -- bash -c 'echo closed >"$1"' _ /beside/one/live
    flattening() { ! "$thalweg" layout flatten /beside/one/live "$work/prefix" 2>"$work/why" && grep -q "has not closed" "$work/why" && [[ ! -e $work/prefix ]]; }
    holds /beside/one/live flattening
    holds /beside/one/live "$thalweg" layout check /beside/one/live
    "$thalweg" layout flatten /beside/one/live "$work/whole" && [[ $(cat "$work/whole") == $'closed\nmore\nmore' ]]
}
try "a file that is being written is not flattened, and not called broken" refuses_live

# Creates small files and a large one, appends, renames and removes; every third file stays.
works='n=0; while [[ ! -e "$2" ]]; do
    echo "$3 $n" >"$1/kept.$3.$n" && echo "$3 $n" >>"$1/grows.$3" && head -c 40000 /dev/zero >"$1/large.$3" || exit 1
    cat "$1/kept.$3.$n" >>"$1/large.$3" && mv "$1/large.$3" "$1/moved.$3" && rm "$1/moved.$3" || exit 1
    if ((n % 3)); then rm "$1/kept.$3.$n" || exit 1; fi
    n=$((n + 1))
done; echo "$n" >"$4"'
# busy_folder MOUNT TOOL: three shells work in one folder, one of them through FUSE, while `thalweg layout TOOL` looks at the folder again
# and again; what it says stands in tool.log.
busy_folder() {
    local status=0
    "$thalweg" run -- mkdir -p "$1/busy.$2"
    [[ $fuse == 0 ]] || "$thalweg" mount "$work/at" --path "$1"
    busy_writers "$@" || status=1
    [[ $fuse == 0 ]] || unmount
    return "$status"
}
busy_writers() {
    local folder=$1/busy.$2 stop=$work/stop pids=() pid number n status=0 rounds=0 end
    rm -f "$stop" "$work"/wrote.*
    : >"$work/tool.log"
    for number in 1 2 3; do
        if [[ $number == 3 && $fuse == 1 ]]; then
            bash -c "$works" _ "$work/at/busy.$2" "$stop" "$number" "$work/wrote.$number" 2>>"$work/writers.log" &
        else
            "$thalweg" run -- bash -c "$works" _ "$folder" "$stop" "$number" "$work/wrote.$number" 2>>"$work/writers.log" &
        fi
        pids+=($!)
    done
    end=$((SECONDS + seconds))
    while ((SECONDS < end)); do
        "$thalweg" layout "$2" "$folder" >>"$work/tool.log" 2>&1 || status=$?
        [[ $status == 0 ]] || break
        rounds=$((rounds + 1))
    done
    : >"$stop"
    local failures=0
    for pid in "${pids[@]}"; do wait "$pid" || failures=$((failures + 1)); done
    [[ $failures == 0 ]] || { echo "$failures writers failed" && cat "$work/writers.log" && return 1; }
    [[ $status == 0 ]] || { echo "layout $2 ended with $status" && tail -n 30 "$work/tool.log" && return 1; }
    # What is being written is no damage.
    ! grep -E "^not whole|[1-9][0-9]* of them not whole|no complete record|No such file" "$work/tool.log" || return 1
    ((rounds > 1)) || { echo "$rounds rounds" && return 1; }
    for number in 1 2 3; do
        for ((n = 0; n < $(cat "$work/wrote.$number"); n += 3)); do echo "kept.$number.$n: $number $n"; done
        seq -f "grows.$number: $number %.0f" 0 $(($(cat "$work/wrote.$number") - 1))
    done | LC_ALL=C sort >"$work/expected"
    "$thalweg" run -- bash -c 'cd "$1" && for file in *; do while read -r line; do echo "$file: $line"; done <"$file"; done' _ "$folder" | LC_ALL=C sort >"$work/found"
    echo "$rounds rounds, $(wc -l <"$work/found") lines of $(wc -l <"$work/expected")"
    cmp "$work/expected" "$work/found"
}
for mount in packed one three; do
    try "check of a folder in which files come and go reports no damage ($mount)" busy_folder "/beside/$mount" check
done
# Three processes make, rename and remove the same names: one truncates, or removes, what another one writes.
same_names() {
    local stop=$work/stop pids=() pid end rounds=0 status=0
    "$thalweg" run -- mkdir -p /beside/one/same
    rm -f "$stop" "$work/same.log"
    : >"$work/tool.log"
    for _ in 1 2 3; do
        # What one of them loses by another's removal is its own error, said on its standard error.
        "$thalweg" run -- bash -c 'block=$(printf "%40000s" ""); while [[ ! -e "$2" ]]; do
            for n in 0 1 2; do echo "$block" >"$1/new.$n"; mv "$1/new.$n" "$1/moved.$n"; rm "$1/moved.$n"; done
        done' _ /beside/one/same "$stop" >>"$work/same.log" 2>&1 &
        pids+=($!)
    done
    end=$((SECONDS + seconds))
    while ((SECONDS < end)) && [[ $status == 0 ]]; do
        "$thalweg" layout check /beside/one/same >"$work/tool.log" 2>&1 || status=$?
        rounds=$((rounds + 1))
    done
    : >"$stop"
    for pid in "${pids[@]}"; do wait "$pid" || true; done
    [[ $status == 0 ]] || { tail -n 30 "$work/tool.log" && return 1; }
    echo "$rounds rounds"
    ((rounds > 10))
}
try "check of names that several processes make anew reports no damage" same_names
for tool in stat compact repair; do
    try "nothing is lost beside $tool of a folder in which files come and go (packed)" busy_folder /beside/packed "$tool"
done

# seen FOLDER...: everything in a store: names, lengths, times of change, contents.
seen() { find "$@" -printf '%p %y %s %i %m %T@ %C@\n' | LC_ALL=C sort && find "$@" -type f -exec sha256sum {} + | LC_ALL=C sort; }
unchanged() { # a folder whose writers are alive, one through each door, and pause
    local status=0
    "$thalweg" run -- bash -c 'mkdir "$1" && echo closed >"$1/closed" && head -c 40000 /dev/zero >"$1/large"' _ /beside/packed/quiet
    [[ $fuse == 0 ]] || "$thalweg" mount "$work/at" --path /beside/packed
    looks() {
        [[ $fuse == 0 ]] || { exec 4>>"$work/at/quiet/fuse" && printf 'more\n' >&4; }
        seen "$work/packed" >"$work/before.log"
        "$thalweg" layout check /beside/packed/quiet >"$work/told" 2>&1 || return 1
        "$thalweg" layout stat /beside/packed/quiet >>"$work/told" 2>&1 || return 1
        ! grep -E "^not whole|no complete record" "$work/told" || return 1
        seen "$work/packed" | diff "$work/before.log" - || return 1
        [[ $fuse == 0 ]] || exec 4>&-
    }
    holds /beside/packed/quiet/held looks || status=1
    [[ $fuse == 0 ]] || unmount
    [[ $status == 0 ]] && "$thalweg" run -- grep -q more /beside/packed/quiet/held
}
try "check of a folder of small files changes nothing beside living writers" unchanged

folders() {
    # One is too large to lie in the object of its name.
    "$thalweg" run -- bash -c 'mkdir -p "$1/deep" && echo a >"$1/a" && head -c 40000 /dev/zero >"$1/deep/b" && echo c >"$1/deep/c"' _ /beside/three/folder
    "$thalweg" layout check /beside/three/folder >"$work/told"
    grep -q "3 files, 0 of them not whole" "$work/told"
    local log
    log=$("$thalweg" layout map /beside/three/folder/deep/b | head -n 1 | sed -E 's/^[^ ]*  posix:([^ ]*) .*/\1/')
    printf x | dd of="$log" bs=1 seek=112 conv=notrunc 2>/dev/null
    local status=0
    "$thalweg" layout check /beside/three/folder >"$work/told" || status=$?
    [[ $status == 1 ]]
    grep -q "3 files, 1 of them not whole" "$work/told"
    "$thalweg" layout check /beside/three/folder/a
}
try "check takes a folder" folders

killed() { # killed MOUNT: doors and tools tell the same of a file whose writer was killed
    local file=/beside/$1/killed status=0
    "$thalweg" run -- bash -c 'echo closed >"$1"; exec 3>>"$1"; printf "never closed\n" >&3; kill -KILL $$' _ "$file" || true
    "$thalweg" run -- cat "$file" >"$work/by.preload"
    grep -q closed "$work/by.preload"
    if [[ $fuse == 1 ]]; then
        "$thalweg" mount "$work/at" --path "/beside/$1"
        cat "$work/at/killed" >"$work/by.fuse" || status=$?
        "$thalweg" unmount "$work/at"
        [[ $status == 0 ]]
        cmp "$work/by.preload" "$work/by.fuse"
    fi
    "$thalweg" layout flatten "$file" "$work/part" || status=$?
    [[ $status == 3 ]]
    if "$thalweg" layout check "$file"; then return 1; fi
    "$thalweg" layout repair "$file"
    "$thalweg" layout check "$file"
}
# Of `one` the session is in the object of the name, of `three` in a folder of logs.
for mount in one three; do
    try "a file whose writer was killed reads alike through each door, and tools say so ($mount)" killed "$mount"
done

private() { # what root keeps to itself another user gets neither through preload nor from below
    chmod 711 "$work" "$work/one" 2>/dev/null
    # Some lie in the object of their name, some are too large for that.
    "$thalweg" run -- bash -c 'large() { echo "$1" && head -c 40000 /dev/zero; }
        umask 077; echo secret >"$1/mine"; large secret >"$1/large"; umask 022; echo public >"$1/yours"; large public >"$1/theirs"
        mkdir -m 700 "$1/closed" && echo secret >"$1/closed/file" && large secret >"$1/closed/large"' _ /beside/one
    as_nobody() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
    local object found=0
    as_nobody grep -rl secret "$work/one" >"$work/seen" 2>/dev/null || true
    [[ ! -s $work/seen ]]
    # Nor by the names of objects, which another user is not told; of a public file those lead to its bytes.
    while read -r object; do
        found=$((found + 1))
        [[ $(stat -c %a "$object") == 600 ]] || continue
        if as_nobody cat "$object" >/dev/null 2>&1; then return 1; fi
    done < <(grep -rla secret "$work/one")
    [[ $found == 4 ]]
    found=0
    while read -r object; do
        found=$((found + 1))
        as_nobody grep -qa public "$object"
    done < <(grep -rla public "$work/one")
    [[ $found == 2 ]]
    [[ $("$thalweg" run -- cat /beside/one/yours) == public && $("$thalweg" run -- cat /beside/one/mine) == secret ]]
}
# through_preload MOUNT: as another user
through_preload() {
    local mount=$1 file
    chmod 711 "$work" && chmod 755 "$work/small" "$work/one" && chmod 644 "$THALWEG_MOUNTS"
    # By the shell alone: the log of another process that begins under umask 077 would be closed to others, and with it the folder.
    "$thalweg" run -- bash -c 'large() { printf "%s\n%40000s" "$1" ""; }
        umask 022; mkdir "$1/users" && cd "$1/users"; echo public >yours; large public >theirs
        umask 077; echo secret >mine; large secret >large; umask 022
        mkdir -m 700 closed && echo secret >closed/file && large secret >closed/large' _ "$mount"
    as_user() { setpriv --reuid 65534 --regid 65534 --clear-groups env HOME=/nonexistent "$thalweg" run -- "$@"; }
    for file in mine large closed/file closed/large; do
        ! as_user cat "$mount/users/$file" >"$work/seen" 2>"$work/told" || { echo "$file is read" && return 1; }
        [[ ! -s $work/seen ]]
        grep -qi 'permission denied' "$work/told"
    done
    ! as_user ls "$mount/users/closed" >"$work/seen" 2>"$work/told" || { echo "the closed folder is listed" && return 1; }
    [[ $(as_user cat "$mount/users/yours") == public ]]
    as_user head -n 1 "$mount/users/theirs" | grep -q public
}
if [[ $(id -u) == 0 ]]; then
    try "what only its owner may read nobody else reads, neither below" private
    if setpriv --reuid 65534 --regid 65534 --clear-groups test -x "$thalweg"; then
        for mount in one small; do try "nor through preload ($mount)" through_preload "/beside/$mount"; done
    else
        echo "skipped: what another user reads through preload: others may not enter the folder of the build"
    fi
else
    echo "skipped: what another user reads: only root becomes one"
fi
exit $failed
