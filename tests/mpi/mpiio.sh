#!/usr/bin/env bash
# The door for MPI-IO with both MPIs: every function from C beside a model, from Fortran by each of its three interfaces, datatypes of
# every constructor, libraries that stand on MPI-IO (HDF5, NetCDF, PnetCDF), mpi4py's own tests, profiles; on layouts direct, container,
# flat, small_file and partition. Files outside of mounts go to the MPI.
#
#   LONG=1 also moves more than 2^31 bytes at once
# shellcheck disable=SC2317  # functions are called by name, through try
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
root=$PWD
work=$PWD/build/mpiio
source tests/checks.sh
source scripts/build.sh
build_all
with_libraries
export THALWEG_MOUNTS=$work/mounts.toml THALWEG_MPIIO=$prefix/lib
mount() { # mount PATH LAYOUT NAME
    mkdir -p "$work/store.$3"
    printf '[[mount]]\npath = "%s"\nlayout = "%s"\nstores = ["posix:%s"]\n\n' "$1" "$2" "$work/store.$3" >>"$THALWEG_MOUNTS"
}
layouts=(direct container flat small_file)
for layout in "${layouts[@]}"; do mount "/mpiio/$layout" "$layout" "$layout"; done
# A store without locks, in the memory of each rank.
memory=(direct container small_file)
for layout in "${memory[@]}"; do printf '[[mount]]\npath = "/mpiio/memory.%s"\nlayout = "%s"\nstore = "memory:%s"\n\n' "$layout" "$layout" "$layout" >>"$THALWEG_MOUNTS"; done
# A partition of three servers, with stripes that an extent of these tests crosses, and one whose clients map views themselves.
partition() { # partition NAME OPTIMIZATIONS
    {
        printf 'name = mpiio-%s\nstripe_size = 4k\ncache_size = 4M\noptimizations = %s\n' "$1" "$2"
        printf 'ahpios_server = localhost:%s\n' "$work/store.$1."{0,1,2}
        printf 'metadata = localhost:%s\n' "$work/store.$1.names"
    } >"$work/$1.cfg"
    "$thalweg" partition create "$work/$1.cfg" >&2
    "$thalweg" partition start "$work/$1.cfg" >&2
    printf '[[mount]]\npath = "%s"\nlayout = "partition"\npartition = "%s"\n\n' "/mpiio/$1" "$work/$1.cfg" >>"$THALWEG_MOUNTS"
}
stopped() { for name in partition mapped; do "$thalweg" partition stop "$work/$name.cfg"; done; }
trap stopped EXIT
partition partition 0
partition mapped 1
layouts+=(partition mapped)
mkdir -p "$work/temporary.partition"
printf '[[mount]]\npath = "%s"\nlayout = "partition"\npartition = "%s"\n\n' "$work/temporary.partition" "$work/partition.cfg" >>"$THALWEG_MOUNTS"
# Files that a program makes with other calls first lie beside those of the mount.
for layout in direct container; do
    mkdir -p "$work/temporary.$layout"
    mount "$work/temporary.$layout" $layout "temporary.$layout"
done

# with MPI RANKS PROGRAM...: behind both doors
with() {
    local mpi=$1 ranks=$2 own status=0
    shift 2
    local -a launch=(mpiexec.mpich -n "$ranks")
    [[ $mpi == mpich ]] || launch=(mpiexec.openmpi --oversubscribe -n "$ranks")
    # Open MPI maps files of its own folder, which would be in TMPDIR.
    own=$(mktemp -d /tmp/ompi.XXXXXX)
    OMPI_MCA_orte_tmpdir_base=$own alone "${launch[@]}" "$thalweg" run -- "$@" || status=$?
    rm -rf "$own"
    return "$status"
}
# with_nothing MPI PROGRAM...: without `thalweg run`
with_nothing() {
    local -a launch=(mpiexec.mpich -n 2)
    [[ $1 == mpich ]] || launch=(mpiexec.openmpi --oversubscribe -n 4)
    alone "${launch[@]}" "${@:2}"
}
by_partition() { # by_partition MPI
    local ranks
    ranks=$(ranks_of "$1")
    THALWEG_MOUNTS='' THALWEG_PARTITION=$work/partition.cfg with "$1" "$ranks" "$work/stays.$1" "thalweg:mpiio-partition/by.name.$1"
    # It is where programs below the mount find it.
    [[ $("$thalweg" run -- stat -c %s "/mpiio/partition/by.name.$1") == $((3 * 4096 * ranks)) ]]
    "$thalweg" run -- rm "/mpiio/partition/by.name.$1"
}
apart_from_each_other() { # apart_from_each_other MPI PATH
    local own status=0
    local -a launch=(mpiexec.mpich -n 2)
    [[ $1 == mpich ]] || launch=(mpiexec.openmpi --oversubscribe --mca btl 'tcp,self' -n 4)
    own=$(mktemp -d /tmp/ompi.XXXXXX)
    OMPI_MCA_orte_tmpdir_base=$own alone "${launch[@]}" unshare --pid --fork --mount-proc "$thalweg" run -- "$work/calls.$1" "$2" nopointer || status=$?
    rm -rf "$own"
    return "$status"
}
ranks_of() { [[ $1 == mpich ]] && echo 2 || echo 4; }

