#!/usr/bin/env bash
# ./dev install and ./dev uninstall as users call them: without apt and without root, with one MPI or none, staged, with folders of other
# names, with clang; the commands of docs/guide/installing.md. Nothing is built but the libraries for each MPI.
# shellcheck disable=SC2317  # functions are called by name, through try
# shellcheck disable=SC2046  # what pkg-config says is several flags
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
source scripts/machine.sh
source scripts/build.sh
use_mpi "${MPI:-openmpi}"
needs "${cpp_packages[@]}" gfortran
work=$PWD/build/installing/$MPI
source tests/checks.sh
build_all
export BUILT=1
unset CC CXX LIBDIR DESTDIR PKG_CONFIG_PATH
ranks=2

# A user's home. The user is another one where we are root.
home=$(mktemp -d "${TMPDIR:-/tmp}/thalweg-installing.XXXXXX")
trap 'rm -rf "$home"' EXIT
chmod 755 "$home"
as_user=() source=$PWD target=${CARGO_TARGET_DIR:-$PWD/target}
if [[ $(id -u) == 0 ]]; then
    as_user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
    chown 65534:65534 "$home"
    # Sources and what was built, where that user can read them.
    if ! "${as_user[@]}" test -r "$source/dev" -a -r "$built/libthalweg_core.a"; then
        source=$home/source target=$home/target
        mkdir -p "$source" "$target/${built##*/}"
        git ls-files -z --cached --others --exclude-standard | while IFS= read -rd '' file; do
            [[ ! -f $file ]] || printf '%s\0' "$file"
        done | xargs -0 cp --parents -t "$source"
        for file in thalweg thalweg-convert libthalweg_core.so libthalweg_core.a libthalweg_preload.so; do
            [[ ! -e $built/$file ]] || cp "$built/$file" "$target/${built##*/}/"
        done
        chmod -R a+rX "$source" "$target"
    fi
fi

