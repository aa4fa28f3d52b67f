#!/usr/bin/env bash
# The exerciser (exercise.c) through thalweg_file_ calls on a mount of each layout, with each index module, over 1 and 3
# stores; what `thalweg layout check` and `flatten` say of the file it leaves; and through POSIX calls on no mount, which
# checks the exerciser.
#
#   LAYOUTS_SEED=N chooses the operations; LONG=1 does 10 seeds of 20,000 operations
# shellcheck disable=SC2317  # functions are called by name, through try
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
work=$PWD/build/layouts
source tests/checks.sh
# The same one each time, for LONG=1 another one.
seed=${LAYOUTS_SEED:-$((${LONG:-0} == 0 ? 1 : RANDOM * 32768 + RANDOM))}
seeds=1 operations=1500
[[ ${LONG:-0} == 0 ]] || seeds=10 operations=20000

source scripts/build.sh
build_all
flags=(-std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror)
cc "${flags[@]}" tests/system/exercise.c -o "$work/exercise"
cc "${flags[@]}" -D_NOMPI -DTHALWEG_CALLS -I bindings/c/include tests/system/exercise.c -o "$work/exercise_calls" \
    "$built/libthalweg_core.so" -Wl,-rpath,"$work"
core_into "$work"
thalweg=$built/thalweg

export THALWEG_MOUNTS=$work/mounts.toml
mounts=()
mount() { # mount NAME LAYOUT STORES [LINE...]: a mount /mnt/NAME; STORES a number of folders, or a store
    local name=$1 layout=$2 stores=$3 list="" k
    shift 3
    if [[ $stores == [0-9]* ]]; then
        for ((k = 0; k < stores; k++)); do
            mkdir -p "$work/stores/$name.$k"
            list+="${list:+, }\"posix:$work/stores/$name.$k\""
        done
    else
        list="\"$stores\""
    fi
    printf '[[mount]]\npath = "/mnt/%s"\nlayout = "%s"\nstores = [%s]\n' "$name" "$layout" "$list" >>"$THALWEG_MOUNTS"
    printf '%s\n' "$@" '' >>"$THALWEG_MOUNTS"
    mounts+=("$name")
}
mount direct direct 1
mount flat flat 1
mount flat-3 flat 3
for index in flat pattern distributed; do
    mount "container-$index" container 1 "index = \"$index\""
    mount "container-$index-3" container 3 "index = \"$index\"" 'buffer = "20k"'
done
mount small_file small_file 1
mount small_file-growing small_file 1 'small = "64k"' 'log = "1MiB"'
mkdir -p "$work"/stores/{fast,slow}
mount tiered container "tiered:posix:$work/stores/fast=>posix:$work/stores/slow"

try "the exerciser agrees with the filesystem (LAYOUTS_SEED=$seed)" "$work/exercise" -s "$seed" -n "$operations" "$work/file"
forgotten() { # exits with 1, not with that of a program that fell
    local status=0
    "$work/exercise" -s "$seed" -n "$operations" -b $((operations / 2)) "$work/file" || status=$?
    [[ $status == 1 ]]
}
try "the exerciser notices writes that are not done" forgotten

# Files that were removed or emptied a thousand times leave nothing behind. Writers since the file was empty last have a log each:
# mostly fewer than ten, 44 were seen.
left() { # left MOST NAME: data logs in the stores of a mount
    local logs
    logs=$(find "$work"/stores/"$2".* -name '*.data' | wc -l)
    echo "$logs data logs are left"
    ((logs <= $1))
}
whole() { "$thalweg" layout check "$1" && "$thalweg" layout flatten "$1" "$work/flattened" && cmp "$work/flattened" "$2"; }
for name in "${mounts[@]}"; do
    for ((k = 0; k < seeds; k++)); do
        try "$operations operations on $name (LAYOUTS_SEED=$((seed + k)))" \
            limited 1800 "$work/exercise_calls" -s $((seed + k)) -n "$operations" -k "$work/wanted" "/mnt/$name/file"
        rm -f "$work/flattened"
        if [[ $name == container* || $name == tiered ]]; then
            try "the file that they leave is whole ($name)" whole "/mnt/$name/file" "$work/wanted"
        fi
    done
    if [[ $name == container* ]]; then
        try "logs of what was emptied are gone ($name)" left 150 "$name"
        "$work/exercise_calls" -n 1 "/mnt/$name/file" # it removes the file that is there, and in the end its own
        try "a file that is removed leaves no log ($name)" left 0 "$name"
    fi
done
# As a power cut leaves it: the mark says more than the log has.
cut_short() {
    local log
    "$work/exercise_calls" -s 1 -n 200 -k "$work/wanted" /mnt/container-flat/file || return
    log=$(find "$work"/stores/container-flat.0 -name '*.data' -size +0 -printf '%s %p\n' | sort -n | tail -n 1 | cut -d ' ' -f 2-)
    cp "$log" "$work/log" && truncate -s -1 "$log" || return
    says() { # says EXIT WORDS COMMAND...
        local wanted=$1 words=$2 status=0
        shift 2
        "$thalweg" layout "$@" /mnt/container-flat/file >"$work/said" 2>&1 || status=$?
        cat "$work/said"
        [[ $status == "$wanted" ]] && grep -q "$words" "$work/said"
    }
    says 1 "not whole" check && says 1 'not whole: .*--lost' repair && ! grep -q repaired "$work/said" && says 1 "not whole" check || return
    # The store brings it back.
    cp "$log" "$work/short" && cp "$work/log" "$log" && rm -f "$work/flattened" && whole /mnt/container-flat/file "$work/wanted" || return
    cp "$work/short" "$log" && says 0 'repaired: .*, 1 thing' repair --lost && says 0 whole check
}
try "a log that ends early is left, until --lost says that it is lost" cut_short
# These two are memory of one process that can do no more than HDFS or S3.
for store in hdfs s3; do
    mount "sequential-$store" container "sequential:$store"
    for ((k = 0; k < seeds; k++)); do
        try "$operations operations on a store like $store (LAYOUTS_SEED=$((seed + k)))" \
            limited 1800 "$work/exercise_calls" -s $((seed + k)) -n "$operations" "/mnt/sequential-$store/file"
    done
done
rm -rf "$work/stores"
exit $failed
