# shellcheck shell=bash
# Ports for servers that are told theirs: nobody listens on them now, and nobody is given one by chance before the server
# listens. The system picks the ports of clients, and those asked for as "any", from a range of its own; a server's port
# from there can be taken by an unrelated connection between choice and start, so these lie outside of it.

# free_ports N: N ports of the loopback, one per line.
free_ports() {
    python3 - "$1" <<'END'
import random, socket, sys

with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
    first, last = map(int, file.read().split())
ports = [port for port in range(10000, 65536) if not first <= port <= last]
random.shuffle(ports)
held = []
for port in ports:
    if len(held) == int(sys.argv[1]):
        break
    try:
        held.append(socket.create_server(("127.0.0.1", port)))
    except OSError:
        continue
else:
    sys.exit("ports.sh: too few free ports outside of the range that the system picks from")
print(*(server.getsockname()[1] for server in held), sep="\n")
END
}
