#!/usr/bin/env bash
# The module file of an installation is loaded by Debian's Lmod. ./dev test --tools runs it.
# shellcheck disable=SC2317  # functions are called by name, through try
# shellcheck disable=SC2016  # expanded by the user's shell
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
source scripts/machine.sh
source scripts/build.sh
use_mpi openmpi
needs lmod
work=$PWD/build/module
source tests/checks.sh
build_all
installs() { BUILT=1 ./dev install "$work/prefix" LIBDIR=lib64 --no-packages; }
try "an installation has a module file" installs

# user COMMANDS: of a login shell that finds Lmod and our modules, and nothing else of ours
user() {
    env -i HOME="$work" PATH=/usr/bin:/bin bash -c "source /usr/share/lmod/lmod/init/bash && module use '$work/prefix/share/modulefiles' && $1"
}
loads() {
    mkdir -p "$work/project"
    printf '%s\n' 'cmake_minimum_required(VERSION 3.16)' 'project(p C)' 'find_package(thalweg REQUIRED)' >"$work/project/CMakeLists.txt"
    user 'module load thalweg && thalweg --version && pkg-config --libs thalweg && man -w thalweg-ls && cd "$HOME/project" && cmake -S . -B made' >"$work/told.txt"
    grep -qx "thalweg $version" "$work/told.txt"
    grep -qF -- "-L$work/prefix/lib64" "$work/told.txt"
    grep -qx "$work/prefix/share/man/man1/thalweg-ls.1" "$work/told.txt"
    grep "^-- Configuring done" "$work/told.txt"
}
try "it is loaded" loads
unloads() { [[ $(user 'module load thalweg && module unload thalweg && (command -v thalweg; echo "$PKG_CONFIG_PATH$MANPATH$CMAKE_PREFIX_PATH")') == "" ]]; }
try "nothing of it is left when it is unloaded" unloads
tells() { user 'module whatis thalweg; module help thalweg; module spider thalweg' 2>&1 | grep -F "Version: $version"; }
try "it says what it is" tells
exit "$failed"
