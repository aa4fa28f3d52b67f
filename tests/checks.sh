# shellcheck shell=bash
# How a script says what it has checked, and runs programs with the MPI at hand. Sourced in the root of the repository, with
# `work` set: the script's folder, which is made anew. MPI chooses the MPI, PREFIX a place where the libraries are installed.
#
# A check is one line, "ok NAME" or "not ok NAME"; `failed` is 1 where one was not ok. ONLY=WORD tries those whose names hold it.
# shellcheck disable=SC2034  # read by who sources this
MPI=${MPI:-openmpi}
MPICC=${MPICC:-mpicc.$MPI}
MPIF90=${MPIF90:-mpif90.$MPI}
if [[ -z ${MPIEXEC:-} ]]; then
    [[ $MPI == openmpi ]] && MPIEXEC='mpiexec.openmpi --oversubscribe' || MPIEXEC=mpiexec.$MPI
fi
# MPICH waits busily: a core for each.
if [[ -z ${MPI_RANKS:-} ]]; then
    [[ $MPI == openmpi ]] && MPI_RANKS=4 || MPI_RANKS=2
fi
read -ra mpiexec <<<"$MPIEXEC"
if [[ $(id -u) == 0 ]]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
rm -rf "${work:?}"
mkdir -p "$work"
failed=0

say() { # say STATUS NAME
    if [[ $1 == 0 ]]; then echo "ok $2"; else echo "not ok $2" && failed=1; fi
}

# what_failed LOG...: the ends of these files, and of those in $work that scripts keep what programs print in and that were written to
# since the check began.
what_failed() {
    local kept=()
    mapfile -t kept < <(find "$work" -maxdepth 1 -type f -size -1024k ! -name strace.log -newer "$work/.began" \
        \( -name '*log' -o -name 'told*' -o -name 'said*' -o -name 'got*' -o -name '*.txt' \) ! -name check.log ! -name stderr.log | sort)
    tail -q -n 30 "$@" 2>/dev/null | cut -c1-300 | sed 's/^/  /'
    local file
    for file in "${kept[@]}"; do
        [[ ! -s $file ]] || tail -n 15 "$file" | LC_ALL=C tr -cd '\11\12\40-\176' | cut -c1-300 | sed "s/^/  ${file##*/}: /"
    done
}
# began: from now on something is checked. A clock's tick earlier, as files written to in the same one are not newer.
began() { : >"$work/stderr.log" && touch -d '-0.1 seconds' "$work/.began"; }

# try NAME COMMAND...: one check, in a shell of its own. A function fails with the first of its commands that fails; what a failed
# one printed is shown.
try() {
    local name=$1 status
    shift
    [[ $name == *"${ONLY:-}"* ]] || return 0
    began
    # Not behind ||: there a failure in the middle of a function goes unseen.
    set +e
    (
        set -e
        "$@"
    ) >"$work/check.log" 2>&1
    status=$?
    set -e
    say "$status" "$name"
    [[ $status == 0 ]] || what_failed "$work/check.log" "$work/stderr.log"
}

# many NAME COMMAND...: a program that prints such lines of its own, at least one; their names get ours added. What a failed one
# printed beside them is shown.
many() {
    local name=$1 status=0 log
    shift
    log=$(mktemp -p "$work" many.XXXXXX)
    began
    "$@" >"$log" 2>"$log.err" || status=$?
    sed -E "s/^((not )?ok .*)\$/\1 ($name)/" "$log"
    if grep -q '^not ok ' "$log"; then
        failed=1
    elif [[ $status != 0 ]]; then
        say 1 "the program ends well, not with $status ($name)"
    elif ! grep -q '^ok ' "$log"; then
        say 1 "the program checks something ($name)"
    else
        return 0
    fi
    what_failed "$log.err" "$work/stderr.log"
}

# limited SECONDS COMMAND...: a limit for hangs, generous, as the machine may be busy; it says so where it strikes.
limited() {
    local seconds=$1 status=0 began=$SECONDS
    shift
    timeout "$seconds" "$@" || status=$?
    [[ $status != 124 ]] || echo "stopped after $((SECONDS - began)) s, the limit for hangs: $*" >&2
    return "$status"
}

# In $work; what they say on the error stream is kept for who looks for a failure's cause.
run() { # run RANKS PROGRAM...
    local ranks=$1 own status=0
    shift
    # Two may run side by side, and Open MPI's end of one takes the folder that another one begins with.
    own=$(mktemp -d "${TMPDIR:-/tmp}/ompi.XXXXXX")
    OMPI_MCA_orte_tmpdir_base=$own alone "${mpiexec[@]}" -n "$ranks" "$@" || status=$?
    rm -rf "$own"
    return "$status"
}
alone() { # alone PROGRAM...
    local status=0
    (cd "$work" && limited 900 "$@" 2>>stderr.log) || status=$?
    [[ $status == 0 ]] || echo "ended with $status: $*" >>"$work/stderr.log"
    return "$status"
}

# What programs are compiled against, in $prefix.
with_libraries() {
    prefix=${PREFIX:-$PWD/build/c-api/prefix}
    [[ -n ${PREFIX:-} ]] || try "install" bindings/c/install.sh "$prefix"
    export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
}
