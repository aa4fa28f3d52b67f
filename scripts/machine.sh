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

# needs_rust: a cargo at least as new as Cargo.toml's rust-version.
needs_rust() {
    [[ -d $HOME/.cargo/bin ]] && PATH=$HOME/.cargo/bin:$PATH
    local wanted found
    wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    found=$(cargo --version 2>/dev/null | cut -d' ' -f2) || true
    if [[ -n $found && $(printf '%s\n' "$wanted" "$found" | sort -V | head -n 1) == "$wanted" ]]; then
        return
    fi
    # Never run so far: every machine at hand has Rust already.
    curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --profile default --no-modify-path
    PATH=$HOME/.cargo/bin:$PATH
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
