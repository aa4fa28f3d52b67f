#!/usr/bin/env bash
# ./dev package deb: what it makes pleases lintian, and is installed by apt into a Debian that has nothing else: the command, C and
# Fortran with Open MPI and MPICH, the package for Python, programs written for ADIOS 1.x. ./dev test --tools runs it.
# DEBS=FOLDER takes packages that were made before.
# shellcheck disable=SC2317  # functions are called by name, through try
# shellcheck disable=SC2016  # expanded in the other Debian
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
source scripts/machine.sh
source scripts/build.sh
needs lintian debootstrap
work=$PWD/build/deb
source tests/checks.sh
made=${DEBS:-$work/made}

makes() {
    local line
    line=$(grep -xF './dev package deb FOLDER' docs/guide/installing.md)
    bash -ec "${line//FOLDER/$made}"
}
[[ -n ${DEBS:-} ]] || try "packages are made" makes
linted() { lintian --no-cfg --fail-on error,warning "$made"/thalweg_*.changes >"$work/lintian.txt" 2>&1 || { cat "$work/lintian.txt" >&2 && return 1; }; }
try "lintian has no errors and no warnings" linted

if [[ $(id -u) != 0 ]]; then
    echo "skipped: installing in another Debian: only root may change its root"
    exit "$failed"
fi
root=$(mktemp -d "${TMPDIR:-/tmp}/thalweg-deb.XXXXXX")
cleanup() {
    umount "$root/proc" "$root/dev/shm" 2>/dev/null || true
    rm -rf --one-file-system "$root"
}
trap cleanup EXIT
# inside COMMAND...: in the other Debian
inside() {
    limited 1200 env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "${settings[@]}" chroot "$root" "$@"
}
settings=()
for name in http_proxy https_proxy HTTPS_PROXY; do
    [[ -z ${!name:-} ]] || settings+=("$name=${!name}")
done
mirror=$(sed -n 's/^URIs: //p; s/^deb \(http[^ ]*\) .*/\1/p' /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null | head -n 1 || true)
begins() {
    debootstrap --variant=minbase --components=main "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$root" "${mirror:-http://deb.debian.org/debian}"
    cp /etc/resolv.conf "$root/etc/"
    mount -t proc proc "$root/proc"
    mkdir -p "$root/dev/shm" "$root/debs" "$root/work"
    mount -t tmpfs tmpfs "$root/dev/shm"
    cp "$made"/*.deb "$root/debs/"
    cp examples/heat/* tests/tools/{alone,ranks}.py "$root/work/"
    inside apt-get update -qq
}
try "there is another Debian" begins
# apt NAME...: our packages of these names, with what they need
apt() {
    local name debs=()
    for name; do
        debs+=("/debs/$(basename "$(compgen -G "$made/${name}_*.deb" | head -n 1)")")
    done
    inside apt-get install -qq --no-install-recommends "${debs[@]}"
}
has_no() { ! inside bash -c "command -v $1"; }

command_() {
    apt libthalweg-core"$abi" thalweg
    has_no cc && has_no mpiexec && has_no python3
    inside thalweg --version >"$work/told.txt"
    grep -qx "thalweg $version" "$work/told.txt"
    [[ -e $root/usr/share/man/man1/thalweg-ls.1.gz && -e $root/usr/share/doc/thalweg/sbom.cdx.json.gz ]]
    inside bash -c 'printf "[[mount]]\npath = \"/mnt/here\"\nlayout = \"container\"\nstores = [\"posix:/work/stored\"]\n" >/work/mounts.toml && mkdir -p /work/stored'
    inside env THALWEG_MOUNTS=/work/mounts.toml thalweg run -- bash -c 'echo kept >/mnt/here/x; cat /mnt/here/x' | grep -qx kept
}
try "apt installs the command alone, without MPI and Python" command_

python_() {
    apt python3-thalweg
    has_no cc
    inside bash -ec 'cd /work && python3 alone.py'
    inside thalweg ls /work/alone.bp | grep -q '^double  T '
}
try "the package for Python writes and reads" python_
converts() { inside bash -ec 'cd /work && thalweg convert alone.bp alone.h5 && thalweg convert alone.h5 again.bp && thalweg diff again.bp alone.h5'; }
try "files are converted to HDF5 and back" converts

mpi4py_() {
    inside apt-get install -qq --no-install-recommends python3-mpi4py openmpi-bin python3-xarray
    local method
    for method in POSIX MPI; do
        inside bash -ec "cd /work && rm -rf ranks.bp* && mpiexec --oversubscribe -n 2 python3 ranks.py 2 $method libmpi.so.40"
    done
    inside python3 -c 'import xarray
assert list(xarray.open_dataset("/work/ranks.bp", engine="thalweg").data_vars) == ["T"]'
}
try "ranks of Debian's mpi4py write, and xarray reads" mpi4py_

# heat MPI: C, and Fortran, and what reads their file without MPI
heat() {
    apt libthalweg-core"$abi" "libthalweg-$1$abi" libthalweg-dev "libthalweg-$1-dev"
    inside apt-get install -qq --no-install-recommends gcc gfortran libc6-dev pkg-config "$([[ $1 == mpich ]] && echo mpich || echo openmpi-bin)"
    local over=''
    [[ $1 == mpich ]] || over=--oversubscribe
    inside bash -ec "cd /work && rm -rf *.bp*
        mpicc.$1 -O2 heat.c \$(pkg-config --cflags --libs thalweg-$1) -o heat
        mpif90.$1 -O2 heat.f90 \$(pkg-config --cflags --libs thalweg-fortran-$1) -o heat-f
        cc read.c \$(pkg-config --cflags --libs thalweg-nompi) -o read
        mpiexec.$1 $over -n 2 ./heat heat.xml heat.bp
        mpiexec.$1 $over -n 2 ./heat-f heat.xml heat-f.bp
        ./read heat.bp && ./read heat-f.bp"
}
try "programs in C and Fortran are compiled and run with Open MPI" heat openmpi
try "programs in C and Fortran are compiled and run with MPICH" heat mpich
compat() {
    inside bash -ec 'PATH=/usr/lib/'"$(dpkg-architecture -qDEB_HOST_MULTIARCH)"'/thalweg/adios1/bin:$PATH
        cd /work && rm -rf heat.bp* && mpicc.openmpi -O2 heat.c $(adios_config -c) -o heat $(adios_config -l) && mpiexec.openmpi --oversubscribe -n 2 ./heat heat.xml heat.bp'
    has_no adios_config
}
try "build files for ADIOS 1.x find it in a folder of its own" compat

leaves() {
    local names
    mapfile -t names < <(inside dpkg-query -W -f '${Package}\n' '*thalweg*')
    [[ ${#names[@]} -ge 8 ]]
    inside apt-get purge -qq "${names[@]}"
    [[ -z $(find "$root/usr" "$root/etc" "$root/var/lib/thalweg" -iname '*thalweg*' 2>/dev/null) ]]
}
try "nothing is left when they are removed" leaves
exit "$failed"
