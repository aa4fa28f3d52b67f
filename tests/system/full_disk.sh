#!/usr/bin/env bash
# A disk that is really full, a tmpfs of 4 MB: through the layouts' own calls, through preload and through FUSE, on every layout. What
# a program was told is written is there; what it was refused leaves the file as it was; names can be removed; room that was given
# back is used. Then BP files of every method, written by three ranks while there is little room or none.
#
#   ONLY=WORD runs the checks whose names hold it
# shellcheck disable=SC2317  # functions are called by name, through try
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
source scripts/build.sh
build_all
work=$(mktemp -d "${TMPDIR:-/tmp}/thalweg-full.XXXXXX")
source tests/checks.sh
chmod 755 "$work"
full=$work/full
cleanup() {
    ! mountpoint -q "$work/at" 2>/dev/null || "$thalweg" unmount --lazy "$work/at" || true
    umount -l "$work/at" 2>/dev/null || true
    umount -l "$full" 2>/dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT
mkdir -p "$full" "$work/at" "$work/slow"
if ! mount -t tmpfs -o size=4m none "$full" 2>"$work/why"; then
    echo "skipped: a full disk: no tmpfs can be mounted here ($(head -n 1 "$work/why"))"
    exit 0
fi
umount "$full"
doors=(api preload)
if [[ -e /dev/fuse && $(id -u) == 0 ]]; then doors+=(fuse); else echo "skipped: a full disk through FUSE: no /dev/fuse, or not root"; fi
export THALWEG_MOUNTS=$work/mounts.toml THALWEG_DRAIN=manual

# begin LAYOUT: an empty disk, and the table of a mount over it.
begin() {
    mount -t tmpfs -o size=4m none "$full"
    mkdir "$full/a" "$full/b"
    rm -rf "$work/slow" && mkdir "$work/slow"
    local stores="\"posix:$full/a\""
    case $1 in
        flat | container | folders) stores+=", \"posix:$full/b\"" ;;
        tiered) stores="\"tiered:posix:$full/a=>posix:$work/slow\"" ;;
    esac
    local layout=${1/tiered/container}
    printf '[[mount]]\npath = "/full"\nlayout = "%s"\nstores = [%s]\n' "${layout/folders/container}" "$stores" >"$THALWEG_MOUNTS"
    # Small files in the objects of their names, which over several stores only happens where it is asked for; and a container whose
    # small files, too, have folders of logs.
    [[ $1 != container ]] || echo 'inline = "32KiB"' >>"$THALWEG_MOUNTS"
    [[ $1 != folders ]] || echo 'inline = 0' >>"$THALWEG_MOUNTS"
}
end() { umount "$full"; }

# door DOOR COMMAND...: AT is the folder of the mount.
door() {
    local door=$1
    shift
    case $door in
        fuse) AT=$work/at limited 600 "$@" ;;
        *) AT=/full limited 600 "$thalweg" run -- "$@" ;;
    esac
}
# shellcheck disable=SC2016  # the inner shell expands them
{
    declare -A tools=(
        [create]='printf %s "$NEW" >"$AT/$1"'
        [append]='printf %s "$NEW" >>"$AT/$1"'
        [closed]='printf %s "$NEW" | dd status=none oflag=append conv=notrunc of="$AT/$1"'
        [rename]='mv "$AT/$1" "$AT/$1.renamed"'
        [remove]='rm "$AT/$1"'
        [chmod]='chmod 600 "$AT/$1"'
        [chmodx]='chmod 755 "$AT/$1"'
        [mkdir]='mkdir "$AT/$1"'
    )
}
# As tests/system/faults.rs has them.
export OLD='the content that was closed before' NEW='what this operation writes'
does() { # does DOOR OPERATION NAME
    case $1 in
        api) echo | limited 600 "$built/examples/faults" file "/full/$3" "$2" ;;
        *) door "$1" bash -c "${tools[$2]}" _ "$3" ;;
    esac
}
# Another process, which knows only what lies in the stores. A file that is not there says `none`.
# shellcheck disable=SC2016
content() { AT=/full "$thalweg" run -- bash -c 'if [[ -e $AT/$1 ]]; then cat "$AT/$1"; else printf none; fi' _ "$1"; }
is() { # is NAME CONTENT
    local got
    got=$(content "$1") || { echo "$1 cannot be read" && return 1; }
    [[ $got == "$2" ]] || { echo "$1 has '$got', not '$2'" && return 1; }
}
fill() { cat /dev/zero >"$full/filler" 2>/dev/null || true; }
names=(append grow rename remove chmod chmodx kept)

