#!/usr/bin/env bash
# A real Slurm of one node on loopback, for tests: slurmctld, slurmd and munged as processes of this user, who is root.
#
#   slurm.sh available    says what is missing, and fails then
#   slurm.sh start FOLDER starts it; FOLDER/env sets SLURM_CONF
#   slurm.sh stop FOLDER  ends its processes
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."
# shellcheck source-path=SCRIPTDIR/../..
source scripts/servers/ports.sh

available() {
    local program
    [[ $(id -u) == 0 ]] || { echo "it is started as root" && return 1; }
    for program in slurmctld slurmd srun munged; do
        command -v $program >/dev/null || [[ -x /usr/sbin/$program ]] || { echo "$program is not installed" && return 1; }
    done
}

start() {
    local state=$1 host ports key socket
    rm -rf "$state"
    mkdir -p "$state"/{state,spool,log}
    state=$(cd "$state" && pwd)
    host=$(hostname)
    read -ra ports <<<"$(free_ports 2 | tr '\n' ' ')"
    # Munge's own key and socket, so that one of the machine's is left alone. It accepts no folder that others can write in above these.
    socket=$(mktemp -d /run/thalweg-munge.XXXXXX)
    chmod 0755 "$socket"
    key=$socket/key
    head -c 1024 /dev/urandom >"$key"
    chmod 0400 "$key"
    /usr/sbin/munged --force --key-file="$key" --socket="$socket/socket" --pid-file="$socket/pid" --log-file="$socket/log" --seed-file="$socket/seed"
    cat >"$state/slurm.conf" <<C
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmUser=root
SlurmctldPort=${ports[0]}
SlurmdPort=${ports[1]}
AuthType=auth/munge
AuthInfo=socket=$socket/socket
StateSaveLocation=$state/state
SlurmdSpoolDir=$state/spool
SlurmctldLogFile=$state/log/slurmctld.log
SlurmdLogFile=$state/log/slurmd.log
SlurmctldPidFile=$state/slurmctld.pid
SlurmdPidFile=$state/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
KillWait=30
SchedulerType=sched/builtin
NodeName=$host NodeAddr=127.0.0.1 CPUs=2 RealMemory=1000 State=UNKNOWN
PartitionName=p Nodes=$host Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
C
    printf 'export SLURM_CONF=%q\n' "$state/slurm.conf" >"$state/env"
    echo "$socket" >"$state/munge"
    /usr/sbin/slurmctld -f "$state/slurm.conf"
    /usr/sbin/slurmd -f "$state/slurm.conf"
    local tries
    for ((tries = 0; tries < 300; tries++)); do
        SLURM_CONF=$state/slurm.conf sinfo -h -o %T 2>/dev/null | grep -q '^idle' && return
        sleep 0.1
    done
    echo "the node is not idle after 30 s: $(SLURM_CONF=$state/slurm.conf sinfo -h -o '%T %E' 2>&1)" >&2
    return 1
}

stop() {
    local state=$1 socket file
    for file in "$state/slurmd.pid" "$state/slurmctld.pid"; do
        [[ ! -s $file ]] || kill "$(cat "$file")" 2>/dev/null || true
    done
    socket=$(cat "$state/munge" 2>/dev/null) || return 0
    [[ ! -s $socket/pid ]] || kill "$(cat "$socket/pid")" 2>/dev/null || true
    rm -rf "${socket:?}"
}

"$@"