# bare FOLDER: what a machine without apt, MPI, Fortran and HDF5 has in PATH.
bare() {
    mkdir -p "$1"
    cp -rs /usr/bin/. "$1" 2>/dev/null || true
    (cd "$1" && rm -rf apt* dpkg* sudo* mpi* ./*mpicc* ./*gfortran* f95 f77 pkg-config pkgconf cargo rustc rustup)
    rm -f "$1/cc"
    # HDF5 is looked for below a folder that the compiler names.
    # shellcheck disable=SC2016  # the script's
    printf '#!/bin/sh\n[ "$1" != -print-multiarch ] || exit 1\nexec /usr/bin/cc "$@"\n' >"$1/cc"
    chmod 755 "$1/cc"
}
bare "$home/bin"
[[ ! -e $home/bin/apt-get && ! -e $home/bin/mpicc && -e $home/bin/bash ]]
chmod 755 "$home/bin"

# install_with PATH ARGUMENT...: as that user, with nothing else in the environment.
install_with() {
    "${as_user[@]}" env -i PATH="$1" HOME="$home" BUILD="$BUILD" BUILT=1 CARGO_TARGET_DIR="$target" \
        "$source/dev" install "${@:2}" >"$work/said.txt" 2>&1
}
says() { grep -qE "$1" "$work/said.txt"; }

place=$home/thalweg
without_anything() {
    # What was there before stays.
    "${as_user[@]}" mkdir -p "$place/bin"
    "${as_user[@]}" touch "$place/mine"
    install_with "$home/bin" "$place"
    says '^  built     thalweg, the command$'
    says '^  built     C and C\+\+ without MPI$'
    says '^  left out  C and C\+\+ with Open MPI.*Debian: libopenmpi-dev.*RHEL, Rocky: openmpi-devel; openSUSE: '
    says '^  left out  C and C\+\+ with MPICH'
    says '^  left out  Fortran: no gfortran .*RHEL, Rocky: gcc-gfortran'
    says '^  left out  thalweg-convert.*no HDF5'
    says '^  left out  thalweg.pc'
    if says '^dev: installing'; then return 1; fi
    [[ -e $place/lib/libthalweg-nompi.so && ! -e $place/lib/libthalweg-openmpi.so && ! -e $place/bin/thalweg-convert ]]
}
try "an ordinary user installs without apt, MPI, Fortran and HDF5" without_anything
tells() { "$place/bin/thalweg" --version >"$work/told.txt" && cat "$work/told.txt" && grep -qx 'MPI       none (C)' "$work/told.txt" && grep -qx "libraries $place/lib" "$work/told.txt"; }
try "the command says so" tells
program=tests/system/c/heat_noxml.c
single() { # single LIBDIR NAME: a program of one process is compiled and run by that user
    PKG_CONFIG_PATH=$1/pkgconfig cc -std=c11 -D_GNU_SOURCE $(PKG_CONFIG_PATH=$1/pkgconfig pkg-config --cflags thalweg-nompi) "$program" -o "$work/$2" \
        $(PKG_CONFIG_PATH=$1/pkgconfig pkg-config --libs thalweg-nompi)
    cp "$work/$2" "$home/$2"
    (cd "$home" && "${as_user[@]}" env -i "./$2" MPI "$2.bp" 2)
    [[ -s $home/$2.bp ]]
}
try "and a program of one process runs" single "$place/lib" first
pages() {
    grep -qF 'thalweg\-ls \- ' "$place/share/man/man1/thalweg-ls.1"
    bash -c "source '$place/share/bash-completion/completions/thalweg' && complete -p thalweg"
    grep -q '^#compdef thalweg' "$place/share/zsh/site-functions/_thalweg"
    grep -q 'complete -c thalweg' "$place/share/fish/vendor_completions.d/thalweg.fish"
}
try "manual pages and completions are there" pages
listed() { # every file is listed, and nothing else
    diff <(cd "$place" && find . ! -type d ! -name mine -printf '%P\n' | LC_ALL=C sort) <(grep -v '/$' "$place/share/thalweg/manifest" | LC_ALL=C sort)
    cp "$place/share/thalweg/manifest" "$work/manifest"
    install_with "$home/bin" "$place"
    diff "$place/share/thalweg/manifest" "$work/manifest"
}
try "the list has every file, also after a second installation" listed

uninstall() { "${as_user[@]}" env -i PATH="$home/bin" "$source/dev" uninstall "$@"; }
refuses() {
    local line
    # What the list must not make it remove.
    "${as_user[@]}" touch "$home/precious"
    for line in ../precious "$home/precious" share/../../precious; do
        (cat "$work/manifest" && echo "$line") >"$place/share/thalweg/manifest"
        if uninstall "$place"; then return 1; fi
        [[ -e $home/precious && -e $place/bin/thalweg ]]
    done
    cp "$work/manifest" "$place/share/thalweg/manifest"
    if uninstall "$home" >"$work/said.txt" 2>&1; then return 1; fi
    says "nothing is removed$"
}
try "nothing is removed without a list, or by one that was changed" refuses
removed() {
    uninstall "$place"
    diff <(cd "$place" && find . | LC_ALL=C sort) <(printf '.\n./bin\n./mine\n')
}
try "what was installed is removed, and that alone" removed

lacks_compiler() {
    mkdir "$work/bare"
    cp -rP "$home/bin/." "$work/bare"
    rm -f "$work"/bare/{cc,gcc,c89,c99,clang}
    chmod 755 "$work/bare"
    if PATH=$work/bare "$PWD/dev" install "$work/nothing" --no-packages >"$work/said.txt" 2>&1; then return 1; fi
    says 'a C compiler \(cc\).*Debian: gcc libc6-dev; RHEL, Rocky: gcc; openSUSE: gcc'
    [[ ! -e $work/nothing ]]
}
try "a missing C compiler is named" lacks_compiler
lacks_cargo() {
    if env -i PATH="$home/bin" HOME="$home" "$PWD/dev" install "$work/nothing" >"$work/said.txt" 2>&1; then return 1; fi
    says "cargo $(rust_wanted) or newer" && [[ ! -e $work/nothing ]]
}
try "a missing cargo is named" lacks_cargo

# One MPI, behind names without its own; staged, with a folder of libraries as Debian's.
one=$work/one
bare "$one"
for compiler in mpicc mpif90; do ln -s "/usr/bin/$compiler.$MPI" "$one/$compiler"; done
ln -sf /usr/bin/gfortran "$one/gfortran"
other=$([[ $MPI == openmpi ]] && echo mpich || echo openmpi)
place=$work/opt/thalweg stage=$work/stage
lib=$place/lib/x86_64-linux-gnu
with_one() {
    PATH=$one "$PWD/dev" install "$place" LIBDIR=lib/x86_64-linux-gnu DESTDIR="$stage" >"$work/said.txt" 2>&1
    says "^  built     C and C\+\+ with (Open MPI|MPICH) \(mpicc\), MPI-IO"
    says "^  built     Fortran with $MPI \(mpif90\)"
    says '^  left out  C and C\+\+ with (Open MPI|MPICH), MPI-IO: no compiler'
    [[ ! -e $place && -e $stage$lib/libthalweg-$MPI.so && ! -e $stage$lib/libthalweg-$other.so ]]
}
try "one MPI, behind plain mpicc, is installed below DESTDIR ($MPI)" with_one
not_named() {
    if grep -rlF "$stage" "$stage"; then return 1; fi
    [[ -z $(find "$stage" -type l -lname "*stage*") ]]
}
try "no file names DESTDIR" not_named
mkdir -p "${place%/*}"
mv "$stage$place" "$place"
by_pkg_config() {
    export PKG_CONFIG_PATH=$lib/pkgconfig
    [[ $(pkg-config --variable=libdir thalweg) == "$lib" ]]
    "$MPICC" -std=c11 -D_GNU_SOURCE $(pkg-config --cflags thalweg) "$program" -o "$work/by-pc" $(pkg-config --libs thalweg)
    "$MPIF90" $(pkg-config --cflags thalweg-fortran) -fallow-argument-mismatch examples/heat/heat.f90 -o "$work/by-pc-f" $(pkg-config --libs thalweg-fortran)
    cp examples/heat/heat.xml "$work"
    run "$ranks" ./by-pc MPI by-pc.bp 2
    run 1 ./by-pc-f heat.xml by-pc-f.bp
}
try "programs are built by pkg-config with libraries in $(basename "$lib"), and run ($MPI)" by_pkg_config
by_others() {
    local config=$place/bin/thalweg-config
    "$MPICC" -std=c11 -D_GNU_SOURCE $("$config" -c) "$program" -o "$work/by-config" $("$config" -l)
    run "$ranks" ./by-config MPI by-config.bp 2
    cc -std=c11 -D_GNU_SOURCE $("$place/compat/bin/adios_config" -s -c) "$program" -o "$work/by-adios" $("$place/compat/bin/adios_config" -s -l)
    (cd "$work" && ./by-adios MPI by-adios.bp 2)
    mkdir -p "$work/cmake"
    printf '%s\n' 'cmake_minimum_required(VERSION 3.20)' 'project(installed LANGUAGES C)' 'set(CMAKE_C_EXTENSIONS ON)' \
        'find_package(thalweg REQUIRED)' "add_executable(installed $PWD/$program)" 'target_link_libraries(installed thalweg::nompi)' >"$work/cmake/CMakeLists.txt"
    cmake -S "$work/cmake" -B "$work/cmake/build" -D thalweg_DIR="$lib/cmake/thalweg" && cmake --build "$work/cmake/build"
    (cd "$work" && ./cmake/build/installed MPI by-cmake.bp 2)
}
try "and by thalweg-config, adios_config and CMake" by_others
found_by_command() {
    # Without mounts it looks for its library, too.
    "$place/bin/thalweg" run -- true
    "$place/bin/thalweg" --version >"$work/told.txt" && grep -x "libraries $lib" "$work/told.txt"
    [[ -x $lib/../../libexec/thalweg/spawn-$MPI ]]
    strings "$lib/libthalweg-$MPI.so" >"$work/strings" && grep '/\.\./\.\./libexec/thalweg/spawn-' "$work/strings"
}
try "the command finds its libraries, and the libraries their program" found_by_command
gone() { ./dev uninstall "$place" && [[ ! -e $place ]]; }
try "a moved stage is uninstalled" gone

# Libraries outside the prefix; for the MPI that was asked for; by clang.
elsewhere() {
    CC=clang PATH=$home/bin "$PWD/dev" install "$work/p" LIBDIR="$work/libs" --mpicc "$(command -v "mpicc.$MPI")" >"$work/said.txt" 2>&1
    says "with (Open MPI|MPICH) \(/.*/mpicc.$MPI\)"
    [[ $(pkg-config --variable=libdir "$work/libs/pkgconfig/thalweg.pc") == "$work/libs" && -L $work/p/libexec/thalweg/lib ]]
    "$work/p/bin/thalweg" run -- true
    ./dev uninstall "$work/p"
    [[ ! -e $work/p && ! -e $work/libs ]]
}
try "libraries in a folder of their own, with --mpicc and clang" elsewhere