# A module of its own interface each; buffers of several types, which gfortran warns of.
fortran=(-O1 -g -w -ffree-line-length-none -fallow-argument-mismatch -J "$work")
for mpi in openmpi mpich; do
    command -v "mpicc.$mpi" >/dev/null || { echo "skipped: MPI-IO with $mpi: it is not installed" && continue; }
    try "the programs compile with $mpi" "mpicc.$mpi" -std=c11 -O1 -g -Wall -Wextra -Werror tests/mpi/mpiio/calls.c -o "$work/calls.$mpi"
    try "the program of datatypes compiles with $mpi" "mpicc.$mpi" -std=c11 -O1 -g -Wall -Wextra -Werror tests/mpi/mpiio/types.c -o "$work/types.$mpi"
    for interface in MPIF MPI F08; do
        try "Fortran's $interface compiles with $mpi" "mpif90.$mpi" "${fortran[@]}" -D$interface tests/mpi/mpiio/calls.F90 -o "$work/fortran.$mpi.$interface"
    done
    for number in "${!layouts[@]}"; do
        layout=${layouts[number]}
        # Bytes that two ranks write without a sync in between are those of the rank that publishes later.
        less=()
        [[ $layout != small_file ]] || less=(noepochs)
        # Each rank has a log of its own, or servers that sort what ranks write.
        [[ $layout != container && $layout != small_file && $layout != partition ]] || less+=(noexchange)
        many "$mpi, $layout" with "$mpi" "$(ranks_of "$mpi")" "$work/calls.$mpi" "/mpiio/$layout/calls.$mpi" "${less[@]}"
        # One of Fortran's interfaces on each layout, with LONG=1 all of them; all are linked with the door below.
        interfaces=(MPIF MPI F08)
        [[ ${LONG:-0} != 0 ]] || interfaces=("${interfaces[number % 3]}")
        for interface in "${interfaces[@]}"; do
            many "$interface, $mpi, $layout" with "$mpi" "$(ranks_of "$mpi")" "$work/fortran.$mpi.$interface" "/mpiio/$layout/fortran.$mpi"
        done
        many "$mpi, $layout" with "$mpi" "$(ranks_of "$mpi")" "$work/types.$mpi" "/mpiio/$layout/types.$mpi"
    done
    many "$mpi, one rank" with "$mpi" 1 "$work/calls.$mpi" "/mpiio/container/one.$mpi" noexchange
    for layout in "${memory[@]}"; do
        many "$mpi, $layout in memory" with "$mpi" 1 "$work/calls.$mpi" "/mpiio/memory.$layout/calls" nolocks noexchange
    done
    many "$mpi, by name" with "$mpi" 2 "$work/calls.$mpi" "thalweg:$work/by.name.$mpi"
    # Rank 1 has no mounts.
    : >"$work/none.toml"
    # shellcheck disable=SC2016  # the inner shell expands them
    many "$mpi" with "$mpi" 2 bash -c '[[ ${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}} == 0 ]] || export THALWEG_MOUNTS=$1; exec "$2" /mpiio/container/apart apart' _ "$work/none.toml" "$work/calls.$mpi"
    # Ranks that see no process of another, as on several machines.
    if unshare --pid --fork --mount-proc true 2>>"$work/stderr.log"; then
        for layout in direct container; do
            many "$mpi, $layout" apart_from_each_other "$mpi" "/mpiio/$layout/nopointer.$mpi"
        done
    else
        echo "skipped: shared pointers of ranks in PID namespaces of their own: unshare is not allowed here"
    fi
    left() { # the stores hold what a program left, and nothing of the doors
        [[ -z $(find "$work"/store.{direct,flat} -type f ! -path '*/.thalweg-flat/*') && -z $(find /dev/shm -name '*thalweg*') ]]
    }
    try "nothing is left ($mpi)" left
    # Linked with the door, and without `thalweg run`. Programs in Fortran name no function of C: a linker that drops libraries would drop it.
    with_door=("-L$prefix/lib" "-lthalweg-mpiio-$mpi" "-Wl,-rpath,$prefix/lib")
    try "a program is linked with the door ($mpi)" "mpicc.$mpi" -std=c11 -O1 tests/mpi/mpiio/calls.c "${with_door[@]}" -o "$work/linked.$mpi"
    many "$mpi, linked" with_nothing "$mpi" "$work/linked.$mpi" /mpiio/container/linked noexchange
    for interface in MPIF MPI F08; do
        try "Fortran's $interface is linked with the door ($mpi)" "mpif90.$mpi" "${fortran[@]}" -D$interface tests/mpi/mpiio/calls.F90 -Wl,--no-as-needed "${with_door[@]}" -o "$work/linked.$mpi.$interface"
        many "$interface, $mpi, linked" with_nothing "$mpi" "$work/linked.$mpi.$interface" /mpiio/container/linked
    done
    # A file of a partition by the partition's name, with its configuration in the mount table, and without a mount table.
    many "$mpi, by the partition's name" with "$mpi" "$(ranks_of "$mpi")" "$work/calls.$mpi" "thalweg:mpiio-partition/named.$mpi" noexchange on_servers
    try "the program whose file stays compiles ($mpi)" "mpicc.$mpi" -std=gnu11 -O1 tests/mpi/mpiio/waits.c -o "$work/stays.$mpi"
    try "without a mount table, a partition's name leads to its files ($mpi)" by_partition "$mpi"
    # Outside of the mounts: the MPI's own. A file that MPI makes there is a file there.
    plainly() {
        # What they get wrong themselves is not looked at.
        with "$mpi" 2 "$work/fortran.$mpi.MPIF" "$work/plain.$mpi" >"$work/plain.log" && grep -q '^ok views' "$work/plain.log"
    }
    try "a file outside of the mounts is the MPI's ($mpi)" plainly
