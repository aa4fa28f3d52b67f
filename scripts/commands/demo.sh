# shellcheck shell=bash
# demo: Gray-Scott on 4 MPI ranks, its output listed, queried, restarted on 3 ranks, read by other programs, drawn
source scripts/machine.sh

needs "${build_tools[@]}"
wants "${foreign_packages[@]}"
use_mpi openmpi
needs_rust
needs_python
./dev install build/prefix --without-far-stores
PREFIX=$PWD/build/prefix PYTHON=$venv/bin/python exec examples/gray-scott/demo.sh
