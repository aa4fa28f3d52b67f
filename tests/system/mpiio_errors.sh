#!/usr/bin/env bash
# Collective writes of MPI-IO programs that fail on one rank, or on some: a disk that is full (a tmpfs of 4 MB), and a write that fails
# with EIO on one rank. Every rank returns; a rank whose write failed has MPI's class for it, through its error handler; where ranks
# exchange bytes all have it, and sync and close fail on all ranks or on none. With both MPIs, on direct, container and partition.
# shellcheck disable=SC2317  # functions are called by name, through try
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
work=$PWD/build/mpiio-errors
while mountpoint -q "$work/full" 2>/dev/null; do umount -l "$work/full"; done
source tests/checks.sh
source scripts/build.sh
build_all
with_libraries
full=$work/full
mkdir -p "$full"
if ! mount -t tmpfs -o size=4m none "$full" 2>"$work/why"; then
    echo "skipped: a full disk for MPI-IO: no tmpfs can be mounted here ($(head -n 1 "$work/why"))"
    exit 0
fi
umount "$full"
export THALWEG_MOUNTS=$work/mounts.toml THALWEG_MPIIO=$prefix/lib
partition=$work/partition.cfg
# Checks run in shells of their own: one that ends early leaves servers behind.
end() {
    [[ -e $partition ]] || return 0
    local pid
    # Servers that cannot write everything go on, so that nothing is lost.
    for pid in $("$thalweg" partition status "$partition" --json | python3 -c "$pids"); do kill -9 "$pid" || true; done
    rm -rf "$partition" "$work/.thalweg-partitions" "$work/names"
}
pids='import json, sys; print(*[s["pid"] for s in json.load(sys.stdin)["servers"] if s.get("pid")])'
finish() {
    end
    while mountpoint -q "$full"; do umount -l "$full"; done
}
trap finish EXIT

# begin LAYOUT FOLDER: an empty store of that layout in the folder, mounted at /failing.
begin() {
    end
    mkdir -p "$2"
    if [[ $1 == partition ]]; then
        mkdir "$work/names"
        {
            printf 'name = failing\nstripe_size = 64k\ncache_size = 4M\n'
            printf 'ahpios_server = localhost:%s\n' "$2"/{0,1,2}
            printf 'metadata = localhost:%s\n' "$work/names"
        } >"$partition"
        "$thalweg" partition create "$partition" >&2
        "$thalweg" partition start "$partition" >&2
        printf '[[mount]]\npath = "/failing"\nlayout = "partition"\npartition = "%s"\n' "$partition" >"$THALWEG_MOUNTS"
    else
        printf '[[mount]]\npath = "/failing"\nlayout = "%s"\nstores = ["posix:%s"]\n' "$1" "$2" >"$THALWEG_MOUNTS"
    fi
}

# with MPI PROGRAM...: on as many ranks as the MPI is good for, behind both doors.
with() {
    local mpi=$1 own status=0
    shift
    local -a launch=(mpiexec.mpich -n 2)
    [[ $mpi == mpich ]] || launch=(mpiexec.openmpi --oversubscribe -n 4)
    own=$(mktemp -d /tmp/ompi.XXXXXX)
    (cd "$work" && OMPI_MCA_orte_tmpdir_base=$own limited 300 "${launch[@]}" "$@") || status=$?
    rm -rf "$own"
    return "$status"
}
# judge RANKS CLASS all|some: what the ranks said. all: the write failed on each rank; some: on one at least, or sync or close told of it.
judge() {
    python3 - "$work/said" "$1" "$2" "$3" <<'PYTHON'
import re, sys
text, ranks, wanted, who = open(sys.argv[1]).read(), int(sys.argv[2]), sys.argv[3], sys.argv[4]
print(text)
assert "not ok" not in text
said = re.findall(r"^rank (\d+): write (\S+), sync (\S+), close (\S+)$", text, re.M)
assert sorted(int(rank) for rank, *_ in said) == list(range(ranks)), "every rank returns"
calls = list(zip(*[classes for _, *classes in said]))
assert all(c in ("none", wanted) for call in calls for c in call), calls
if who == "all":
    assert set(calls[0]) == {wanted}, "the write fails on all ranks"
assert any(wanted in call for call in calls), "no rank was told"
# These agree.
assert all(len(set(call)) == 1 for call in calls[1:]), calls
PYTHON
}
ranks_of() { [[ $1 == mpich ]] && echo 2 || echo 4; }

