#!/usr/bin/env bash
# thalweg_file_ calls from C, through mounts of each layout: every call once, four processes that write one file and read it
# shifted, how long small files take beside the filesystem below; and `thalweg config check` and `thalweg layout` on what they left.
# shellcheck disable=SC2317  # functions are called by name, through try
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
work=$PWD/build/files
source tests/checks.sh

source scripts/build.sh
build_all
cc -std=c11 -D_GNU_SOURCE -D_NOMPI -O1 -g -Wall -Wextra -Werror -I bindings/c/include tests/system/files/files.c -o "$work/files" \
    "$built/libthalweg_core.so" -Wl,-rpath,"$work"
core_into "$work"
thalweg=$built/thalweg

export THALWEG_MOUNTS=$work/mounts.toml
for layout in direct flat container small_file; do
    stores=posix:$work/$layout.0
    mkdir -p "$work/$layout.0" "$work/$layout.1" "$work/$layout.2"
    list="\"$stores\""
    [[ $layout != flat && $layout != container ]] || list="$list, \"posix:$work/$layout.1\", \"posix:$work/$layout.2\""
    printf '[[mount]]\npath = "/mnt/of %s"\nlayout = "%s"\nstores = [%s]\n\n' "$layout" "$layout" "$list" >>"$THALWEG_MOUNTS"
done

# A partition of two servers, with stripes shorter than what is written at once.
export XDG_RUNTIME_DIR=$work/run
mkdir -m 0700 "$work/run"
{
    printf 'name = files\nstripe_size = 4k\nahpios_server = localhost:%s\nahpios_server = localhost:%s\n' "$work/partition.0" "$work/partition.1"
    printf 'metadata = localhost:%s\n' "$work/partition.names"
} >"$work/files.cfg"
printf '[[mount]]\npath = "/mnt/of partition"\nlayout = "partition"\npartition = "%s"\n\n' "$work/files.cfg" >>"$THALWEG_MOUNTS"
trap '"$thalweg" partition stop "$work/files.cfg" --patience 20 >&2 || true' EXIT
"$thalweg" partition create "$work/files.cfg" >&2
"$thalweg" partition start "$work/files.cfg" >&2

# shellcheck disable=SC2016  # the inner shell expands it
try "config check finds five mounts that work" bash -c '[[ $("$1" config check | grep -c "^works  /mnt/of ") == 5 ]]' _ "$thalweg"
printf '[[mount]]\npath = "/a"\nlayout = "direct"\nstore = "sequential:s3"\n' >"$work/wrong.toml"
refused() { # config check says file, line and reason, and ends with 1
    local status=0
    "$thalweg" config check "$work/wrong.toml" >"$work/told" || status=$?
    [[ $status == 1 ]] && grep -q "wrong.toml:3:10: error: .*needs write_at" "$work/told"
}
try "config check refuses a mount that cannot work" refused
for layout in direct flat container small_file partition; do
    many "$layout" alone "$work/files" calls "/mnt/of $layout"
done
elsewhere() { # a table named by a relative path stays that table wherever a program goes
    (cd "$work" && THALWEG_MOUNTS=mounts.toml ./files elsewhere "/mnt/of direct/elsewhere") && [[ -s $work/direct.0/elsewhere ]]
}
try "a mount table named by a relative path" elsewhere
mkdir -p "$work/plain"
many "no mount" alone "$work/files" calls "$work/plain"

strided() { # strided FILE
    local rank pid pids=() status=0
    for rank in 0 1 2 3; do
        "$work/files" strided "$1" "$rank" 4 47001 40 &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid" || status=1; done
    return "$status"
}
# Each reader reads what another process wrote.
for layout in direct container partition; do
    file="/mnt/of $layout/checkpoint"
    # Writers of `direct` find the file there, as with open(2).
    try "four processes write one file ($layout)" strided "$file"
    for rank in 0 1 2 3; do many "$layout, rank $rank" alone "$work/files" shifted "$file" $rank 4 47001 40; done
done
same() { "$thalweg" run -- cmp "/mnt/of partition/checkpoint" "$work/direct.0/checkpoint"; }
try "the checkpoint on a partition is the file that direct has" same
try "the checkpoint is whole" "$thalweg" layout check "/mnt/of container/checkpoint"
mapped() { [[ $("$thalweg" layout map "/mnt/of container/checkpoint" | wc -l) -ge 160 ]]; }
try "the map tells where each record lies" mapped
flattened() { "$thalweg" layout flatten "/mnt/of container/checkpoint" "$work/flat" && cmp "$work/flat" "$work/direct.0/checkpoint"; }
try "flattened, it is the file that direct has" flattened
try "a container is compacted" "$thalweg" layout compact "/mnt/of container/checkpoint"
many "compacted" alone "$work/files" shifted "/mnt/of container/checkpoint" 2 4 47001 40
try "stat tells of it" "$thalweg" layout stat "/mnt/of container/checkpoint"

mkdir "$work/bare"
small() { limited 900 "$work/files" small "/mnt/of small_file" "$work/bare" 20000 1000 2>"$work/times.log"; }
try "small files are made" small
tail -n 1 "$work/times.log" >&2
try "they are whole" "$thalweg" layout check "/mnt/of small_file"
packed() { [[ $(find "$work/small_file.0" -type f | wc -l) -lt 12 ]]; }
try "twenty thousand small files are a handful of objects" packed
try "a folder of small files is compacted" "$thalweg" layout compact "/mnt/of small_file"

unheard() { # a bell that cannot be rung at the end of the process is no success, and no other status changes
    local bell=$work/small_file.0/unheard/.thalweg-small/bell status
    for ends in 0 7; do
        "$thalweg" run -- mkdir "/mnt/of small_file/unheard"
        status=0
        "$work/files" unheard "/mnt/of small_file/unheard/a" "$ends" "$bell" 2>"$work/told" || status=$?
        rm -rf "$bell"
        "$thalweg" run -- rm -r "/mnt/of small_file/unheard"
        [[ $status == $((ends ? ends : 1)) ]] && grep -q '^thalweg: cannot close files at the end of the process: ' "$work/told" || return 1
    done
}
try "a process that cannot end what it kept open exits with 1" unheard
exit $failed
