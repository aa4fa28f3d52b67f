#!/usr/bin/env bash
# Each system call that one of three MPI ranks makes on the files of an output, or on their folder, fails once, by every method of the
# library: all ranks return, with one error or none, and what tests/system/faults.rs promises holds. Takes twenty minutes, so it is
# run for LONG=1; ONLY=WORD runs a part.
# shellcheck disable=SC2317  # functions are called by name, through try
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
[[ ${LONG:-0} != 0 ]] || exit 0
work=$PWD/build/mpi-faults/${MPI:-openmpi}
source tests/checks.sh
source scripts/build.sh
with_libraries
build_all
if ! strace -qq -o "$work/strace.log" true 2>"$work/stderr.log"; then
    echo "skipped: a failure of each system call under MPI: strace cannot trace here ($(head -n 1 "$work/stderr.log"))"
    exit 0
fi
# shellcheck disable=SC2046  # several flags
"$MPICC" -std=c11 -D_GNU_SOURCE -O1 -Wall -Wextra -Werror $(pkg-config --cflags "thalweg-$MPI") tests/mpi/faults.c \
    -o "$work/faults" $(pkg-config --libs "thalweg-$MPI")

# What the rank with the number $VICTIM runs under: CALL, ERROR and K say what fails, PATHS on which files. Without an ERROR nothing
# fails.
cat >"$work/rank.sh" <<'RANK'
#!/usr/bin/env bash
if [[ ${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-}} != "$VICTIM" ]]; then exec "$@"; fi
with=$CALL
# Which files were written to before.
[[ $CALL != close ]] || with+=,write,pwrite64,pwritev,pwritev2,ftruncate
options=(-f -qq -y -o "$LOG" -e "trace=$with")
[[ -z $ERROR ]] || options+=(-e "inject=$CALL:error=$ERROR:when=$K")
for path in $PATHS; do options+=(-P "$path"); done
exec strace "${options[@]}" "$@"
RANK
chmod +x "$work/rank.sh"

calls=(openat/EIO openat/ENOSPC open/EIO read/EIO pread64/EIO preadv/EIO preadv2/EIO write/ENOSPC pwrite64/ENOSPC pwritev/ENOSPC
    pwritev2/ENOSPC lseek/EIO fsync/EIO fsync/EDQUOT fdatasync/EIO close/EIO unlink/EIO unlinkat/EIO rmdir/EIO mkdir/ENOSPC
    mkdirat/ENOSPC link/EIO linkat/EIO ftruncate/EIO fallocate/ENOSPC getdents64/EIO fstat/EIO newfstatat/EIO statx/EIO rename/EIO
    renameat/EIO renameat2/EIO flock/EIO fcntl/EIO)

all=$(printf '%s\n' "${calls[@]%/*}" | sort -u | paste -sd,)

# How often a thread has made each call, at most.
counts() {
    awk '$2 ~ /\(/ { sub(/\(.*/, "", $2); n[$1 " " $2]++ }
        END { for (k in n) { split(k, p, " "); if (n[k] > most[p[2]]) most[p[2]] = n[k] } for (c in most) print c, most[c] }' "$LOG"
}

output() { # one output with the victim under strace; says what the ranks say
    rm -rf "$folder" "$LOG"
    cp -a "$before" "$folder"
    limited 300 "${mpiexec[@]}" -n 3 "$work/rank.sh" "$work/faults" "$work/config.xml" "$folder/x.bp" "$first" 1 2>"$work/stderr.log"
}

sweep() { # sweep METHOD PARAMETERS FIRST
    local method=$1 parameters=$2 first=$3 folder=$work/run before=$work/before end said k pair injected faults=0 failed=0 call n
    local -A most
    cat >"$work/config.xml" <<XML
<adios-config host-language="C"><adios-group name="g">
  <var name="n" type="integer"/><var name="ranks" type="integer"/><var name="rank" type="integer"/>
  <global-bounds dimensions="ranks,n" offsets="rank,0"><var name="t" type="double" dimensions="1,n"/></global-bounds>
</adios-group><method group="g" method="$method">$parameters</method></adios-config>
XML
    rm -rf "$before" && mkdir "$before"
    [[ $first == 0 ]] || limited 600 "${mpiexec[@]}" -n 3 "$work/faults" "$work/config.xml" "$before/x.bp" 0 "$first"
    PATHS="$folder $folder/x.bp $folder/x.bp.dir"
    for k in 0 1 2; do PATHS+=" $folder/x.bp.dir/x.bp.$k $folder/x.bp.spill.$k"; done
    export PATHS LOG=$work/strace.log VICTIM CALL ERROR K
    for VICTIM in 0 1 2; do
        CALL=$all ERROR='' K=0
        said=$(output) || { echo "rank $VICTIM: the program ends badly without a fault: $said" && return 1; }
        most=()
        while read -r call n; do most[$call]=$n; done < <(counts)
        for pair in "${calls[@]}"; do
            CALL=${pair%/*} ERROR=${pair#*/}
            for ((k = 1; k <= ${most[$CALL]:-0}; k++)); do
                K=$k
                said=$(output) || { echo "rank $VICTIM, $CALL $K $ERROR: the program ends badly: $said" && return 1; }
                injected=$(grep -c INJECTED "$LOG" || true)
                [[ $injected -gt 0 ]] || continue
                faults=$((faults + 1))
                [[ $(wc -l <<<"$said") == 3 && $(cut -d: -f2 <<<"$said" | sort -u | wc -l) == 1 ]] ||
                    { echo "rank $VICTIM, $CALL $K $ERROR: ranks differ: $said" && return 1; }
                end=success
                [[ $said == *": 0"* ]] || { end=failure && failed=$((failed + 1)); }
                "$built/examples/faults" check "$folder" "$method" "$parameters" 3 "$first" "$end" ||
                    { echo "rank $VICTIM, $CALL $K $ERROR, $end: what is left is wrong" && return 1; }
                [[ $CALL/$end != close/success ]] || "$built/examples/faults" lost "$LOG" "$folder" ||
                    { echo "rank $VICTIM, $CALL $K $ERROR: nobody was told" && return 1; }
            done
        done
    done
    echo "$faults failing system calls, $failed told as errors"
    [[ $faults -gt 10 ]]
}
# Parameters that let three ranks play all parts of a method; - for none.
declare -A ways=(
    [MPI]='- sync=yes;index=each' [POSIX]='- sync=yes;index=each' [MPI_COLLECTIVE]='aggregators=2'
    [MPI_AGGREGATE]='pattern=simple;aggregators=2 pattern=brigade;aggregators=1' [MPI_SCHEDULED]='num_files=2' [ADAPTIVE]='num_files=2'
    [ASYNC]='async=no;owners=2;stripe=256'
)
hows=()
mapfile -t methods < <("$built/examples/faults" methods)
[[ ${#methods[@]} -ge 6 ]] || { say 1 "the library tells its methods" && exit 1; }
for method in "${methods[@]}"; do
    for way in ${ways[$method]:--}; do hows+=("$method ${way/#-/}"); done
done
for how in "${hows[@]}"; do
    read -r method parameters <<<"$how"
    for first in 0 2; do
        name="$method $parameters: each system call on the files of step $first fails once"
        [[ $name == *"${ONLY:-}"* ]] || continue
        try "$name" sweep "$method" "$parameters" "$first"
        tail -n 1 "$work/check.log" | sed 's/^/  /'
    done
done
exit "$failed"
