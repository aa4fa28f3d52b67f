#!/usr/bin/env bash
# compat.sh PREFIX MPI: PREFIX/compat, where build files of programs written for ADIOS 1.x find what they look for, under its
# names: a FindADIOS.cmake with ADIOS_DIR, a configure with --with-adios. Called by install.sh last; MPI is that of plain mpicc,
# or nothing. It lies apart from the rest: a machine may have ADIOS 1.x too, and nobody meets these names unasked.
#
#   bin/adios_config        answers 1.13.1 to -v
#   bin/gpp.py              calls thalweg gen
#   include/adios.h ...     the headers; include/fortran/, include/fortran_nompi/ the modules
#   lib/libadios.so         and libadios_nompi, libadiosf, libadiosread, libadiosreadf...: linker scripts that name ours
#   lib/libadios.a          the same for static linking, C alone
set -euo pipefail
prefix=$(realpath -m "${1:?usage: compat.sh PREFIX MPI}")
plain=${2:-}
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
compat=$prefix/compat
mkdir -p "$compat"/{bin,lib,include}

# Programs may be compiled against the folder meanwhile: nothing that stays is away for a moment.
wanted=()
# link TARGET NAME: a symbolic link; left alone where it is right.
link() {
    wanted+=("$2")
    [[ $(readlink "$2" || true) == "$1" ]] && return
    ln -sfn "$1" "$2.new"
    mv -T "$2.new" "$2"
}
# put FROM TO: copies where the contents differ, under a new name first.
put() {
    cmp -s "$1" "$2" && return
    install -m 755 "$1" "$2.new"
    mv "$2.new" "$2"
}
for program in adios_config gpp.py; do
    put "bindings/c/package/$program" "$compat/bin/$program"
done
for header in "$prefix"/include/thalweg/{adios*,mpidummy,thalweg_of_mpi}.h; do
    link "../../include/thalweg/$(basename "$header")" "$compat/include/$(basename "$header")"
done

# script NAME LIBRARY...: a linker script of that name in lib, for libraries that lie beside it: programs then look for them here.
script() {
    local name=$1 library found=()
    shift
    for library; do
        [[ -e $prefix/lib/$library ]] || return 0
    done
    for library; do
        link "../../lib/$library" "$compat/lib/$library"
        found+=("$compat/lib/$library")
    done
    [[ $name != *.a ]] || found+=(-lm -lpthread -ldl -lgcc_s)
    printf '/* For the linker. */\nGROUP ( %s )\n' "${found[*]}" >"$compat/lib/$name.new"
    mv "$compat/lib/$name.new" "$compat/lib/$name"
}

# names MPI SUFFIX: the libraries of one MPI, under names that end so.
names() {
    local name
    for name in adios adiosread; do
        script "lib$name$2.so" "libthalweg-$1.so" libthalweg-core.so
        script "lib$name$2.a" "libthalweg-$1.a" libthalweg-core.a
        script "lib${name}f$2.so" "libthalweg-fortran-$1.so" "libthalweg-$1.so" libthalweg-core.so
    done
    for name in adiosf adiosreadf; do
        script "lib$name${2}_v1.so" "libthalweg-fortran-v1-$1.so" "libthalweg-fortran-$1.so" "libthalweg-$1.so" libthalweg-core.so
    done
    [[ ! -d $prefix/include/thalweg/fortran/$1 ]] || link "../../include/thalweg/fortran/$1" "$compat/include/fortran$2"
}
[[ -z $plain ]] || names "$plain" ''
names nompi _nompi

# What an earlier version left.
find "$compat/include" "$compat/lib" -type l | while IFS= read -r found; do
    [[ " ${wanted[*]} " == *" $found "* ]] || rm "$found"
done
