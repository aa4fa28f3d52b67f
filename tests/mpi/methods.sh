#!/usr/bin/env bash
# Every method over real MPI: what 1 to 7 ranks write with the method that the XML names is verified and dumped by thalweg,
# and read back value by value through adios_read.h, by our library and by ADIOS 1.13; by bpls and adios2 in samples. Then
# one rank of each is killed in the middle of a step: MPI ends the others, and after `thalweg recover` every step that was
# closed is there. Then a disk fills.
#
#   tests/mpi/methods.sh [RANKS...]
#
# MPICH waits busily, so by default it runs with as many ranks as there are cores here.
# shellcheck disable=SC2317  # functions are called by name, through try
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
work=$PWD/build/methods/${MPI:-openmpi}
source tests/checks.sh
export THALWEG_ERRORS=quiet LC_ALL=C
ranks=("$@")
if [[ $# -eq 0 ]]; then
    if [[ $MPI == openmpi ]]; then ranks=(1 2 3 4 5 6 7); else ranks=(1 2); fi
fi

source scripts/build.sh
build_all
with_libraries
source scripts/machine.sh

flags=(-std=c11 -D_GNU_SOURCE -O1 -Wall -Wextra)
# shellcheck disable=SC2046  # several flags
try "the program compiles" "$MPICC" "${flags[@]}" -Werror $(pkg-config --cflags "thalweg-$MPI") tests/mpi/methods.c -o "$work/methods" \
    $(pkg-config --libs "thalweg-$MPI")
readers=(methods)
if [[ $MPI == openmpi && -f /usr/include/adios_read.h ]]; then
    # shellcheck disable=SC2046
    try "it compiles against ADIOS 1.13" "$MPICC" "${flags[@]}" tests/mpi/methods.c -o "$work/methods.1" $(link_adios1)
    readers+=(methods.1)
else
    [[ $MPI != openmpi ]] || echo "skipped: files read by ADIOS 1.13: no /usr/include/adios_read.h"
fi
[[ $failed == 0 ]] || exit 1

# Each method the registry lists, by its first name; those that leave no file of ours apart.
mapfile -t methods < <(
    sed -n 's/^ *method::\([a-z_]*\)::KIND,$/\1/p' crates/io/src/registry.rs | while read -r module; do
        source=crates/movement/src/method/$module
        [[ -d $source ]] && source+=/mod
        sed -n 's/^ *names: &\["\([A-Z_0-9]*\)".*/\1/p' "$source.rs"
    done | grep -Evx 'NULL|TRIGGER'
)
[[ ${#methods[@]} -ge 5 ]] || { echo "not ok methods are found: ${methods[*]}" && exit 1; }
further=(
    'MPI index=each;sync=yes;index_ahead=0'
    'MPI_COLLECTIVE aggregators=2;stripe=64k;buffer=256k;index_ahead=0'
    'MPI_AGGREGATE pattern=simple;aggregators=2;chunk=64k;index_ahead=0'
    'MPI_AGGREGATE pattern=brigade;aggregators=2;chunk=64k'
    'MPI_SCHEDULED num_files=2;targets=1;writers_per_target=1;index_ahead=0'
    'ASYNC owners=2;stripe=64k;write_stripe=64k;buffer=256k;index_ahead=0'
    'ASYNC owners=1'
    'ASYNC subfiles=2;owners=2;stripe=64k;write_stripe=64k;index_ahead=0'
)
names=()
for way in "${methods[@]}" "${further[@]}"; do
    read -r method parameters <<<"$way"
    name=$method
    [[ -z ${parameters:-} ]] || name=$method-$((${#names[@]} - ${#methods[@]}))
    names+=("$name")
    # By itself it writes in the background: what was closed before a kill, or by a full disk, is not written yet.
    [[ $way != ASYNC ]] || parameters=async=no
    sed -e "s/METHOD/$method/" -e "s/PARAMETERS/${parameters:-}/" tests/mpi/methods.xml >"$work/$name.xml"
done

clean() { # clean NAME...: verify finds nothing, and dump shows of each what it shows of the first
    local name
    for name in "$@"; do
        "$thalweg" verify "$work/$name.bp" || return 1
        "$thalweg" dump "$work/$name.bp" 'field[:, 0:5000]' 'mine[3, 0]' deep/plane rank note >"$work/dump.txt" || return 1
        [[ $name != "$1" ]] || cp "$work/dump.txt" "$work/dump-first.txt"
        cmp "$work/dump-first.txt" "$work/dump.txt" || return 1
    done
    [[ $(wc -l <"$work/dump-first.txt") -gt 1000 ]]
}
same_by_bpls() { # same_by_bpls NAME...: bpls shows of each what it shows of the first
    local name
    for name in "$@"; do
        bpls -l -d -n 10 "$work/$name.bp" field plane rank >"$work/bpls.txt" 2>&1 || return 1
        [[ $name != "$1" ]] || cp "$work/bpls.txt" "$work/bpls-first.txt"
        cmp "$work/bpls-first.txt" "$work/bpls.txt" || return 1
    done
    grep -q 'double.*field.*5\*{' "$work/bpls-first.txt"
}
by_adios2() { # by_adios2 RANKS NAME...
    "${PYTHON:-build/venv/bin/python}" - "$work" "$@" <<'PYTHON'
import sys
import numpy as np
import adios2
work, ranks, names = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
LARGE, STEPS = 200000, 5
def size(rank, step):
    place = (rank + step) % ranks
    return LARGE if place == 0 else 0 if place == 1 else 3 + place * 5 % 7
for name in names:
    with adios2.FileReader(f"{work}/{name}.bp") as file:
        for step in range(STEPS):
            one = dict(step_selection=[step, 1])
            wanted = np.concatenate([step * 1e7 + rank * 1e6 + np.arange(size(rank, step)) % 65521 + 0.25 for rank in range(ranks)])
            assert np.array_equal(file.read("field", [0], [len(wanted)], **one).ravel(), wanted), (name, "field", step)
            plane = [[1000 * step + 10 * rank + row for rank in range(ranks)] for row in range(3)]
            assert np.array_equal(np.reshape(file.read("/deep/plane", [0, 0], [3, ranks], **one), (3, ranks)), plane), (name, "plane", step)
PYTHON
}

for n in "${ranks[@]}"; do
    try "$n ranks of $MPI write with each method" run "$n" "$work/methods" write "$work" "${names[@]}"
    for reader in "${readers[@]}"; do
        try "$n ranks: what each of ${#names[@]} ways wrote is read back by $reader" "$work/$reader" check "$work" "$n" 5 "${names[@]}"
    done
    try "$n ranks: verified and dumped" clean "${names[@]}"
    if [[ $n == 1 || $n == 5 || $n == "${ranks[-1]}" ]]; then
        if command -v bpls >/dev/null; then
            try "$n ranks: bpls shows the same of each" same_by_bpls "${names[@]}"
        else
            echo "skipped: $n ranks: bpls: there is no bpls (package libadios-bin)"
        fi
        if "${PYTHON:-build/venv/bin/python}" -c 'import adios2' 2>/dev/null; then
            try "$n ranks: read by adios2" by_adios2 "$n" "${names[@]}"
        else
            echo "skipped: $n ranks: adios2: the wheel is not installed"
        fi
    fi
    for name in "${names[@]}"; do rm -rf "$work/$name".bp*; done
done

# The same files on a partition of three servers, whose stripes are shorter than most blocks.
on_partition() {
    {
        printf 'name = methods\nstripe_size = 4k\nregistry = %s/registry\n' "$work"
        printf 'ahpios_server = localhost:%s\n' "$work/data"{0,1,2}
        printf 'metadata = localhost:%s\n' "$work/names"
    } >"$work/parted.cfg"
    "$thalweg" partition create "$work/parted.cfg" && "$thalweg" partition start "$work/parted.cfg"
}
stops() { "$thalweg" partition stop "$work/parted.cfg" --patience 20 >&2; }
mkdir -m 0700 "$work/run"
printf '[[mount]]\npath = "/mnt/parted"\nlayout = "partition"\npartition = "%s"\n' "$work/parted.cfg" >"$work/mounts.toml"
(
    export THALWEG_MOUNTS=$work/mounts.toml XDG_RUNTIME_DIR=$work/run
    try "a partition is started" on_partition
    trap stops EXIT
    n=${ranks[-1]}
    FILES=/mnt/parted try "$n ranks write with each method on a partition" run "$n" "$work/methods" write "$work" "${names[@]}"
    try "$n ranks: what each of ${#names[@]} ways wrote on a partition is read back" "$work/methods" check /mnt/parted "$n" 5 "${names[@]}"
    dumped() {
        local name
        for name in "${names[@]}"; do
            "$thalweg" verify "/mnt/parted/$name.bp" || return 1
            "$thalweg" dump "/mnt/parted/$name.bp" 'field[:, 0:5000]' deep/plane rank note >"$work/dump.txt" || return 1
            [[ $name != "${names[0]}" ]] || cp "$work/dump.txt" "$work/dump-first.txt"
            cmp "$work/dump-first.txt" "$work/dump.txt" || return 1
        done
    }
    try "$n ranks: verified and dumped from a partition" dumped
    striped() { [[ $(find "$work"/data{0,1,2} -name '*.4096.3.*' -size +100k | wc -l) -ge 3 ]]; }
    try "the files are striped over the servers of a partition" striped
    exit "$failed"
) || failed=1

# What goes wrong: with each method as it comes, and with LONG=1 with its parameters too.
[[ ${LONG:-0} != 0 ]] || names=("${methods[@]}")

# One rank kills itself in the fourth step, behind its writes; MPI ends the others.
dies() { # dies NAME VICTIM
    local status=0
    rm -rf "$work/$1".bp*
    limited 600 "${mpiexec[@]}" -n 3 "$work/methods" die "$work" "$1" "$2" >"$work/said.txt" 2>&1 || status=$?
    # 124: nobody ended them.
    [[ $status != 0 && $status != 124 ]] || return 1
    [[ $(grep '^closed' "$work/said.txt") == $'closed 0\nclosed 1\nclosed 2' ]]
}
left() { # left NAME: three whole steps, before recovery and after it
    "$work/methods" check "$work" 3 3 "$1" || return 1
    "$thalweg" recover "$work/$1.bp" || return 1
    "$thalweg" verify "$work/$1.bp" || return 1
    local reader
    for reader in "${readers[@]}"; do "$work/$reader" check "$work" 3 3 "$1" || return 1; done
}
if [[ $MPI == openmpi ]]; then
    for i in "${!names[@]}"; do
        victims=($((i % 3)))
        [[ ${LONG:-0} == 0 ]] || victims=(0 1 2)
        for victim in "${victims[@]}"; do
            try "${names[i]}: rank $victim of 3 is killed, and MPI ends the others" dies "${names[i]}" "$victim"
            try "${names[i]}: what was closed before rank $victim was killed is there" left "${names[i]}"
        done
    done
fi

# A disk that fills: all ranks are told so by the same close, what was closed before is there, and more once there is room.
fills() { # fills NAME
    local status=0
    limited 600 "${mpiexec[@]}" -n 3 "$work/methods" fill "$work" "$1" >"$work/said.txt" 2>&1 || status=$?
    cat "$work/said.txt"
    [[ $status == 0 ]] || return 1
    [[ $(grep -c '^step' "$work/said.txt") == 3 && $(grep '^step' "$work/said.txt" | sort -u | wc -l) == 1 ]] || return 1
    step=$(sed -n 's/^step \([0-9]*\): .*/\1/p' "$work/said.txt" | head -n 1)
    [[ $step -ge 2 && $step -lt 100 ]] || return 1
    mount -o remount,size=64m "$work/full" || return 1
    "$work/methods" has "$work/full" 3 "$step" "$1" || return 1
    "$thalweg" recover "$work/full/$1.bp" || return 1
    # Nothing but what says that the last step is partial.
    local found=0
    "$thalweg" verify "$work/full/$1.bp" >"$work/log.verify" || found=$?
    cat "$work/log.verify"
    if [[ $found != 0 ]]; then
        ! grep -Ev "^(partial|gap): .*step $step|^[0-9]+ findings?:" "$work/log.verify" || return 1
    fi
    "$work/methods" has "$work/full" 3 "$step" "$1"
}
if [[ $MPI == openmpi ]]; then
    mkdir "$work/full"
    trap 'umount "$work/full" 2>/dev/null || true' EXIT
    for name in "${names[@]}"; do
        if mount -t tmpfs -o size=9m tmpfs "$work/full" 2>/dev/null; then
            try "$name: a full disk" fills "$name"
            umount "$work/full"
        else
            echo "skipped: $name: a full disk: no tmpfs can be mounted here"
        fi
    done
fi
exit "$failed"