done

# More than 2^31 bytes at once: 2.2 GB of memory and of disk.
for mpi in openmpi mpich; do
    command -v "mpicc.$mpi" >/dev/null || continue
    try "the program of large accesses compiles with $mpi" "mpicc.$mpi" -std=c11 -O1 -g -Wall -Wextra -Werror tests/mpi/mpiio/large.c -o "$work/large.$mpi"
    [[ ${LONG:-0} != 0 ]] || continue
    for layout in direct container partition; do many "$mpi, $layout" with "$mpi" 1 "$work/large.$mpi" "/mpiio/$layout/large"; done
done

# Profiles: what the program waits.c is known to call, and who came late.
profiled() { # profiled MPI LAYOUT
    local ranks path=/mpiio/$2/waits.$1
    ranks=$(ranks_of "$1")
    # Not asked for: none is there.
    with "$1" "$ranks" "$work/waits.$1" "$path"
    if "$thalweg" profile "$path" 2>"$work/none.log"; then echo "a profile nobody asked for" && return 1; fi
    "$thalweg" run -- rm "$path"
    for _ in 0 1; do THALWEG_PROFILE=1 with "$1" "$ranks" "$work/waits.$1" "$path"; done
    "$thalweg" profile "$path" --svg "$work/waits.svg" --chrome "$work/waits.trace"
    "$thalweg" profile "$path" --json >"$work/waits.json"
    "$thalweg" run -- rm -r "$path" "$path.profile"
    python3 - "$work/waits.json" "$ranks" <<'PYTHON'
import json, sys
told, ranks = json.load(open(sys.argv[1])), int(sys.argv[2])
assert [o["step"] for o in told["outputs"]] == [0, 1], told["outputs"]
for output in told["outputs"]:
    assert output["methods"] == ["MPI-IO"] and output["missing"] == 0 and output["error"] is None, output
    assert output["bytes"] == ranks * (3 * 4096 + 100) + 10, output
calls = {row["call"]: row for row in told["calls"]}
for name, count, moved in [
    ("open", ranks, 0), ("close", ranks, 0), ("sync", 3 * ranks, 0), ("get_size", 3 * ranks, 0),
    ("write_at_all", 3 * ranks, 3 * ranks * 4096), ("iwrite_at", ranks, 100 * ranks), ("write_all_begin", ranks, 0),
    ("write_all_end", ranks, 0), ("read_at", 1, 10),
]:
    assert (calls[name]["calls"], calls[name]["bytes"]) == (2 * count, 2 * moved), (name, calls[name])
assert len(calls) == 9, calls
assert calls["sync"]["longest_seconds"] > 0.4 > calls["write_at_all"]["longest_seconds"], calls
late = told["last_ranks"][0]
assert (late["call"], late["last_rank"], late["calls"]) == ("sync", ranks - 1, 6), told["last_ranks"]
assert late["ranks_apart_seconds"] > 0.08 and late["others_waited_seconds"] > 0.4 * (ranks - 1), late
assert all(row["others_waited_seconds"] == 0 for row in told["last_ranks"] if "write" in row["call"]), told["last_ranks"]
order = [call["call"] for call in told["collective_calls"] if call["step"] == 1]
assert order == ["open"] + 3 * ["write_at_all", "sync"] + ["write_all_begin", "close"], order
phases = {row["phase"]: row for row in told["phases"]}
assert phases["write"]["bytes"] == 2 * ranks * (3 * 4096 + 100) and phases["read"]["bytes"] == 20, phases
cause = told["kept_waiting"][0]
assert cause["rank"] == ranks - 1 and cause["doing"] is None, told["kept_waiting"]
PYTHON
}
for mpi in openmpi mpich; do
    command -v "mpicc.$mpi" >/dev/null || continue
    try "a program compiles whose profile is known ($mpi)" "mpicc.$mpi" -std=gnu11 -O1 -Wall -Wextra -Werror tests/mpi/mpiio/waits.c -o "$work/waits.$mpi"
    for layout in direct container partition; do
        try "a profile counts calls and names the rank that others waited for ($mpi, $layout)" profiled $mpi $layout
    done
