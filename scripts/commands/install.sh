# shellcheck shell=bash
# install PREFIX: the thalweg command, the C libraries for Open MPI, MPICH and no MPI, headers, pkg-config files
source scripts/machine.sh

prefix=$(realpath -m "${1:?usage: ./dev install PREFIX}")
needs "${build_tools[@]}" "${openmpi_packages[@]}" "${mpich_packages[@]}"
needs_rust
# The extension for Python is built by `pip install bindings/python`.
cargo build --quiet --release --workspace --exclude thalweg-python
if [[ -x target/release/thalweg ]]; then
    install -D target/release/thalweg "$prefix/bin/thalweg"
else
    echo "dev install: the thalweg command does not exist yet; left out" >&2
fi
if [[ -x bindings/c/install.sh ]]; then
    bindings/c/install.sh "$prefix"
else
    echo "dev install: the C library does not exist yet; left out" >&2
fi