no_space() { # no_space MPI LAYOUT blocks|interleaved all|some
    mount -t tmpfs -o size=4m none "$full"
    begin "$2" "$full/store"
    local status=0
    with "$1" "$thalweg" run -- "$work/failing.$1" /failing/file "$3" 5 >"$work/said" || status=$?
    end
    umount "$full" || umount -l "$full"
    [[ $status == 0 ]]
    judge "$(ranks_of "$1")" NO_SPACE "$4"
}

# Rank 1 under strace, which lets its K-th write of each kind fail.
cat >"$work/rank.sh" <<'RANK'
#!/usr/bin/env bash
if [[ ${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-}} != 1 ]]; then exec "$@"; fi
exec strace -f -qq -o "$LOG" -e trace=pwrite64,pwritev,pwritev2 -e "inject=pwrite64,pwritev,pwritev2:error=EIO:when=$K" "$@"
RANK
chmod +x "$work/rank.sh"
export LOG=$work/strace.log K=2
eio() { # eio MPI LAYOUT blocks|interleaved all|some
    rm -rf "$work/store" "$LOG"
    begin "$2" "$work/store"
    with "$1" "$thalweg" run -- "$work/rank.sh" "$work/failing.$1" /failing/file "$3" 3 >"$work/said"
    grep -q INJECTED "$LOG"
    judge "$(ranks_of "$1")" IO "$4"
}
# The same in a data server: clients whose bytes lie there are told, or all ranks at the next sync.
server_pid() { "$thalweg" partition status "$partition" --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["servers"][1]["pid"])'; }
eio_of_server() { # eio_of_server MPI blocks|interleaved
    local tracer pid status=0
    rm -rf "$work/store" "$LOG"
    begin partition "$work/store"
    pid=$(server_pid)
    strace -f -qq -o "$LOG" -e trace=pwrite64,pwritev,pwritev2 -e "inject=pwrite64,pwritev,pwritev2:error=EIO" -p "$pid" &
    tracer=$!
    sleep 1
    with "$1" "$thalweg" run -- "$work/failing.$1" /failing/file "$2" 3 >"$work/said" || status=$?
    kill "$tracer" 2>/dev/null || true
    wait "$tracer" 2>/dev/null || true
    end
    [[ $status == 0 ]]
    grep -q INJECTED "$LOG"
    judge "$(ranks_of "$1")" IO some
}
traces=1
strace -qq -o "$work/strace.log" true 2>"$work/stderr.log" ||
    { traces=0 && echo "skipped: EIO in MPI-IO: strace cannot trace here ($(head -n 1 "$work/stderr.log"))"; }
for mpi in openmpi mpich; do
    command -v "mpicc.$mpi" >/dev/null || { echo "skipped: errors of MPI-IO with $mpi: it is not installed" && continue; }
    "mpicc.$mpi" -std=c11 -O1 -g -Wall -Wextra -Werror tests/system/mpiio/failing.c -o "$work/failing.$mpi"
    for layout in direct container partition; do
        for how in blocks interleaved; do
            who=some
            # Where ranks exchange bytes an error is one of all.
            [[ $layout/$how != direct/interleaved ]] || who=all
            try "a full disk: every rank returns, with its class ($mpi, $layout, $how)" no_space "$mpi" "$layout" "$how" "$who"
            [[ $traces == 1 ]] || continue
            if [[ $layout == partition ]]; then
                try "EIO in a server: every rank returns, with its class ($mpi, $how)" eio_of_server "$mpi" "$how"
            else
                try "EIO on rank 1: every rank returns, with its class ($mpi, $layout, $how)" eio "$mpi" "$layout" "$how" "$who"
            fi
        done
    done
done
exit "$failed"
