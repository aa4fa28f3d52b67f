# shellcheck shell=bash
# What the comparisons with ADIOS 1.13 share; sourced at their start, in the root of the repository, with `work` set: a folder made anew.
MPI=${MPI:-openmpi}
MPIEXEC=${MPIEXEC:-mpiexec.openmpi --oversubscribe}
read -ra mpiexec <<<"$MPIEXEC"
if [[ $(id -u) == 0 ]]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
export THALWEG_ERRORS=quiet LC_ALL=C

# Debian has ADIOS 1.13 for Open MPI.
[[ $MPI == openmpi ]] || exit 0

rm -rf "${work:?}"
mkdir -p "$work"
# shellcheck disable=SC2034  # read by who sources this
failed=0
say() { # say STATUS NAME
    # shellcheck disable=SC2034
    if [[ $1 == 0 ]]; then echo "ok $2"; else echo "not ok $2" && failed=1; fi
}
try() { # try NAME COMMAND...
    local name=$1 status=0
    shift
    "$@" || status=$?
    say "$status" "$name"
}
run() { # run RANKS PROGRAM...
    local ranks=$1
    shift
    (cd "$work" && timeout 120 "${mpiexec[@]}" -n "$ranks" "$@" 2>>stderr.log)
}
same() { # same NAME FILE FILE
    local status=0
    # A dump that ended early compares with nothing.
    [[ $(wc -l <"$2") -gt ${least:-0} && -s $3 ]] && diff -a "$2" "$3" >"$work/diff.txt" || status=1
    say "$status" "$1"
    [[ $status == 0 ]] || head -n 20 "$work/diff.txt" | cut -c1-200
}

prefix=${PREFIX:-$PWD/build/c-api/prefix}
source scripts/machine.sh
# Where programs beside ADIOS 1.13 are there: install for them.
installed() {
    [[ -n ${PREFIX:-} ]] || try "install" bindings/c/install.sh "$prefix"
    export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
}
