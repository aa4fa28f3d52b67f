# shellcheck shell=bash
# Where an installation's files go, the list of those that were put there, and the parts that were left out. Sourced by the scripts that
# install; each of them begins with `install_to PREFIX`.
#
#   PREFIX   the folder that installed files name; bin, include, libexec and share lie below it
#   LIBDIR   the folder of libraries, below PREFIX or an absolute path: lib (if it is not set), lib64 (RHEL), lib/x86_64-linux-gnu (Debian)
#   COMPATDIR  the folder for programs written for ADIOS 1.x, below PREFIX: compat (if it is not set)
#   DEBUG    inside: debug information stays in programs and libraries; who makes packages takes it out by other means
#   DESTDIR  files are put below this folder, as packages are made; no installed file names it
#
# PREFIX/share/thalweg/manifest lists the files, and the folders that were made for them (with a slash at their end): paths below PREFIX,
# or absolute ones. ./dev uninstall reads it.
# shellcheck disable=SC2034  # read by who sources this

# paths_of PREFIX: sets
#   prefix libdir compatdir   as installed files name them
#   root lib compat           where they lie now
#   manifest                  the list
paths_of() {
    local stage=''
    prefix=$(realpath -ms "$1")
    libdir=$(below_prefix "${LIBDIR:-lib}")
    compatdir=$(below_prefix "${COMPATDIR:-compat}")
    [[ $compatdir == "$prefix"/?* ]] || { echo "install: COMPATDIR=$COMPATDIR is not below $prefix" >&2 && exit 2; }
    [[ -z ${DESTDIR:-} ]] || stage=$(realpath -ms "$DESTDIR")
    root=$stage$prefix lib=$stage$libdir compat=$stage$compatdir
    manifest=$root/share/thalweg/manifest
}

