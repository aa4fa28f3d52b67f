#!/usr/bin/env bash
# A partition in jobs of a real Slurm: its servers are steps beside the application's; the job ends, and everything is written within the
# time between SIGTERM and SIGKILL; a later job has the files. A job that somebody cancels, too.
# shellcheck disable=SC2317,SC2016  # functions are called by name, through try; inner shells expand
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
work=$PWD/build/slurm
source tests/checks.sh
source scripts/build.sh
if ! missing=$(bash scripts/servers/slurm.sh available); then
    echo "skipped: partitions in jobs of Slurm: $missing"
    exit 0
fi
build_all
thalweg=$built/thalweg
ended() {
    # Slurm without control groups leaves what a batch script started in the background.
    pkill -f "$work/written" || true
    "$thalweg" partition stop "$work/p.cfg" --patience 5 >&2 || true
    bash scripts/servers/slurm.sh stop "$work/server"
}
trap ended EXIT
bash scripts/servers/slurm.sh start "$work/server"
# shellcheck disable=SC1091  # made just now
source "$work/server/env"
PATH=$(dirname "$thalweg"):$PATH
export PATH XDG_RUNTIME_DIR=$work/run THALWEG_MOUNTS=$work/mounts.toml
mkdir -m 0700 "$work/run"
{
    printf 'name = job\nregistry = %s/registry\nstripe_size = 4k\nnr_ios = 2\n' "$work"
    printf 'ahpios_server = localhost:%s\n' "$work/data"{0,1}
    printf 'metadata = localhost:%s\n' "$work/names"
} >"$work/p.cfg"
printf '[[mount]]\npath = "/mnt/job"\nlayout = "partition"\npartition = "%s"\n' "$work/p.cfg" >"$THALWEG_MOUNTS"

# job SECONDS LINES...: runs lines as a batch job and waits until it and its steps are gone; its output is in job.log.
job() {
    local id seconds=$1 began=$SECONDS
    shift
    printf '%s\n' '#!/bin/bash' 'set -e' "$@" >"$work/job.sh"
    id=$(sbatch --parsable --export=ALL --mem=200 -n2 -o "$work/job.log" "$work/job.sh")
    echo "$id" >"$work/job.id"
    while [[ -n $(squeue -h -j "$id" 2>/dev/null) ]]; do
        if ((SECONDS - began > seconds)); then
            echo "job $id is still there after $seconds s" && squeue -j "$id" && tail -n 20 "$work/job.log"
            scancel "$id"
            return 1
        fi
        sleep 0.2
    done
    scontrol show job "$id" | grep -q 'JobState=COMPLETED' || { tail -n 20 "$work/job.log" && return 1; }
}
stopped() { ! "$thalweg" partition status "$work/p.cfg" | grep -q 'bytes, started'; }

# An application that never closes what it has written.
open_end='import os, sys, time
f = open("/mnt/job/open", "wb", buffering=0)
f.write(b"never closed" * 5000)
open(sys.argv[1], "w").close()
time.sleep(600)'
first() {
    "$thalweg" partition create "$work/p.cfg"
    job 120 'thalweg partition start '"$work/p.cfg" \
        'srun -n1 --mem=50 thalweg run -- bash -c "seq 1 50000 >/mnt/job/numbers"' \
        'squeue -s -h -j $SLURM_JOB_ID -o %i | wc -l' \
        "thalweg run -- python3 -c '$open_end' $work/written &" \
        "while [[ ! -e $work/written ]]; do sleep 0.1; done" \
        'date +%s >'"$work/ends"
    # The batch script, and two servers.
    grep -qx 3 "$work/job.log"
}
try "the servers of a job are steps beside the application's" first
drained() {
    local seconds
    stopped
    seconds=$(($(date +%s) - $(cat "$work/ends")))
    echo "the servers had ended $seconds s after the script"
    [[ $seconds -le 30 ]]
    # Each one said at once what was left.
    grep -h '^ends: ' "$work/run/thalweg"/partition-job-{0,1}.log >"$work/told.txt"
    [[ $(wc -l <"$work/told.txt") == 2 ]]
    grep -q 'bytes are not stored yet' "$work/told.txt"
    # Servers were told, and not killed: no bytes of the file that was open are missing, without any of them.
    [[ $(find "$work"/data? -type f -name '*.4096.2.*' -printf '%s\n' | awk '{ sum += $1 } END { print sum }') == $((288894 + 60000)) ]]
}
try "when the job ends everything is written within the time that Slurm gives" drained
later() {
    job 120 'thalweg partition start '"$work/p.cfg" \
        'srun -n1 --mem=50 thalweg run -- bash -c "seq 1 50000 | cmp - /mnt/job/numbers && head -c 12 /mnt/job/open && wc -c </mnt/job/open"' \
        'thalweg partition stop '"$work/p.cfg"
    grep -q 'never closed60000' "$work/job.log"
    stopped
}
try "a later job has the files" later
cancelled() {
    job 120 'thalweg partition start '"$work/p.cfg" 'thalweg run -- bash -c "seq 1 100 >/mnt/job/before"' 'scancel $SLURM_JOB_ID' 'sleep 60' || true
    for _ in {1..350}; do
        ! stopped || break
        sleep 0.1
    done
    stopped
    "$thalweg" partition start "$work/p.cfg"
    "$thalweg" run -- bash -c 'seq 1 100 | cmp - /mnt/job/before'
}
try "so has one after a job that was cancelled, and a start without Slurm" cancelled
# The script of the guide, as it is printed there.
guide() {
    "$thalweg" partition stop "$work/p.cfg"
    local home=$work/home
    mkdir -p "$home"
    cp "$work/p.cfg" "$home/filesystem.cfg"
    cp "$THALWEG_MOUNTS" "$home/mounts.toml"
    printf '#!/bin/bash\nseq 1 2000 >/mnt/job/simulated\n' >"$home/simulation"
    chmod +x "$home/simulation"
    awk '/^## In a Slurm job/ { here = 1 } here && /^```/ { inside = !inside; next } here && inside { print } /^## / && !/Slurm/ { here = 0 }' \
        docs/guide/partitions.md | grep -v '^#!' >"$work/lines.txt"
    grep -q 'srun' "$work/lines.txt"
    mapfile -t lines <"$work/lines.txt"
    (cd "$home" && unset THALWEG_MOUNTS && HOME=$home job 120 "${lines[@]}")
    "$thalweg" partition start "$work/p.cfg"
    "$thalweg" run -- bash -c 'seq 1 2000 | cmp - /mnt/job/simulated'
}
try "the guide's script of a job works" guide
exit "$failed"