done

# Two programs of two MPIs, which can neither spawn nor connect to each other, on one partition at once.
together() {
    local first status=0
    with openmpi 4 "$work/calls.openmpi" /mpiio/partition/together.openmpi noexchange >"$work/together.openmpi.log" &
    first=$!
    with mpich 2 "$work/calls.mpich" /mpiio/partition/together.mpich noexchange >"$work/together.mpich.log" || status=1
    wait "$first" || status=1
    cat "$work"/together.*.log
    [[ $status == 0 ]] && ! grep '^not ok' "$work"/together.*.log && grep -q '^ok' "$work/together.openmpi.log" && grep -q '^ok' "$work/together.mpich.log"
}
if command -v mpicc.openmpi >/dev/null && command -v mpicc.mpich >/dev/null; then
    try "programs of both MPIs work on one partition at once" together
fi

if command -v mpicc.openmpi >/dev/null && pkg-config --exists hdf5-openmpi netcdf-mpi pnetcdf; then
    compiled() { # compiled LIBRARY FLAG...
        local library=$1
        shift
        mpicc.openmpi -std=c11 -O1 -g -Wall -Wextra -Werror "-D$library" tests/mpi/mpiio/libraries.c -o "$work/$library" "$@"
    }
    # Debian's netcdf-mpi.pc leaves out its own headers.
    netcdf=-I$(pkg-config --variable=libdir netcdf-mpi)/netcdf/mpi/include
    # shellcheck disable=SC2046  # several flags
    {
        try "a program of parallel HDF5 compiles" compiled HDF5 $(pkg-config --cflags --libs hdf5-openmpi)
        try "a program of parallel NetCDF compiles" compiled NETCDF "$netcdf" $(pkg-config --cflags --libs netcdf-mpi)
        try "a program of PnetCDF compiles" compiled PNETCDF $(pkg-config --cflags --libs pnetcdf)
    }
    for layout in direct container partition; do
        for library in HDF5 NETCDF PNETCDF; do
            many "$layout" with openmpi 4 "$work/$library" "/mpiio/$layout/$library"
        done
    done