# below_prefix FOLDER: an absolute path, of a folder that may be named from PREFIX on
below_prefix() {
    if [[ $1 == /* ]]; then realpath -ms "$1"; else realpath -ms "$prefix/$1"; fi
}

# install_to PREFIX: paths_of, and the list is begun, by the script that no other one has called. One installs there at a time.
install_to() {
    paths_of "$1"
    [[ -z ${THALWEG_INSTALLING:-} ]] || return 0
    outermost=1
    THALWEG_INSTALLING=$(mktemp -d)
    export THALWEG_INSTALLING
    : >"$THALWEG_INSTALLING/files"
    : >"$THALWEG_INSTALLING/parts"
    trap list_installed EXIT
    place "$manifest"
    exec 9>>"$manifest"
    flock 9 || echo "install: $root does not offer locks; nobody else may install there now" >&2
}

# list_installed: what an installation that failed has put there is listed, too.
list_installed() {
    local entry path
    while IFS= read -r entry; do
        path_of "$entry"
        [[ ! -e $path && ! -L $path ]] || printf '%s\n' "$entry"
    done < <(LC_ALL=C sort -u "$manifest" "$THALWEG_INSTALLING/files") >"$THALWEG_INSTALLING/manifest"
    # Not replaced: the lock is its.
    cmp -s "$THALWEG_INSTALLING/manifest" "$manifest" || cat "$THALWEG_INSTALLING/manifest" >"$manifest"
    rm -rf "$THALWEG_INSTALLING"
}

# path_of ENTRY: sets path, that of a line of the list.
path_of() {
    if [[ $1 == /* ]]; then path=${root%"$prefix"}$1; else path=$root/$1; fi
}

# enter PATH: a path into the list.
enter() {
    [[ -n ${THALWEG_INSTALLING:-} ]] || return 0
    case $1 in
        "$root"/*) printf '%s\n' "${1#"$root/"}" ;;
        *) printf '%s\n' "${1#"${root%"$prefix"}"}" ;;
    esac >>"$THALWEG_INSTALLING/files"
}

# folder PATH: makes it, and what is missing above; those below PREFIX or LIBDIR, and these themselves, are listed.
folder() {
    [[ ! -d $1 ]] || return 0
    [[ ${1%/*} == '' ]] || folder "${1%/*}"
    mkdir -p "$1"
    case $1/ in
        "$root"/?* | "$lib"/*) enter "$1/" ;;
        "$root"/) enter "$root/./" ;;
    esac
}

# place FILE: what follows puts this file there.
place() {
    folder "${1%/*}"
    enter "$1"
}

# put FROM TO [MODE]: copies where the contents differ, under a new name first, as programs may be running.
put() {
    place "$2"
    ! cmp -s "$1" "$2" || return 0
    install -m "${3:-644}" "$1" "$2.new"
    mv "$2.new" "$2"
}

# put_text TEXT TO [MODE]: lines, as put puts files.
put_text() {
    printf '%s\n' "$1" >"$THALWEG_INSTALLING/text"
    put "$THALWEG_INSTALLING/text" "$2" "${3:-644}"
}

# link TARGET NAME: a symbolic link; left alone where it is right. Programs may be compiled meanwhile: it is never away.
link() {
    place "$2"
    [[ $(readlink "$2" || true) != "$1" ]] || return 0
    ln -sfn "$1" "$2.new"
    mv -T "$2.new" "$2"
}

# library_links NAME: libNAME.so.VERSION, which lies in $lib, gets the name that programs remember and the one that they are linked by.
# shellcheck disable=SC2154  # of scripts/build.sh
library_links() {
    link "lib$1.so.$version" "$lib/lib$1.so.$abi"
    link "lib$1.so.$abi" "$lib/lib$1.so"
}

# other_releases_gone: libraries of another release with the same number are removed, those too that were not built this time: they call
# each other by functions that belong to no interface. Libraries with another number stay.
other_releases_gone() {
    local old
    for old in "$lib"/libthalweg-*.so."$abi".* "$lib"/.debug/libthalweg-*.so."$abi".*.debug; do
        [[ ! -e $old || $old == *.so."$version" || $old == *.so."$version".debug ]] || rm "$old"
    done
    # Their names; a name without a number may be that of another number's library, which is there.
    find "$lib" -maxdepth 1 -xtype l -name 'libthalweg-*.so*' -delete
}

# put_built FROM TO: a program or library that was built. Of a release the debug information lies beside it, in .debug/, where
# debuggers look for it.
put_built() {
    local name folder
    if [[ $BUILD != release || ${DEBUG:-} == inside ]]; then
        put "$1" "$2" 755
        return
    fi
    name=$(basename "$2") folder=$(dirname "$2")
    place "$2"
    place "$folder/.debug/$name.debug"
    [[ -e $2 && ! $1 -nt $2 ]] && return
    objcopy --only-keep-debug --compress-debug-sections "$1" "$folder/.debug/$name.debug"
    # The link tells the file's name and checksum.
    (cd "$folder/.debug" && objcopy --strip-debug --strip-unneeded --add-gnu-debuglink="$name.debug" "$1" "../$name.new")
    chmod 755 "$folder/$name.new"
    mv "$folder/$name.new" "$2"
}

# from FOLDER TO: how a file in FOLDER names the folder TO: relative where both lie below PREFIX, so that it can be moved.
from() {
    if [[ $1/ == "$prefix"/* && $2/ == "$prefix"/* ]]; then realpath -ms --relative-to="$1" "$2"; else printf '%s\n' "$2"; fi
}

# built PART, left_out PART REASON: lines of the report.
built() { printf '  built     %s\n' "$1" >>"$THALWEG_INSTALLING/parts"; }
left_out() { printf '  left out  %s: %s\n' "$1" "$2" >>"$THALWEG_INSTALLING/parts"; }

# report_parts WORD: one line per part, where it holds this word.
report_parts() { grep -F "$1" "$THALWEG_INSTALLING/parts" || true; }
