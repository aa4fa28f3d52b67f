#!/usr/bin/env bash
# install.sh PREFIX: the C libraries, headers and pkg-config files. Called by ./dev install; quick where nothing changed. Folders:
# scripts/installation.sh; `lib` is LIBDIR.
#
# Of each library lib/libthalweg-X.so is a link to .so.ABI, the name that programs remember, and that one to .so.VERSION.
#   lib/libthalweg-core.so      everything but what knows an MPI; built by cargo
#   lib/libthalweg-preload.so   what `thalweg run` loads into programs
#   lib/libthalweg-mpiio-openmpi.so   the door for MPI-IO, one per MPI, found before it by `thalweg run`
#   lib/libthalweg-openmpi.so   one thin library per MPI whose compiler is here, and one for no MPI
#   lib/libthalweg-mpich.so
#   lib/libthalweg-nompi.so
#   lib/libthalweg-*.a          the same for static linking: nothing of the core but these functions can be seen
#   include/thalweg/            adios.h and what it includes
#   include/thalweg/            thalweg.h, and thalweg.hpp for C++
#   lib/pkgconfig/              thalweg-openmpi.pc ... and thalweg.pc, for the MPI of plain mpicc; thalweg-cpp.pc
#   lib/cmake/thalweg/          what find_package(thalweg) finds
#   bin/thalweg-config          what adios_config answers
#   libexec/thalweg/lib         a link to the folder of libraries, for the command
#   libexec/thalweg/spawn-openmpi     what these libraries start with MPI_Comm_spawn, one per MPI
#
# THALWEG_MPICC: compilers to be asked first which MPI they belong to, in lines; the first one stands for plain mpicc.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
source scripts/machine.sh
source scripts/installation.sh
install_to "${1:?usage: install.sh PREFIX}"
here=bindings/c shim=crates/comm-mpi/mpi door=crates/doors/mpiio/mpi
include=$root/include/thalweg
# THALWEG_OF_MPI: what the library itself defines refers to no MPI.
flags=(-std=c11 -D_GNU_SOURCE -DTHALWEG_OF_MPI -O2 -Wall -Wextra -fPIC "-I$here/include" "-I$here/mpi" "-I$shim" "-I$door")

# Who makes packages takes debug information out.
[[ ${DEBUG:-} != inside ]] || flags+=(-g)

# newer FILE SOURCE...: whether a source is newer than the file, or the file is missing.
newer() {
    local file=$1 source
    shift
    [[ -e $file ]] || return 0
    for source; do
        [[ $source -nt $file ]] && return 0
    done
    return 1
}

source scripts/build.sh
# Compilers of users may warn of more.
[[ $BUILD == release ]] || flags+=(-Werror)
# BUILD=release: ./dev install has built it, with the stores that were asked for.
[[ $BUILD == release ]] || build_all
put_built "$built/libthalweg_core.so" "$lib/libthalweg-core.so.$version"
library_links thalweg-core
# Stands before the C library of programs that `thalweg run` starts.
if [[ -e $built/libthalweg_preload.so ]]; then put_built "$built/libthalweg_preload.so" "$lib/libthalweg-preload.so"; fi

# The core as one object whose other names, those of compression libraries among them, no program can meet.
place "$lib/libthalweg-core.a"
if newer "$lib/libthalweg-core.a" "$built/libthalweg_core.a" "$here/install.sh"; then
    scratch=$(mktemp -d)
    nm -D --defined-only "$lib/libthalweg-core.so" | awk '{ print $3 }' >"$scratch/names"
    sed 's/^/-u /' "$scratch/names" >"$scratch/wanted"
    ld -r --gc-sections "@$scratch/wanted" --whole-archive "$built/libthalweg_core.a" -o "$scratch/all.o"
    objcopy --keep-global-symbols="$scratch/names" --strip-debug --remove-section=.llvmbc --remove-section=.llvmcmd "$scratch/all.o" "$scratch/core.o"
    rm -f "$scratch/core.a"
    ar rcs "$scratch/core.a" "$scratch/core.o"
    install -m 644 "$scratch/core.a" "$lib/libthalweg-core.a"
    rm -r "$scratch"
