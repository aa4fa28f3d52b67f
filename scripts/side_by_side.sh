#!/usr/bin/env bash
# side_by_side.sh PROGRAM ARGUMENT...: what cargo starts a test program with, so that three run side by side on two cores: half of
# their time is spent waiting. It begins the program and comes back; what it says is in $SIDE_BY_SIDE/NUMBER.log, and how it
# ended in NUMBER.status, when all slots are free again. Anything else, as the programs of doc tests, runs to its end.
set -uo pipefail

[[ $1 == */deps/* ]] || exec "$@"

# A slot is a file that is locked while its program runs.
while true; do
    for slot in 1 2 3; do
        exec 9>"$SIDE_BY_SIDE/slot.$slot"
        if flock -n 9; then break 2; fi
    done
    sleep 0.05
done
number=$(find "$SIDE_BY_SIDE" -name '*.log' | wc -l)
log=$(printf '%s/%04d.log' "$SIDE_BY_SIDE" "$number")
echo "     Running $1" >"$log"
{
    status=0
    # A server that a test leaves behind holds no slot.
    "$@" >>"$log" 2>&1 9>&- || status=$?
    echo "$status" >"${log%.log}.status"
} </dev/null >/dev/null 2>&1 &
