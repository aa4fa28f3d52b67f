# shellcheck shell=bash
# What a machine must have, and how it is put there: system packages, Rust, Python tools. Sourced by the commands.
# Each function looks first and costs milliseconds when nothing is missing.
# shellcheck disable=SC2034  # the lists and $venv are for those who source this

# CMake and libclang build zfp's library and what calls it; thalweg-convert is linked with HDF5, and left out where that is missing.
build_tools=(build-essential gfortran python3 pkg-config ca-certificates curl cmake libclang-dev libhdf5-dev)
memory_packages=(valgrind) # tests of what C programs leave behind
fault_packages=(strace)    # lets system calls fail
openmpi_packages=(openmpi-bin libopenmpi-dev)
mpich_packages=(mpich libmpich-dev)
cpp_packages=(clang cmake valgrind)
python_packages=(python3 python3-venv)
# Other programs' readers and writers, to be compared with. Not every distribution still carries ADIOS 1.13.
foreign_packages=(
    libadios-bin libadios-dev libadios-openmpi-dev libhdf5-openmpi-dev
    libpnetcdf-dev libnetcdf-mpi-dev liblz4-dev libblosc-dev libaec-dev libbz2-dev zlib1g-dev # what a static libadios.a is linked with
    hdf5-tools netcdf-bin # h5dump, ncdump
    python3-h5py python3-h5py-mpi python3-pytest-mpi # with the Python, NumPy, MPI for Python and pytest of the distribution
)

# Servers that stores are tried on: HDFS runs on Java and is fetched by Maven, the S3 server is built with Go (1.21 or newer:
# where the distribution's is older, put another into PATH). Tests say what they skip without them.
server_packages=(default-jre-headless maven golang-go openssl)

# A batch system, whose jobs have partitions of their own.
slurm_packages=(slurmctld slurmd slurm-client munge)

# Nodes on one machine: network namespaces.
node_packages=(iproute2)

# Programs that are tried on mounts through FUSE and preload; fuse3 lets users who are not root mount.
door_packages=(fuse3 rsync fio sqlite3 git)

# What benches compare mounts with.
bench_packages=(bindfs git)

# What an installation is built with, and the packages that bring it: name | Debian, Ubuntu | RHEL, Rocky, Fedora | openSUSE.
# RHEL and Rocky have some of them in the repositories CRB and EPEL.
package_names=(
    'cc|gcc libc6-dev|gcc|gcc'
    'c++|g++|gcc-c++|gcc-c++'
    'binutils|binutils|binutils|binutils'
    'cmake|cmake|cmake|cmake'
    'make|make|make|make'
    'libclang|libclang-dev|clang-devel|clang-devel'
    'cargo|cargo|cargo|cargo'
    'python3|python3|python3|python3'
    'gfortran|gfortran|gcc-gfortran|gcc-fortran'
    'openmpi|libopenmpi-dev openmpi-bin|openmpi-devel|openmpi4-devel'
    'mpich|libmpich-dev mpich|mpich-devel|mpich-devel'
    'hdf5|libhdf5-dev|hdf5-devel|hdf5-devel'
)

# packages_for NAME: how distributions call what brings it.
packages_for() {
    local line debian redhat suse
    for line in "${package_names[@]}"; do
        [[ ${line%%|*} == "$1" ]] || continue
        IFS='|' read -r _ debian redhat suse <<<"$line"
        echo "Debian: $debian; RHEL, Rocky: $redhat; openSUSE: $suse"
    done
}

# may_install: whether system packages can be installed here: apt is there, and the user is root or may become it.
may_install() {
    command -v apt-get >/dev/null && command -v dpkg-query >/dev/null || return 1
    [[ $(id -u) != 0 ]] || return 0
    command -v sudo >/dev/null || return 1
    sudo -n true 2>/dev/null || [[ -t 0 && " $(id -nG) " =~ \ (sudo|admin|wheel)\  ]]
}

as_root() {
    if [[ $(id -u) == 0 ]]; then "$@"; else sudo "$@"; fi
}

installed() {
    [[ $(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null) == installed ]]
}