fi
for header in "$here"/include/*.h; do
    put "$header" "$include/$(basename "$header")"
done
# The command finds its libraries by this, whatever their folder is called.
link "$(from "$prefix/libexec/thalweg" "$libdir")" "$root/libexec/thalweg/lib"

# How files of pkg-config name the folder of libraries.
pc_libdir=$libdir
# shellcheck disable=SC2016  # ${...} is pkg-config's
[[ $libdir != "$prefix"/* ]] || pc_libdir='${prefix}/'${libdir#"$prefix/"}

# thin NAME COMPILER SOURCE...: libthalweg-NAME.so and thalweg-NAME.pc
thin() {
    local name=$1 compiler=$2 more=''
    shift 2
    local library=$lib/libthalweg-$name.so.$version
    [[ $name == nompi ]] && more=' -D_NOMPI'
    place "$library"
    place "$lib/libthalweg-$name.a"
    if newer "$library" "$@" "$here"/include/*.h "$here"/mpi/*.h "$shim"/*.h "$here/install.sh"; then
        # It finds the core beside itself. Its names carry its own: parts of one program may be linked with different ones.
        # shellcheck disable=SC2016,SC2086  # $ORIGIN is the loader's; $more is one flag or none
        "$compiler" "${flags[@]}" "-DTHALWEG_LIBEXEC=\"$(from "$libdir" "$prefix/libexec/thalweg")\"" -shared $more "$@" -o "$library.new" \
            "-L$lib" -lthalweg-core -Wl,-rpath,'$ORIGIN' -Wl,-soname,"libthalweg-$name.so.$abi" -Wl,--default-symver -Wl,--no-undefined
        mv "$library.new" "$library"
        objects "$name" "$compiler" "$more" "$@"
    fi
    library_links "thalweg-$name"
    config "$name" "$name" "$more"
}

# door NAME COMPILER: libthalweg-mpiio-NAME.so, of which programs see MPI's own functions alone
door() {
    local library=$lib/libthalweg-mpiio-$1.so.$version sources=("$door/door.c" "$door/datatype.c" "$shim/shim.c" "$shim/spawn.c")
    place "$library"
    if newer "$library" "${sources[@]}" "$door"/*.h "$shim"/*.h "$here/install.sh"; then
        # shellcheck disable=SC2016  # $ORIGIN is the loader's
        "$2" "${flags[@]}" "-DTHALWEG_LIBEXEC=\"$(from "$libdir" "$prefix/libexec/thalweg")\"" -fvisibility=hidden -shared "${sources[@]}" \
            -o "$library.new" "-L$lib" -lthalweg-core -Wl,-rpath,'$ORIGIN' -Wl,-soname,"libthalweg-mpiio-$1.so.$abi" -Wl,--no-undefined
        mv "$library.new" "$library"
    fi
    library_links "thalweg-mpiio-$1"
}

# spawned NAME COMPILER: libexec/thalweg/spawn-NAME, what the libraries for this MPI start with MPI_Comm_spawn
spawned() {
    local program=$root/libexec/thalweg/spawn-$1
    place "$program"
    newer "$program" "$shim/spawned.c" "$shim"/*.h "$here/install.sh" || return 0
    "$2" "${flags[@]}" "$shim/spawned.c" -o "$program.new"
    mv "$program.new" "$program"
}

# objects NAME COMPILER FLAG SOURCE...: libthalweg-NAME.a
objects() {
    local archive=$lib/libthalweg-$1.a compiler=$2 more=$3 folder source
    shift 3
    folder=$(mktemp -d)
    for source; do
        # shellcheck disable=SC2086  # $more is one flag or none
        "$compiler" "${flags[@]}" $more -c "$source" -o "$folder/$(basename "$source" .c).o"
    done
    ar rcs "$folder/new.a" "$folder"/*.o
    install -m 644 "$folder/new.a" "$archive"
    rm -r "$folder"
}

# config FILE NAME FLAGS: lib/pkgconfig/FILE.pc for libthalweg-NAME
config() {
    local text
    # shellcheck disable=SC2016  # ${...} is pkg-config's
    text=$(printf '%s\n' \
        "prefix=$prefix" \
        "libdir=$pc_libdir" \
        'includedir=${prefix}/include' \
        '' \
        'Name: thalweg' \
        "Description: I/O layer for parallel simulations, ADIOS 1.13 interface ($2)" \
        "Version: $version" \
        "Cflags: -I\${includedir}/thalweg$3" \
        "Libs: -L\${libdir} -Wl,-rpath,\${libdir} -lthalweg-$2 -lthalweg-core")
    put_text "$text" "$lib/pkgconfig/thalweg${1:+-$1}.pc"
}

# mpi_of COMPILER: which MPI it belongs to. Nothing where it finds no mpi.h, or one of an MPI that is not known.
mpi_of() {
    local macros
    macros=$(printf '#include <mpi.h>\n' | "$1" -E -dM -x c - 2>/dev/null) || return 0
    case $macros in
        *'define OPEN_MPI '*) echo openmpi ;;
        # Those of Cray and Intel are made of MPICH, and have its binary interface.
        *'define MPICH_VERSION '* | *'define I_MPI_VERSION '*) echo mpich ;;
    esac
}

# compiler_of MPI: the compiler for it, and prints nothing where there is none.
compiler_of() {
    local compiler
    for compiler in "${asked[@]}"; do
        [[ $(mpi_of "$compiler") != "$1" ]] || { echo "$compiler" && return; }
    done
    # Where only plain mpicc is there, it may be this one.
    for compiler in "mpicc.$1" mpicc; do
        if [[ $(mpi_of "$compiler") == "$1" ]]; then echo "$compiler" && return; fi
    done
}

# fortran_of COMPILER: the Fortran compiler of the same MPI, by its name
fortran_of() {
    local folder='' name
    name=$(basename "$1")
    [[ $1 != */* ]] || folder=$(dirname "$1")/
    case $name in
        mpicc*) echo "${folder}mpif90${name#mpicc}" ;;
        cc) echo "${folder}ftn" ;; # Cray's
        *) echo mpif90 ;;
    esac
}

