#!/usr/bin/env bash
# Nodes on one machine, for tests and benches: network namespaces with host names of their own, on a bridge that leads nowhere else, each
# behind a link of limited rate. Needs root.
#
#   nodes.sh start FOLDER COUNT [RATE]
#                         makes nodes tw0, tw1, ...; RATE as for tc, 1gbit if not given
#   nodes.sh stop FOLDER  ends what runs on them, and removes them
#
# FOLDER/on HOST COMMAND... runs a command on a node, as ssh does: Open MPI takes it as its plm_rsh_agent. FOLDER/bin/ssh is the same under
# that name. FOLDER/env sets NODES (their names), NODES_NETWORK (their addresses) and ON. Processes, files and memory are those of the
# machine.
set -euo pipefail

start() {
    local state=$1 count=$2 rate=${3:-1gbit} tag n
    rm -rf "$state"
    mkdir -p "$state"
    state=$(cd "$state" && pwd)
    tag=tw$((BASHPID % 100000))
    printf '%s %s\n' "$tag" "$count" >"$state/made"
    ip link add name "$tag" type bridge
    ip address add 10.97.0.254/24 dev "$tag"
    ip link set "$tag" up
    local hosts names=()
    hosts=$(printf '127.0.0.1 localhost\n10.97.0.254 %s\n' "$(uname -n)")
    for ((n = 0; n < count; n++)); do
        hosts+=$(printf '\n10.97.0.%d tw%d' $((n + 1)) "$n")
        names+=("tw$n")
    done
    for ((n = 0; n < count; n++)); do
        local node=$tag-$n outside=${tag}v$n
        mkdir -p "/etc/netns/$node"
        printf '%s\n' "$hosts" >"/etc/netns/$node/hosts"
        ip netns add "$node"
        ip link add name "$outside" type veth peer name eth0 netns "$node"
        ip link set "$outside" master "$tag" up
        ip -n "$node" link set lo up
        ip -n "$node" address add "10.97.0.$((n + 1))/24" dev eth0
        ip -n "$node" link set eth0 up
        # Both ways. A burst holds some of the segments that the kernel passes on at once.
        tc qdisc add dev "$outside" root tbf rate "$rate" burst 512kb latency 50ms
        tc -n "$node" qdisc add dev eth0 root tbf rate "$rate" burst 512kb latency 50ms
    done
    cat >"$state/on" <<END
#!/bin/sh
# Runs a command on a node.
node=\$1
shift
exec ip netns exec "$tag-\${node#tw}" unshare --uts -- sh -c 'hostname "\$0" && exec sh -c "\$1"' "\$node" "\$*"
END
    mkdir "$state/bin"
    cat >"$state/bin/ssh" <<END
#!/bin/sh
# As the program of this name, as far as it runs a command on a node.
while [ "\${1#-}" != "\$1" ]; do shift; done
exec "$state/on" "\$@"
END
    chmod +x "$state/on" "$state/bin/ssh"
    printf 'export NODES="%s" NODES_NETWORK=10.97.0.0/24 ON=%s\n' "${names[*]}" "$state/on" >"$state/env"
}

stop() {
    local state=$1 tag count n
    [[ -e $state/made ]] || return 0
    read -r tag count <"$state/made"
    for ((n = 0; n < count; n++)); do
        local node=$tag-$n processes
        processes=$(ip netns pids "$node" 2>/dev/null || true)
        # shellcheck disable=SC2086  # numbers
        [[ -z $processes ]] || kill $processes 2>/dev/null || true
        ip netns delete "$node" 2>/dev/null || true
        rm -rf "/etc/netns/$node"
    done
    ip link delete "$tag" 2>/dev/null || true
    rm -f "$state/made"
}

case ${1:-} in
    start) start "${@:2}" ;;
    stop) stop "${2:?}" ;;
    *) echo "usage: nodes.sh start FOLDER COUNT [RATE] | stop FOLDER" >&2 && exit 2 ;;
esac
