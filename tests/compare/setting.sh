# shellcheck shell=bash
# What the comparisons with ADIOS 1.13 share; sourced at their start, in the root of the repository, with `work` set: a folder made anew.
export THALWEG_ERRORS=quiet LC_ALL=C

# Debian has ADIOS 1.13 for Open MPI.
[[ ${MPI:-openmpi} == openmpi ]] || exit 0

source tests/checks.sh
same() { # same NAME FILE FILE
    local status=0
    # A dump that ended early compares with nothing.
    [[ $(wc -l <"$2") -gt ${least:-0} && -s $3 ]] && diff -a "$2" "$3" >"$work/diff.txt" || status=1
    say "$status" "$1"
    [[ $status == 0 ]] || head -n 20 "$work/diff.txt" | cut -c1-200
}

source scripts/machine.sh