# needs PACKAGE...: installs the system packages that are missing.
needs() {
    local missing=() package
    dpkg -s "$@" >/dev/null 2>&1 && return
    for package in "$@"; do
        installed "$package" || missing+=("$package")
    done
    [[ ${#missing[@]} -gt 0 ]] || return 0
    echo "dev: installing ${missing[*]}" >&2
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
}

# wants PACKAGE...: like needs, but leaves out what this distribution does not offer, and says so.
wants() {
    local offered=() package
    dpkg -s "$@" >/dev/null 2>&1 && return
    # A machine that never updated its lists knows no package at all.
    [[ -n $(apt-cache madison build-essential) ]] || as_root apt-get update -qq
    for package in "$@"; do
        if installed "$package" || [[ -n $(apt-cache madison "$package" 2>/dev/null) ]]; then
            offered+=("$package")
        else
            echo "dev: this distribution has no package $package; comparisons with it are skipped" >&2
        fi
    done
    [[ ${#offered[@]} == 0 ]] || needs "${offered[@]}"
}

# rust_wanted: the oldest Rust that builds this.
rust_wanted() { sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml; }

# has_rust: whether there is a cargo at least as new as Cargo.toml's rust-version.
has_rust() {
    [[ ! -d ${HOME:-}/.cargo/bin ]] || PATH=$HOME/.cargo/bin:$PATH
    local wanted found
    wanted=$(rust_wanted)
    found=$(cargo --version 2>/dev/null | cut -d' ' -f2) || true
    [[ -n $found && $(printf '%s\n' "$wanted" "$found" | sort -V | sed -n 1p) == "$wanted" ]]
}

# needs_rust: installs it where there is none.
needs_rust() {
    if has_rust; then return; fi
    # Never run so far: every machine at hand has Rust already.
    curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --profile default --no-modify-path
    PATH=$HOME/.cargo/bin:$PATH
}

# has_libclang: whether bindgen finds it.
has_libclang() {
    [[ -n ${LIBCLANG_PATH:-} ]] || command -v llvm-config >/dev/null ||
        compgen -G '/usr/lib*/libclang*.so*' >/dev/null || compgen -G '/usr/lib/*/libclang*.so*' >/dev/null ||
        compgen -G '/usr/lib*/llvm*/lib*/libclang*.so*' >/dev/null
}

# compiles COMPILER LANGUAGE: whether it makes programs.
compiles() {
    local program
    program=$(mktemp) || return 1
    printf '#include <stdio.h>\nint main(void) { return puts(""); }\n' | "$1" -x "$2" - -o "$program" 2>/dev/null || { rm -f "$program" && return 1; }
    rm -f "$program"
}

# needs_tools: what builds the command and the libraries is there; or all that is missing is named, and it fails. BUILT=1: what builds
# the libraries for each MPI is enough.
needs_tools() {
    local missing=() tool
    lacks() { missing+=("  $1: $2 ($(packages_for "$3"))"); }
    compiles "${CC:-cc}" c || lacks "a C compiler (${CC:-cc})" "builds the libraries for each MPI" cc
    for tool in nm ld objcopy ar; do
        command -v "$tool" >/dev/null || lacks "$tool" "makes the static libraries" binutils
    done
    if [[ -z ${BUILT:-} ]]; then
        has_rust || lacks "cargo $(rust_wanted) or newer" "builds the command and libthalweg-core; a distribution's may be older, that of https://rustup.rs needs no root" cargo
        compiles "${CXX:-c++}" c++ || lacks "a C++ compiler (${CXX:-c++})" "CMake asks for it to build zfp" c++
        command -v cmake >/dev/null || lacks cmake "builds zfp" cmake
        command -v make >/dev/null || lacks make "builds zfp" make
        has_libclang || lacks libclang "reads zfp's headers; LIBCLANG_PATH names its folder" libclang
    fi
    [[ ${#missing[@]} -gt 0 ]] || return 0
    printf '%s\n' "install: these are missing here, and nothing was installed:" "${missing[@]}" >&2
    return 1
}

# needs_python: build/venv with the packages of scripts/python-packages.txt; made once, made again when the list changes.
# Debian's own Python, so that MPI and HDF5 modules of the system fit it.
needs_python() {
    needs "${python_packages[@]}"
    venv=$PWD/build/venv
    local stamp=build/venv/packages.txt
    cmp -s scripts/python-packages.txt "$stamp" && return
    echo "dev: making build/venv" >&2
    /usr/bin/python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check -r scripts/python-packages.txt
    cp scripts/python-packages.txt "$stamp"
}

# needs_thalweg_in_python: the package `thalweg` in build/venv, as `pip install .` in bindings/python makes it.
needs_thalweg_in_python() {
    PATH=$venv/bin:$PATH "$venv/bin/pip" install --quiet --disable-pip-version-check --no-build-isolation --no-deps \
        ./bindings/python
}

# use_mpi openmpi|mpich: sets MPI, MPICC, MPIF90, MPIEXEC (command, to be followed by -n RANKS PROGRAM) and MPI_RANKS,
# the number of ranks a test may take by default.
use_mpi() {
    export MPI=$1 MPICC MPIF90 MPIEXEC MPI_RANKS
    case $MPI in
        openmpi)
            needs "${openmpi_packages[@]}"
            MPICC=mpicc.openmpi
            MPIF90=mpif90.openmpi
            MPIEXEC="mpiexec.openmpi --oversubscribe"
            MPI_RANKS=4
            ;;
        mpich)
            needs "${mpich_packages[@]}"
            MPICC=mpicc.mpich
            MPIF90=mpif90.mpich
            MPIEXEC=mpiexec.mpich
            # Its collectives spin while they wait, so more ranks than cores take minutes.
            MPI_RANKS=2
            ;;
        *)
            echo "dev: no MPI named '$MPI'; openmpi and mpich are known" >&2
            exit 2
            ;;
    esac
}

# link_adios1: prints what links a program with Debian's ADIOS 1.13 for Open MPI.
link_adios1() {
    local lib
    lib=/usr/lib/$(cc -print-multiarch)
    echo "-L$lib/adios/openmpi/lib -ladios -lnetcdf_mpi -L$lib/hdf5/openmpi -lhdf5_hl -lhdf5" \
        "-lbz2 -lz -lsz -llz4 -lblosc -lm -lpthread"
}
