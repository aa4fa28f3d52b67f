#!/usr/bin/env bash
# deb.sh FOLDER: Debian packages, by debhelper, from the folder debian beside this script.
#
#   libthalweg-core0.1, libthalweg-openmpi0.1, libthalweg-mpich0.1   libraries for C, C++ and Fortran; the first one for no MPI, too
#   libthalweg-dev, libthalweg-openmpi-dev, libthalweg-mpich-dev     what programs are compiled with
#   thalweg                                                          the command
#   python3-thalweg                                                  the package for the distribution's Python
#   ...-dbgsym                                                       debug information
#
# Everything is built by `./dev install` and pip, with the crates of Cargo.lock and the Rust of Cargo.toml, which are newer than the
# distribution's: so the packages cannot be built by the distribution's own machines.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
export BUILD=release
source scripts/machine.sh
folder=${1:?usage: deb.sh FOLDER}
needs "${build_tools[@]}" "${openmpi_packages[@]}" "${mpich_packages[@]}" "${python_packages[@]}" debhelper dh-python python3-pip unzip chrpath
needs_rust
# The distribution's compiler flags, which harden programs, make C sources of crates other than those of `./dev install`.
export CARGO_TARGET_DIR=$PWD/build/package/deb.target
source scripts/build.sh
source=$PWD work=$PWD/build/package/deb.work
rm -rf "$work"
mkdir -p "$work"
tree=$work/thalweg-$version
mkdir "$tree"
cp -r scripts/packages/debian "$tree/debian"
# The day of the commit, so that the same commit makes the same packages.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || date +%s)
export SOURCE_DATE_EPOCH
sed -i "s/@abi@/$abi/g" "$tree/debian/control"
for file in "$tree"/debian/*@abi@*; do
    mv "$file" "${file/@abi@/$abi}"
done
cat >"$tree/debian/changelog" <<END
thalweg ($version-1) unstable; urgency=medium

  * Release $version; what has changed is listed in CHANGELOG.md.

 -- $(sed -n 's/^Maintainer: //p' "$tree/debian/control")  $(date -u -R -d "@$SOURCE_DATE_EPOCH")
END
# THALWEG_SOURCE: where the sources are. Without -d Rust would have to be a package.
(cd "$tree" && THALWEG_SOURCE=$source dpkg-buildpackage --build=binary --no-sign -d >"$work/log.txt" 2>&1) || {
    tail -n 40 "$work/log.txt" >&2
    echo "deb: see $work/log.txt" >&2
    exit 1
}
cp "$work"/*.deb "$work"/*.changes "$work"/*.buildinfo "$folder"
ls -sh "$folder"/*.deb
