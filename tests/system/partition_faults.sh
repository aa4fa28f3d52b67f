#!/usr/bin/env bash
# Each sort of system call of a partition's two servers, and of a staging server, fails, one call at a time: on the storage, on names, on
# connections, of memory and threads. The program that uses the partition gets an error, or what it asked for: never other bytes, and never nothing for a minute.
# After a restart the partition is whole. The first two calls of each sort and then every 60th;
# THIN=1 tries all, ONLY=WORD those whose names hold it.
# shellcheck disable=SC2317  # called by a trap
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
work=$PWD/build/partition-faults
source tests/checks.sh
source scripts/build.sh
build_all
if ! strace -qq -o "$work/strace.log" true 2>"$work/stderr.log"; then
    echo "skipped: failures of servers' system calls: strace cannot trace here ($(head -n 1 "$work/stderr.log"))"
    exit 0
fi
export THALWEG_MOUNTS=$work/mounts.toml XDG_RUNTIME_DIR=$work/run
mkdir -m 0700 "$work/run"
{
    printf 'name = faulty\nstripe_size = 4k\ncache_size = 1M\n'
    printf 'ahpios_server = localhost:%s\n' "$work/data0" "$work/data1"
    printf 'metadata = localhost:%s\n' "$work/names"
} >"$work/faulty.cfg"
mkdir "$work/out"
printf '%s\n' 'name = staged' "staging = $work/out" "ahpios_server = localhost:$work/data" "metadata = localhost:$work/staged" >"$work/staged.cfg"
printf '[[mount]]\npath = "/mnt/faulty"\nlayout = "partition"\npartition = "%s"\n\n' "$work/faulty.cfg" >"$THALWEG_MOUNTS"
printf '[[mount]]\npath = "%s"\nlayout = "staging"\npartition = "%s"\n' "$work/out" "$work/staged.cfg" >>"$THALWEG_MOUNTS"
ended() {
    for partition in faulty staged; do "$thalweg" partition stop "$work/$partition.cfg" --patience 5 >&2 || true; done
}
trap ended EXIT
for partition in faulty staged; do
    "$thalweg" partition create "$work/$partition.cfg" >&2
    "$thalweg" partition start "$work/$partition.cfg" >&2
done
many "a server's system calls" python3 tests/system/partition/faults.py "$thalweg" "$work" "$work/faulty.cfg" /mnt/faulty
many "a staging server's system calls" python3 tests/system/partition/faults.py "$thalweg" "$work" "$work/staged.cfg" "$work/out" staged
exit "$failed"