else
    echo "skipped: HDF5, NetCDF and PnetCDF over MPI-IO: their libraries for Open MPI are not installed"
fi

# A tool that counts calls: in front of the door it sees all, behind it those that are not ours; what the program does is right either way.
tool() { # tool MPI PRELOADED PROGRAM
    local mpi=$1 preloaded=$2 program=$3
    local -a launch=(mpiexec.mpich -n 2)
    [[ $mpi == mpich ]] || launch=(mpiexec.openmpi --oversubscribe -n 2)
    TOOL=1 alone "${launch[@]}" env LD_PRELOAD="$preloaded" "$program" /mpiio/container/tool noexchange >"$work/tool.log" || return 1
    ! grep '^not ok' "$work/tool.log" && grep -q '^ok every blocking call' "$work/tool.log"
}
# The program opens files of the mount alone.
all_seen() { tool "$@" && grep -qE '^tool: [1-9][0-9]* opens, [1-9][0-9]* writes, [1-9][0-9]* reads' "$work/tool.log"; }
none_seen() { tool "$@" && grep -q '^tool: 0 opens, 0 writes, 0 reads' "$work/tool.log"; }
for mpi in openmpi mpich; do
    command -v "mpicc.$mpi" >/dev/null || continue
    door=$prefix/lib/libthalweg-mpiio-$mpi.so
    try "a tool compiles with $mpi" "mpicc.$mpi" -std=c11 -O1 -Wall -Wextra -Werror -fPIC -shared tests/mpi/mpiio/tool.c -o "$work/tool.$mpi.so"
    try "the program is linked with the tool ($mpi)" "mpicc.$mpi" -std=c11 -O1 tests/mpi/mpiio/calls.c "$work/tool.$mpi.so" -Wl,-rpath,"$work" -o "$work/watched.$mpi"
    try "a tool in front of the door sees all calls ($mpi)" all_seen $mpi "$work/tool.$mpi.so:$door" "$work/calls.$mpi"
    try "a tool behind the door sees none that are ours ($mpi)" none_seen $mpi "$door:$work/tool.$mpi.so" "$work/calls.$mpi"
    try "so does one that the program is linked with ($mpi)" none_seen $mpi "$door" "$work/watched.$mpi"
done

# mpi4py's tests of files, from its source package; their temporary files are made in a folder that is a mount, too.
python=${PYTHON:-python3}
version=$("$python" -c 'import mpi4py; print(mpi4py.__version__)' 2>>"$work/stderr.log") || version=''
if [[ -z $version ]]; then
    echo "skipped: mpi4py's tests behind the door for MPI-IO: it is not installed"
else
    sources=$root/build/foreign/mpi4py-$version
    fetched() {
        [[ ! -d $sources ]] || return 0
        mkdir -p "$root/build/foreign"
        "$python" -m pip download --quiet --no-deps --no-binary mpi4py "mpi4py==$version" -d "$work"
        tar -xf "$work/mpi4py-$version.tar.gz" -C "$root/build/foreign"
    }
    try "the source of mpi4py $version is here" fetched
    theirs() { # theirs MPI LAYOUT
        local -x MPI4PY_MPIABI=$1 TMPDIR=$work/temporary.$2
        if [[ $1 == mpich ]]; then
            # What mpi4py calls MPICH's library.
            mkdir -p "$work/mpich"
            ln -sf "$(find /usr/lib -name 'libmpich.so.12' | head -n 1)" "$work/mpich/libmpi.so.12"
            local -x LD_LIBRARY_PATH=$work/mpich
        fi
        local status=0
        with "$1" "$(ranks_of "$1")" "$python" "$sources/test/main.py" -i 'test_(io|file)' >"$work/mpi4py.log" 2>&1 || status=$?
        tail -n 5 "$work/mpi4py.log" >&2
        # Each rank tells; their files lay in the mount.
        [[ $status == 0 ]] && grep -q '^OK' "$work/stderr.log" "$work/mpi4py.log" && ! grep -q '^FAILED' "$work/stderr.log"
    }
    for mpi in openmpi mpich; do
        command -v "mpiexec.$mpi" >/dev/null || continue
        for layout in direct container partition; do try "mpi4py's tests of files on $layout with $mpi" theirs $mpi $layout; done
    done
fi
exit "$failed"
