# shellcheck shell=bash
# What the comparisons with ADIOS 1.13 share; sourced at their start, in the root of the repository, with `work` set: a folder made anew.
export THALWEG_ERRORS=quiet LC_ALL=C

# Debian has ADIOS 1.13 for Open MPI.
[[ ${MPI:-openmpi} == openmpi ]] || exit 0

source tests/checks.sh
same() { # same NAME FILE FILE
    local status=0
    : >"$work/diff.txt"
    # A dump that ended early compares with nothing.
    if [[ $(wc -l <"$2") -le ${least:-0} || ! -s $3 ]]; then
        status=1
        echo "too few lines to compare: $(wc -l <"$2") and $(wc -l <"$3")" >>"$work/diff.txt"
    fi
    diff -a "$2" "$3" >>"$work/diff.txt" || status=1
    say "$status" "$1"
    [[ $status != 0 ]] || return 0
    head -n 40 "$work/diff.txt" | cut -c1-300 | sed 's/^/  /'
    [[ ! -s $work/stderr.log ]] || tail -n 20 "$work/stderr.log" | cut -c1-300 | sed 's/^/  error stream: /'
}

# said COMMAND...: what it prints, and how it ended where that is not well.
said() {
    local status=0
    "$@" || status=$?
    [[ $status == 0 ]] || echo "ended with $status"
}

source scripts/machine.sh
