#!/usr/bin/env bash
# compat.sh PREFIX MPI: PREFIX/compat (COMPATDIR), where build files of programs written for ADIOS 1.x find what they look for, under its
# names: a FindADIOS.cmake with ADIOS_DIR, a configure with --with-adios. Called by install.sh last; MPI is that of plain mpicc,
# or nothing. It lies apart from the rest: a machine may have ADIOS 1.x too, and nobody meets these names unasked.
#
#   bin/adios_config        answers 1.13.1 to -v
#   bin/gpp.py              calls thalweg gen
#   include/adios.h ...     the headers; include/fortran/, include/fortran_nompi/ the modules
#   lib/libadios.so         and libadios_nompi, libadiosf, libadiosread, libadiosreadf...: linker scripts that name ours
#   lib/libadios.a          the same for static linking, C alone
set -euo pipefail
plain=${2:-}
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
source scripts/build.sh
source scripts/installation.sh
install_to "${1:?usage: compat.sh PREFIX MPI}"
folder "$compat/lib"

wanted=()
# keep TARGET NAME: a symbolic link that is no leftover.
keep() {
    wanted+=("$2")
    link "$1" "$2"
}
for program in adios_config gpp.py; do
    put "bindings/c/package/$program" "$compat/bin/$program" 755
done
headers=$(from "$compatdir/include" "$prefix/include/thalweg")
for header in "$root"/include/thalweg/{adios*,mpidummy,thalweg_of_mpi}.h; do
    keep "$headers/$(basename "$header")" "$compat/include/$(basename "$header")"
done
libraries=$(from "$compatdir/lib" "$libdir")

# script NAME LIBRARY...: a linker script of that name in lib, for libraries that lie beside it: programs then look for them here, by
# the names that they remember.
script() {
    local name=$1 library found=()
    shift
    set -- "${@/%.so/.so.$abi}"
    for library; do
        [[ -e $lib/$library ]] || return 0
    done
    for library; do
        keep "$libraries/$library" "$compat/lib/$library"
        found+=("$compatdir/lib/$library")
    done
    [[ $name != *.a ]] || found+=(-lm -lpthread -ldl -lgcc_s)
    put_text "/* For the linker. */"$'\n'"GROUP ( ${found[*]} )" "$compat/lib/$name"
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
    [[ ! -d $root/include/thalweg/fortran/$1 ]] || keep "$headers/fortran/$1" "$compat/include/fortran$2"
}
[[ -z $plain ]] || names "$plain" ''
names nompi _nompi

# What an earlier version left; programs may still look for its libraries here.
find "$compat/include" "$compat/lib" -type l | while IFS= read -r found; do
    [[ " ${wanted[*]} " == *" $found "* || $found == */lib/libthalweg-*.so* && -e $found ]] || rm "$found"
done