# The commands of the guide, as they are printed there.
in_the_guide() {
    local line lines
    # shellcheck disable=SC2016  # the marks of code
    sed -n '/^```sh$/,/^```$/p' docs/guide/installing.md | grep -v '^```' >"$work/commands.sh"
    mapfile -t lines <"$work/commands.sh"
    [[ ${#lines[@]} -ge 5 ]]
    for line in "${lines[@]}"; do
        # tests/tools/vendor.sh and tests/tools/wheel.sh run them.
        [[ $line != *vendor* && $line != *package* ]] || continue
        line=${line//PREFIX/$work/guide}
        line=${line//STAGE/$work/guide-stage}
        echo "$line"
        # Without MPI, which takes less time.
        PATH=$work/guide/bin:$home/bin bash -c "set -eo pipefail; $line"
    done
    [[ ! -e $work/guide && ! -e $work/guide-stage$work/guide/bin ]]
}
try "the guide's commands" in_the_guide

# Crates leave their names in programs, where they tell in which line something went wrong.
contents() {
    python3 scripts/sbom.py "$work/contents"
    strings "$thalweg" "$built/libthalweg_core.so" "$built/libthalweg_preload.so" | grep -oE 'registry/src/[^/]+/[a-zA-Z0-9_-]+-[0-9]+\.[0-9]+\.[0-9]+[^/]*/' |
        sed -E 's|.*/([a-zA-Z0-9_-]+)-([0-9]+\.[0-9]+\.[0-9]+([-+][a-zA-Z][^/]*)?)/|\1@\2|' | LC_ALL=C sort -u >"$work/left"
    [[ $(wc -l <"$work/left") -gt 50 ]]
    python3 -c 'import json, sys
bom = json.load(open(sys.argv[1]))
refs = [one["bom-ref"] for one in bom["components"]]
assert len(set(refs)) == len(refs) and {one["ref"] for one in bom["dependencies"]} == {bom["metadata"]["component"]["bom-ref"], *refs}
assert all(one["purl"] and one["licenses"] and len(one["hashes"][0]["content"]) == 64 for one in bom["components"] if not one["name"].startswith("thalweg"))
print("\n".join(refs))' "$work/contents/sbom.cdx.json" | LC_ALL=C sort >"$work/listed"
    [[ -z $(LC_ALL=C comm -23 "$work/left" "$work/listed" | tee /dev/stderr) ]]
    grep -E '^zfp-sys .* \(texts ' "$work/contents/third-party.txt"
}
try "what an installation contains is listed" contents

commits() { # of sources from which a release is built
    local scratch=$work/sources found
    mkdir -p "$scratch"
    # shellcheck disable=SC2016  # the script's
    told() { (cd "$1" && BUILD=dev bash -c 'source "$1/scripts/build.sh"; commit' - "$source"); }
    git init -q "$scratch"
    [[ $(told "$scratch") == unknown ]]
    echo 1 >"$scratch/file"
    git -C "$scratch" add file
    git -C "$scratch" -c user.name=test -c user.email=test@localhost commit -qm 'a file'
    found=$(git -C "$scratch" rev-parse --short=12 HEAD)
    [[ $(told "$scratch") == "$found" ]]
    echo 2 >"$scratch/file"
    [[ $(told "$scratch") == "$found-changed" ]]
    # A folder within a repository that is not ours.
    mkdir "$scratch/below"
    [[ $(told "$scratch/below") == unknown ]]
    echo 0123456789ab >"$scratch/COMMIT"
    [[ $(told "$scratch") == 0123456789ab ]]
    [[ $BUILD == release ]] || return 0
    "$thalweg" --version >"$work/told.txt" && grep -x "commit    ${THALWEG_COMMIT:?}" "$work/told.txt"
}
try "the commit of the sources is known" commits
exit "$failed"
