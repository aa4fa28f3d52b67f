#!/usr/bin/env bash
# Messages of the library in C programs: one line per kind and rank on standard error, or a call of the program's handler; THALWEG_LOG,
# THALWEG_ERRORS and THALWEG_LOG_FILE; on ranks, and without MPI.
# shellcheck disable=SC2317  # functions are called by name, through try
# shellcheck disable=SC2046  # what pkg-config says is several flags
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
work=$PWD/build/messages/${MPI:-openmpi}
source tests/checks.sh
unset THALWEG_LOG THALWEG_LOG_FILE THALWEG_ERRORS

source=$PWD/tests/system/native/messages.c
with_libraries
flags=(-std=c11 -O1 -g -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror)
compile() {
    "$MPICC" "${flags[@]}" $(pkg-config --cflags "thalweg-$MPI") "$source" -o "$work/messages" $(pkg-config --libs "thalweg-$MPI")
    cc "${flags[@]}" $(pkg-config --cflags thalweg-nompi) "$source" -o "$work/messages.nompi" $(pkg-config --libs thalweg-nompi)
}
try "a program that provokes a warning compiles" compile
[[ $failed == 0 ]] || exit 1
mkdir "$work/files"

text='a file keeps the statistics it began with (variable T, file stats=on, asked stats=off)'
# messages RANKS HOW FILES [VARIABLE=VALUE...]; 0 ranks: without MPI
messages() {
    local ranks=$1 program=(./messages "$2" "$3" files)
    shift 3
    : >"$work/stderr.log"
    if [[ $ranks == 0 ]]; then
        program[0]=./messages.nompi
        alone env "$@" "${program[@]}" >"$work/checks.txt"
    else
        run "$ranks" env "$@" "${program[@]}" >"$work/checks.txt"
    fi
    grep -q '^ok with the level and the text$' "$work/checks.txt"
}
# printed LINES: that many lines of the library are on standard error, each the warning
printed() {
    grep '^thalweg: ' "$work/stderr.log" >"$work/told.txt" || true
    [[ $(wc -l <"$work/told.txt") == "$1" ]]
    [[ $(grep -cxF "thalweg: warning: $text" "$work/told.txt") == "$1" ]]
}
prints() { # prints LINES RANKS HOW FILES [VARIABLE=VALUE...]
    messages "${@:2}"
    printed "$1"
}
# logs RANKS HOW FILES LOG...: exactly these ranks have a log file, with the warning and the time
logs() {
    local folder=$work/logs log
    rm -rf "$folder"
    mkdir "$folder"
    messages "$1" "$2" "$3" THALWEG_LOG_FILE="$folder/log"
    [[ $(find "$folder" -type f -printf '%f\n' | sort | tr '\n' ' ') == "$(printf '%s ' "${@:4}")" ]]
    for log in "${@:4}"; do
        [[ $(wc -l <"$folder/$log") == 1 ]]
        grep -qE '^20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{3}Z warn ' "$folder/$log"
        grep -qF " warn $text" "$folder/$log"
    done
}
invalid() { # invalid RANKS: an invalid level counts as `warn`, and is one more line, of one rank
    messages "$1" stderr together THALWEG_LOG=loud
    [[ $(grep -c '^thalweg: ' "$work/stderr.log") == 2 ]]
    [[ $(grep -cxF 'thalweg: warning: THALWEG_LOG=loud: expected off, warn, info or debug' "$work/stderr.log") == 1 ]]
    [[ $(grep -cxF "thalweg: warning: $text" "$work/stderr.log") == 1 ]]
}

for ranks in 0 1 2; do
    at="$MPI, $ranks ranks"
    if [[ $ranks == 0 ]]; then
        [[ $MPI == openmpi ]] || continue
        at="no MPI"
    fi
    each=$((ranks > 0 ? ranks : 1))
    all=(log.0)
    [[ $ranks != 2 ]] || all+=(log.1)
    try "a warning is one line ($at)" prints 1 "$ranks" stderr together
    try "a warning of each rank is one line of each ($at)" prints "$each" "$ranks" stderr each
    try "a handler is called once, and nothing is printed ($at)" prints 0 "$ranks" handler together
    try "a handler is called once on each rank that warns ($at)" prints 0 "$ranks" handler each
    try "without its handler again, a program's warnings are printed ($at)" prints 1 "$ranks" back together
    try "THALWEG_LOG=off: nothing is printed ($at)" prints 0 "$ranks" stderr each THALWEG_LOG=off
    try "THALWEG_LOG=off: no handler is called ($at)" prints 0 "$ranks" silent each THALWEG_LOG=off
    try "THALWEG_ERRORS=quiet: nothing is printed ($at)" prints 0 "$ranks" stderr each THALWEG_ERRORS=quiet
    try "THALWEG_LOG=warn goes before THALWEG_ERRORS=quiet ($at)" prints 1 "$ranks" stderr together THALWEG_ERRORS=quiet THALWEG_LOG=warn
    try "THALWEG_LOG=info: every occurrence is printed ($at)" prints 2 "$ranks" stderr together THALWEG_LOG=info
    try "an invalid level is told once ($at)" invalid "$ranks"
    try "THALWEG_LOG_FILE: a file of each rank that warns ($at)" logs "$ranks" stderr each "${all[@]}"
    try "THALWEG_LOG_FILE: also with a handler ($at)" logs "$ranks" handler each "${all[@]}"
    try "THALWEG_LOG_FILE: none of a rank without messages ($at)" logs "$ranks" stderr together log.0
done
exit "$failed"
