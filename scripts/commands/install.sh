# shellcheck shell=bash
# install PREFIX [OPTION]...: the command, the libraries for Open MPI, MPICH and no MPI, headers, manual pages; --help lists the options
usage() {
    cat <<'END'
usage: ./dev install PREFIX [OPTION]...

  LIBDIR=FOLDER          the folder of libraries, below PREFIX or an absolute path; lib if it is not given
  COMPATDIR=FOLDER       the folder for programs written for ADIOS 1.x, below PREFIX; compat if it is not given
  DESTDIR=FOLDER         put files below FOLDER, as packages are made; no installed file names it
  --without-far-stores   without HDFS and S3, which halves the time to build
  --no-packages          install no system package
  --mpicc COMPILER       for the MPI of this compiler, and for thalweg.pc, where it is given first; may be repeated
  CC and CXX in the environment name compilers.

Where apt is, for root and users of sudo, missing system packages are installed first. Elsewhere what is there is used: without an MPI, a
Fortran compiler or HDF5 their parts are left out. The last lines say what was built, and what was left out and why.
END
}
source scripts/machine.sh
source scripts/installation.sh

to='' far=() packages=1 THALWEG_MPICC=''
while [[ $# -gt 0 ]]; do
    case $1 in
        --without-far-stores) far=(--no-default-features) ;;
        --help | -h) usage && exit 0 ;;
        --no-packages) packages=0 ;;
        --mpicc)
            # One in each line.
            THALWEG_MPICC+=${THALWEG_MPICC:+$'\n'}${2:?--mpicc needs a compiler}
            shift
            ;;
        DESTDIR=* | LIBDIR=* | COMPATDIR=*) export "${1?}" ;;
        -*) echo "dev install: unknown option $1" >&2 && exit 2 ;;
        *) to=$1 ;;
    esac
    shift
done
[[ -n $to ]] || { usage >&2 && exit 2; }
export THALWEG_MPICC
if [[ $packages == 1 ]] && may_install; then
    needs "${build_tools[@]}" "${openmpi_packages[@]}" "${mpich_packages[@]}"
    needs_rust
fi
needs_tools
# Tests install what they were built with.
BUILD=${BUILD:-release}
source scripts/build.sh
# cargo_build ARGUMENT...: BUILT=1: what lies there is taken. DESTDIR is ours: libraries that CMake builds would follow it.
cargo_build() { [[ -n ${BUILT:-} ]] || env -u DESTDIR -u LIBDIR cargo build --quiet --profile "$BUILD" "$@"; }
# The extension for Python is built by `pip install bindings/python`.
cargo_build -p thalweg-cli -p thalweg-capi -p thalweg-preload "${far[@]}"
install_to "$to"
put_built "$thalweg" "$root/bin/thalweg"
built "thalweg, the command${far:+, without HDFS and S3}"
if [[ ${#features[@]} -gt 0 ]]; then
    cargo_build -p thalweg-convert "${features[@]}"
    put_built "$built/thalweg-convert" "$root/bin/thalweg-convert"
    built "thalweg-convert, which converts files and writes views for HDF5 and VTK"
else
    left_out "thalweg-convert, which converts files and writes views for HDF5 and VTK" "no HDF5 ($(packages_for hdf5)); HDF5_DIR names its folder"
fi
BUILT=1 bindings/c/install.sh "$prefix"

"$thalweg" man "$THALWEG_INSTALLING/man"
for page in "$THALWEG_INSTALLING"/man/*.1; do
    put "$page" "$root/share/man/man1/${page##*/}"
done
built "manual pages"
# completions SHELL FILE
completions() {
    put_text "$("$thalweg" completions "$1")" "$root/share/$2"
}
completions bash bash-completion/completions/thalweg
completions zsh zsh/site-functions/_thalweg
completions fish fish/vendor_completions.d/thalweg.fish
built "completions for bash, zsh and fish"

# The name of a module's file is its version.
put_text "$(sed "s|@version@|$version|g; s|@prefix@|$prefix|g; s|@libdir@|$libdir|g" scripts/packages/thalweg.lua)" \
    "$root/share/modulefiles/thalweg/$version.lua"
built "a module file, for Lmod"

if command -v python3 >/dev/null && command -v cargo >/dev/null; then
    python3 scripts/sbom.py "$THALWEG_INSTALLING/doc" "${far[@]}"
    for file in sbom.cdx.json third-party.txt; do
        put "$THALWEG_INSTALLING/doc/$file" "$root/share/doc/thalweg/$file"
    done
    put LICENSE "$root/share/doc/thalweg/LICENSE"
    built "a list of everything that it contains, with licences"
else
    left_out "a list of everything that it contains, with licences" "it is made by python3 and cargo"
fi

echo "installed in $prefix${DESTDIR:+, below $DESTDIR}; libraries in $libdir:"
report_parts ''