# shellcheck disable=SC2016
full_disk() { # full_disk DOOR LAYOUT
    local door=$1 layout=$2 name status
    for name in "${names[@]}"; do echo | "$built/examples/faults" file "/full/$name" prepare; done
    [[ $door != fuse ]] || "$thalweg" mount "$work/at" --path /full
    # One that has a log open already where the door is a process of its own.
    does "$door" create first
    is first "$NEW"
    fill
    status=0
    # A program that ignores the result of close hears of it from the layout or from preload; behind FUSE only `unmount` tells.
    local append=append
    [[ $door != fuse || $layout != tiered ]] || append=closed
    does "$door" "$append" append || status=$?
    # Refused and told, or there.
    if [[ $status == 0 ]]; then is append "$OLD$NEW"; else is append "$OLD"; fi
    # More than there is room for anywhere.
    status=0
    [[ $door == api ]] || door "$door" bash -c 'head -c 6000000 /dev/zero >>"$AT/$1"' _ grow || status=1
    [[ $door == api || $status != 0 ]] || { echo "6 MB fit on a full disk" && return 1; }
    content grow >"$work/grown"
    [[ $(head -c ${#OLD} "$work/grown") == "$OLD" ]] || { echo "what was in grow is lost" && return 1; }
    rm -f "$work/grown"
    for name in "${names[@]}"; do [[ $name == append || $name == grow ]] || is "$name" "$OLD"; done
    fill
    status=0
    does "$door" mkdir folder || status=$?
    [[ $status == 0 || $(content folder) == none ]] || { echo "a folder that was refused is there" && return 1; }
    local made=$status
    fill
    # Without any room names are removed, and of small files renamed and changed as well.
    does "$door" remove remove
    is remove none
    fill
    status=0
    does "$door" rename rename || status=$?
    if [[ $status == 0 ]]; then is rename none; is rename.renamed "$OLD"; else is rename "$OLD"; is rename.renamed none; fi
    [[ $status == 0 ]] || { echo "a full disk lets nothing be renamed" && return 1; }
    fill
    status=0
    does "$door" chmod chmod || status=$?
    # A small file that others may not read becomes an object of its own, for which there is no room.
    is chmod "$OLD"
    status=0
    [[ $door == api ]] || does "$door" chmodx chmodx || status=$?
    [[ $layout != small_file || $status == 0 ]] || { echo "a full disk lets no mode be changed" && return 1; }
    is chmodx "$OLD"
    # With room again everything goes on.
    rm "$full/filler"
    [[ $made == 0 ]] || does "$door" mkdir folder
    does "$door" create folder/inside
    is folder/inside "$NEW"
    local before
    before=$(content append)
    # The workers of the API write behind OLD, wherever the end is.
    [[ $door != api ]] || before=$OLD
    does "$door" append append
    is append "$before$NEW"
    does "$door" create later
    is later "$NEW"
    # What a close refused it tells who unmounts once more.
    [[ $door != fuse ]] || "$thalweg" unmount "$work/at" || [[ $append == closed ]]
    is kept "$OLD"
    is first "$NEW"
    is later "$NEW"
    is rename.renamed "$OLD"
    [[ $layout != container && $layout != folders && $layout != tiered ]] || for name in append kept first later; do "$thalweg" layout check "/full/$name"; done
}
for layout in direct flat container folders small_file tiered; do
    for door in "${doors[@]}"; do
        begin "$layout"
        try "a full disk takes nothing and loses nothing ($layout, $door)" full_disk "$door" "$layout"
        ! mountpoint -q "$work/at" || "$thalweg" unmount --lazy "$work/at" || umount -l "$work/at" || true
        end
    done
done

# Room for some of the bytes: writes may be accepted that a close refuses. Bash ignores the result of close and of dup2, dd looks at it.
# shellcheck disable=SC2016
ignored_closes() { # ignored_closes LAYOUT
    declare -A programs=(
        [close]='exec 5>>"$AT/$1"; printf %s "$BIG" >&5 || exit 1; exec 5>&-'
        [dup2]='printf %s "$BIG" >>"$AT/$1"'
        [dd]='printf %s "$BIG" | dd status=none bs=64k iflag=fullblock oflag=append conv=notrunc of="$AT/$1"'
    )
    local room program name status refused=0
    BIG=$(printf '%040000d' 0) && export BIG
    for room in 4 8 16 32 64; do
        for program in "${!programs[@]}"; do
            name=$program.$room status=0
            echo | "$built/examples/faults" file "/full/$name" prepare >/dev/null
            fill
            truncate -s -$((room * 1024)) "$full/filler"
            door preload bash -c "${programs[$program]}" _ "$name" >"$work/told" 2>&1 || status=$?
            rm "$full/filler"
            if [[ $status == 0 ]]; then
                is "$name" "$OLD$BIG" >"$work/is" || { echo "with $room KiB $program exits with 0" && cut -c1-100 "$work/is" && return 1; }
                continue
            fi
            # Told by the program or by preload, each once.
            refused=$((refused + 1))
            if ! grep -q 'No space left' "$work/told" || [[ $(grep -c '^thalweg: ' "$work/told") -gt 1 ]]; then
                echo "with $room KiB $program:" && cat "$work/told" && return 1
            fi
            [[ $program != dd ]] || grep -q '^dd: .*No space left' "$work/told" || { echo "dd hears nothing: $(cat "$work/told")" && return 1; }
            [[ $(content "$name" | head -c ${#OLD}) == "$OLD" ]] || { echo "what was in $name is lost" && return 1; }
        done
    done
    echo "$refused of 15 were refused"
    [[ $refused -gt 0 ]]
}
for layout in direct flat container folders small_file tiered; do
    begin "$layout"
    try "bytes that a close refuses are not lost without a word ($layout, preload)" ignored_closes "$layout"
    end
done

# shellcheck disable=SC2016
room_comes_back() { # room_comes_back FILES: most of so many small files, each of a log of its own, are removed on a disk that is full
    local before after left files=$1
    AT=/full "$thalweg" run -- bash -c 'mkdir "$AT/d"; for n in $(seq "$1"); do head -c 10000 /dev/zero | tr "\0" x >"$AT/d/$n"; done' _ "$files"
    fill
    AT=/full "$thalweg" run -- bash -c 'rm "$AT"/d/??*'
    before=$(df --output=avail -k "$full" | tail -n 1)
    "$thalweg" layout compact /full/d
    after=$(df --output=avail -k "$full" | tail -n 1)
    left=$(find "$full/a/d/.thalweg-small" -name 'data.*' | wc -l)
    echo "$before KiB free before, $after KiB behind, $left logs"
    [[ $after -gt $((before + 1000)) && $left -le 3 ]]
    AT=/full "$thalweg" run -- bash -c 'set -e; [[ $(ls "$AT/d" | wc -l) == 9 ]]; for n in "$AT"/d/?; do [[ $(tr -d x <"$n" | wc -c) == 0 && $(wc -c <"$n") == 10000 ]]; done'
}
for files in 100 150; do
    begin small_file
    try "compaction gives room back on a full disk ($files files)" room_comes_back "$files"
    end
done

# What a step takes on these files is some KiB: from no room to enough.
steps() { # steps METHOD PARAMETERS
    local room status refused=0 last=0
    for room in 0 4 8 12 16 24 32 48 64 96 128 256 512; do
        mount -t tmpfs -o size=4m none "$full"
        echo | "$built/examples/faults" bp "$full/x.bp" "$1" "$2" 3 steps 0 2
        fill
        truncate -s -$((room * 1024)) "$full/filler"
        status=0
        echo | limited 600 "$built/examples/faults" bp "$full/x.bp" "$1" "$2" 3 steps 2 1 >"$work/said" 2>&1 || status=$?
        # 3: ranks had different errors; 101: a panic.
        if [[ $status != 0 && ! $status -gt 102 ]]; then
            echo "with $room KiB: $status" && cat "$work/said" && umount "$full" && return 1
        fi
        [[ $status == 0 ]] || refused=$((refused + 1))
        last=$status
        rm "$full/filler"
        "$built/examples/faults" check "$full" "$1" "$2" 3 2 "$([[ $status == 0 ]] && echo success || echo failure)" ||
            { echo "with $room KiB of room" && umount "$full" && return 1; }
        umount "$full"
    done
    echo "$refused of 13 were refused"
    [[ $refused -gt 0 && $last == 0 ]]
}
for way in MPI POSIX MPI_COLLECTIVE 'MPI_AGGREGATE pattern=simple;aggregators=1' 'MPI_AGGREGATE pattern=brigade' 'MPI_SCHEDULED num_files=2' 'ADAPTIVE num_files=2' 'ASYNC async=no;owners=2;stripe=256'; do
    read -r method parameters <<<"$way"
    try "$way: with little room all ranks have one outcome, and the next step goes on" steps "$method" "${parameters:-}"
done

view_file() { # view_file FORMAT NAME: an earlier view file stays, and nothing else is left
    umount "$full" 2>/dev/null || true
    echo | "$built/examples/faults" bp "$work/x.bp" MPI '' 3 steps 0 2
    mount -t tmpfs -o size=4m none "$full"
    "$thalweg" view "$1" "$work/x.bp" -o "$full/$2"
    cp "$full/$2" "$work/before"
    echo | "$built/examples/faults" bp "$work/x.bp" MPI '' 3 steps 2 1
    fill
    local status=0
    "$thalweg" view "$1" "$work/x.bp" -o "$full/$2" 2>"$work/said" || status=$?
    cat "$work/said"
    [[ $status == 3 ]] && grep -q 'No space left' "$work/said" && grep -q "$full/$2" "$work/said"
    cmp "$work/before" "$full/$2"
    [[ $(ls -A "$full") == $'filler\n'"$2" ]]
    rm "$full/filler"
    "$thalweg" view "$1" "$work/x.bp" -o "$full/$2"
    ! cmp -s "$work/before" "$full/$2" || return 1
}
try 'a view file that has no room leaves the earlier one (Zarr)' view_file zarr view.json
if [[ -x ${thalweg%/*}/thalweg-convert ]]; then
    try 'a view file that has no room leaves the earlier one (HDF5)' view_file hdf5 view.h5
else
    echo "skipped: views for HDF5 on a full disk: no HDF5"
fi
converted() { # converted NAME: an earlier file or folder stays, and nothing else is left
    umount "$full" 2>/dev/null || true
    echo | "$built/examples/faults" bp "$work/x.bp" MPI '' 3 steps 0 2
    mount -t tmpfs -o size=8m none "$full"
    "$thalweg" convert "$work/x.bp" "$full/$1"
    rm -rf "$work/before"
    cp -r "$full/$1" "$work/before"
    fill
    local status=0
    "$thalweg" convert "$work/x.bp" "$full/$1" --force 2>"$work/said" || status=$?
    cat "$work/said"
    [[ $status == 3 ]] && grep -q 'No space left' "$work/said" && grep -q "$full/$1" "$work/said"
    diff -r "$work/before" "$full/$1"
    [[ $(ls -A "$full") == $'filler\n'"$1" ]]
    rm "$full/filler"
    "$thalweg" convert "$work/x.bp" "$full/$1" --force
    "$thalweg" diff "$work/x.bp" "$full/$1"
}
# made NAME COMMAND...: what a command of ours writes to $full/NAME, once with room and once without.
made() {
    local name=$1 status=0
    shift
    umount "$full" 2>/dev/null || true
    echo | "$built/examples/faults" bp "$work/x.bp" MPI '' 3 steps 0 2
    mount -t tmpfs -o size=8m none "$full"
    rm -rf "$work/before" && mkdir "$work/before"
    "$thalweg" "$@" "$full/$name"
    cp -a "$full/." "$work/before/"
    fill
    "$thalweg" "$@" "$full/$name" 2>"$work/said" || status=$?
    cat "$work/said"
    [[ $status == 3 ]] && grep -q 'No space left' "$work/said" && grep -q "$full/$name" "$work/said" && grep -q 'still safe' "$work/said"
    rm "$full/filler"
    diff -r --no-dereference "$work/before" "$full"
    "$thalweg" "$@" "$full/$name"
}
try 'a view for openPMD that has no room leaves the earlier one' made x.openpmd.bp view openpmd "$work/x.bp" -o
try 'a picture that has no room leaves the earlier one' made x.png plot "$work/x.bp" t -o
try 'printed values that have no room leave the earlier file' made x.txt dump "$work/x.bp" t -o
if [[ -x ${thalweg%/*}/thalweg-convert ]]; then
    try 'references as tables that have no room leave the earlier folder' made x.parquet view zarr "$work/x.bp" --as parquet -o
    try 'a conversion that has no room leaves the earlier file (HDF5)' converted x.h5
    try 'a conversion that has no room leaves the earlier folder (Zarr)' converted x.zarr
else
    echo "skipped: conversions on a full disk: no HDF5"
fi
umount "$full" 2>/dev/null || true
exit "$failed"
