#!/usr/bin/env bash
# install.sh PREFIX [openmpi=COMPILER] [mpich=COMPILER]: the Fortran libraries and modules, for these MPIs and for none. Called by
# bindings/c/install.sh, after the C libraries; quick where nothing changed. Each library is compiled with the gfortran behind its MPI's compiler, as module files are that one's.
#
#   lib/libthalweg-fortran-openmpi.so   one per MPI whose Fortran compiler is gfortran and here, and one for no MPI
#   lib/libthalweg-fortran-v1-openmpi.so  version 1 of the read interface, linked in front of it
#   include/thalweg/fortran/openmpi/    adios_write_mod.mod ... thalweg_windows_mod.mod
#   lib/pkgconfig/                      thalweg-fortran-openmpi.pc ... and thalweg-fortran.pc, as thalweg.pc
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
source scripts/machine.sh
source scripts/build.sh
source scripts/installation.sh
install_to "${1:?usage: install.sh PREFIX [MPI=COMPILER]...}"
shift
here=bindings/fortran c=bindings/c
modules=(adios_defs_mod thalweg_bridge adios_write_mod adios_read_mod adios_query_mod thalweg_windows_mod thalweg_input_mod thalweg_async_mod thalweg_steering_mod)
fortran_flags=(-std=f2018 -O2 -Wall -Wextra -fPIC)
c_flags=(-std=gnu11 -O2 -Wall -Wextra -fPIC -D_NOMPI -DTHALWEG_OF_MPI "-I$here/bridge" "-I$c/include" "-I$c/mpi")
[[ ${BUILD:-dev} == release ]] || fortran_flags+=(-Werror) c_flags+=(-Werror)
build=$THALWEG_INSTALLING/fortran
mkdir -p "$build"

is_gfortran() {
    command -v "$1" >/dev/null && "$1" --version 2>/dev/null | grep -q '^GNU Fortran'
}

# library NAME COMPILER: libthalweg-fortran-NAME.so and its modules
library() {
    local name=$1 compiler=$2 module source words=()
    local library=$lib/libthalweg-fortran-$name.so.$version first=$lib/libthalweg-fortran-v1-$name.so.$version out=$build/$name
    place "$library"
    place "$first"
    for module in "${modules[@]}"; do
        place "$root/include/thalweg/fortran/$name/$module.mod"
    done
    if [[ -e $library && -e $first && -z $(find "$here" "$c/include" "$c/mpi/thalweg_fortran.h" -type f -newer "$library" -print -quit) ]]; then
        library_links "thalweg-fortran-$name"
        library_links "thalweg-fortran-v1-$name"
        return
    fi
    mkdir -p "$out"
    # Communicators of mpi_f08 too, where this MPI has that module.
    printf 'use mpi_f08, only: MPI_Comm\nend\n' >"$out/f08.f90"
    [[ $name != nompi ]] && "$compiler" -fsyntax-only "$out/f08.f90" 2>/dev/null && words=(f08)
    for module in "${modules[@]}"; do
        python3 "$here/each.py" "mpi=$name" "${words[@]}" <"$here/modules/$module.f90" >"$out/$module.f90"
        "$compiler" "${fortran_flags[@]}" "-J$out" -c "$out/$module.f90" -o "$out/$module.o"
    done
    # The C part by the same compiler, whose ISO_Fortran_binding.h describes its arrays. It needs no MPI.
    for source in "$here"/bridge/*.c; do
        gfortran "${c_flags[@]}" "-DTHALWEG_MODULES_OF=$name" -c "$source" -o "$out/$(basename "$source" .c).o"
    done
    # It finds the others beside itself. Its names carry its own, as those of the C libraries.
    # shellcheck disable=SC2016  # $ORIGIN is the loader's
    gfortran -shared "$out"/*.o -o "$out/new.so" "-L$lib" "-lthalweg-$name" -lthalweg-core -Wl,-rpath,'$ORIGIN' \
        -Wl,-soname,"libthalweg-fortran-$name.so.$abi" -Wl,--default-symver -Wl,--no-undefined
    for module in "${modules[@]}"; do
        put "$out/$module.mod" "$root/include/thalweg/fortran/$name/$module.mod"
    done
    install -m 755 "$out/new.so" "$library.new"
    mv "$library.new" "$library"
    library_links "thalweg-fortran-$name"
    # Some names of version 1 of the read interface mean something else there: a library that is linked in front.
    gfortran "${c_flags[@]}" -c "$here/version1/read.c" -o "$out/version1.o"
    # shellcheck disable=SC2016  # $ORIGIN is the loader's
    gfortran -shared "$out/version1.o" -o "$out/version1.so" "-L$lib" "-lthalweg-fortran-$name" "-lthalweg-$name" -lthalweg-core \
        -Wl,-rpath,'$ORIGIN' -Wl,-soname,"libthalweg-fortran-v1-$name.so.$abi" -Wl,--default-symver -Wl,--no-undefined
    install -m 755 "$out/version1.so" "$first.new"
    mv "$first.new" "$first"
    library_links "thalweg-fortran-v1-$name"
}

# How files of pkg-config name the folder of libraries.
pc_libdir=$libdir
# shellcheck disable=SC2016  # ${...} is pkg-config's
[[ $libdir != "$prefix"/* ]] || pc_libdir='${prefix}/'${libdir#"$prefix/"}

# config FILE NAME: lib/pkgconfig/FILE.pc for libthalweg-fortran-NAME
config() {
    local text
    # shellcheck disable=SC2016  # ${...} is pkg-config's
    text=$(printf '%s\n' \
        "prefix=$prefix" \
        "libdir=$pc_libdir" \
        'includedir=${prefix}/include' \
        '' \
        'Name: thalweg-fortran' \
        "Description: I/O layer for parallel simulations, ADIOS 1.x interface for Fortran ($2)" \
        "Version: $version" \
        "Cflags: -I\${includedir}/thalweg/fortran/$2" \
        "Libs: -L\${libdir} -Wl,-rpath,\${libdir} -lthalweg-fortran-$2 -lthalweg-$2 -lthalweg-core")
    put_text "$text" "$lib/pkgconfig/$1.pc"
}

for needed in gfortran python3; do
    command -v "$needed" >/dev/null || {
        left_out "Fortran" "no $needed ($(packages_for "$needed"))"
        exit 0
    }
done
is_gfortran gfortran || {
    left_out "Fortran" "the program gfortran is not GNU Fortran"
    exit 0
}
for given; do
    mpi=${given%%=*} compiler=${given#*=}
    # Where only plain mpif90 is there, it is of the MPI of plain mpicc.
    command -v "$compiler" >/dev/null || compiler=mpif90
    if ! is_gfortran "$compiler"; then
        left_out "Fortran with $mpi" "$compiler is not there, or does not call GNU Fortran"
        continue
    fi
    library "$mpi" "$compiler"
    config "thalweg-fortran-$mpi" "$mpi"
    built "Fortran with $mpi ($compiler)"
done
library nompi gfortran
config thalweg-fortran-nompi nompi
built "Fortran without MPI"
plain=$(sed -n 's/^Libs:.* -lthalweg-\([a-z]*\) .*/\1/p' "$lib/pkgconfig/thalweg.pc" 2>/dev/null || true)
[[ -z $plain || ! -e $lib/libthalweg-fortran-$plain.so ]] || config thalweg-fortran "$plain"