declare -A title=([openmpi]='Open MPI' [mpich]=MPICH)
asked=()
[[ -z ${THALWEG_MPICC:-} ]] || mapfile -t asked <<<"$THALWEG_MPICC"
plain=$(mpi_of "${asked[0]:-mpicc}")
fortran=()
for mpi in openmpi mpich; do
    compiler=$(compiler_of "$mpi")
    if [[ -z $compiler ]]; then
        left_out "C and C++ with ${title[$mpi]}, MPI-IO" "no compiler of it ($(packages_for "$mpi")); --mpicc COMPILER names one"
        continue
    fi
    thin "$mpi" "$compiler" "$here/mpi/adios_mpi.c" "$here/mpi/read_v1.c" "$here/mpi/fortran_mpi.c" "$here/mpi/native_mpi.c" "$shim/shim.c" "$shim/spawn.c"
    spawned "$mpi" "$compiler"
    door "$mpi" "$compiler"
    built "C and C++ with ${title[$mpi]} ($compiler), MPI-IO"
    fortran+=("$mpi=$(fortran_of "$compiler")")
done
thin nompi "${CC:-cc}" "$here/mpi/adios_mpi.c" "$here/mpi/read_v1.c" "$here/mpi/fortran_mpi.c" "$here/mpi/native_mpi.c" "$here/mpi/nompi.c" "$here/mpi/nompi_guard.c"
built "C and C++ without MPI"
if [[ -n $plain ]]; then
    config '' "$plain" ''
else
    left_out "thalweg.pc" "no mpicc, or of an MPI that is not known; thalweg-nompi.pc is there"
fi

# fill FROM TO [MODE]: a file of package/ with what is known now.
fill() {
    local text
    text=$(sed -e "s|@version@|$version|g; s|@abi@|$abi|g; s|@prefix@|$prefix|g; s|@default@|${plain:-nompi}|g" \
        -e "s|@of@|$([[ -n $plain ]] || echo -nompi)|g; s|@libdir@|$libdir|g; s|@lib@|$(from "$prefix" "$libdir")|g" \
        -e "s|@up@|$(from "$libdir/cmake/thalweg" "$prefix")|g" "$here/package/$1")
    put_text "$text" "$2" "${3:-644}"
}
put bindings/cpp/include/thalweg.hpp "$include/thalweg.hpp"
fill thalweg-cpp.pc "$lib/pkgconfig/thalweg-cpp.pc"
fill thalweg-config "$root/bin/thalweg-config" 755
fill thalwegConfig.cmake "$lib/cmake/thalweg/thalwegConfig.cmake"
fill thalwegConfigVersion.cmake "$lib/cmake/thalweg/thalwegConfigVersion.cmake"
bindings/fortran/install.sh "$prefix" "${fortran[@]}"
other_releases_gone
bindings/c/compat.sh "$prefix" "$plain"
# Called by itself, it says what is missing.
[[ -z ${outermost:-} ]] || report_parts 'left out' >&2
