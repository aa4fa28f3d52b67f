#!/usr/bin/env bash
# h5py with parallel HDF5 (Debian's package for Open MPI) on mounts, through the door for MPI-IO: a program that writes and reads together
# and alone, and the package's own tests, those for MPI on four ranks and all on one; on direct, container and partition.
# shellcheck disable=SC2317  # functions are called by name, through try
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
root=$PWD
work=$PWD/build/h5py
source tests/checks.sh
source scripts/build.sh
# That of the system, to which Debian's packages belong.
python=/usr/bin/python3
if ! "$python" -c 'import mpi4py.MPI, h5py._debian_h5py_mpi' 2>"$work/stderr.log"; then
    echo "skipped: h5py over MPI-IO: python3-h5py-mpi is not installed ($(tail -n 1 "$work/stderr.log"))"
    exit 0
fi
build_all
with_libraries
export THALWEG_MOUNTS=$work/mounts.toml THALWEG_MPIIO=$prefix/lib
{
    printf 'name = h5py\nstripe_size = 64k\ncache_size = 16M\n'
    printf 'ahpios_server = localhost:%s\n' "$work/store.partition."{0,1,2}
    printf 'metadata = localhost:%s\n' "$work/store.partition.names"
} >"$work/partition.cfg"
stopped() { "$thalweg" partition stop "$work/partition.cfg" >&2; }
"$thalweg" partition create "$work/partition.cfg" >&2
"$thalweg" partition start "$work/partition.cfg" >&2
trap stopped EXIT
layouts=(direct container partition)
for layout in "${layouts[@]}"; do
    # A folder with a mount over it: tests make temporary folders there.
    mkdir -p "$work/$layout" "$work/store.$layout"
    printf '[[mount]]\npath = "%s"\nlayout = "%s"\n' "$work/$layout" "$layout" >>"$THALWEG_MOUNTS"
    if [[ $layout == partition ]]; then
        printf 'partition = "%s"\n\n' "$work/partition.cfg" >>"$THALWEG_MOUNTS"
    else
        printf 'stores = ["posix:%s"]\n\n' "$work/store.$layout" >>"$THALWEG_MOUNTS"
    fi
done

with() { # with RANKS PROGRAM...: behind both doors
    local ranks=$1 own status=0
    shift
    # Open MPI maps files of its own folder, which would be in TMPDIR.
    own=$(mktemp -d /tmp/ompi.XXXXXX)
    OMPI_MCA_orte_tmpdir_base=$own alone mpiexec.openmpi --oversubscribe -n "$ranks" "$thalweg" run --mpi openmpi -- "$@" || status=$?
    rm -rf "$own"
    return "$status"
}
# What fails on any filesystem: a build for MPI has no page buffering, one test asks a server of the Internet, and root writes files that
# nobody may write.
not=(--deselect test_file.py::TestPageBuffering --deselect test_file.py::TestROS3)
[[ $(id -u) != 0 ]] || not+=(--deselect test_file.py::TestFileOpen::test_append)
# theirs RANKS LAYOUT PYTEST'S ARGUMENTS...: their tests, whose temporary files are in the mount
theirs() {
    local ranks=$1 layout=$2 log=$work/theirs.$2.$1.log status=0
    shift 2
    TMPDIR=$work/$layout with "$ranks" "$python" -m pytest -p no:cacheprovider -q --pyargs h5py._debian_h5py_mpi.tests "${not[@]}" "$@" >"$log" 2>&1 || status=$?
    tail -n 15 "$log"
    [[ $status == 0 ]] && grep -qE '[0-9]+ passed' "$log"
}
for layout in "${layouts[@]}"; do
    many "$layout" with 4 "$python" "$root/tests/system/h5py/parallel.py" "$work/$layout/parallel.h5"
    many "$layout, one rank" with 1 "$python" "$root/tests/system/h5py/parallel.py" "$work/$layout/one.h5"
done
if "$python" -c 'import pytest, pytest_mpi' 2>>"$work/stderr.log"; then
    for layout in "${layouts[@]}"; do
        try "h5py's tests for MPI, on four ranks ($layout)" theirs 4 "$layout" --with-mpi --only-mpi
        try "all tests of h5py, on one rank ($layout)" theirs 1 "$layout"
    done
else
    echo "skipped: h5py's own tests over MPI-IO: python3-pytest-mpi is not installed"
fi
exit "$failed"
