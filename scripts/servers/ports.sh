# shellcheck shell=bash
# Free ports for servers with a configured port. The system chooses ports of clients, and "any" ports, from its own range;
# a port of that range could be taken by an unrelated connection before the server listens, so these lie outside of it.

# free_ports N: prints N free ports of the loopback interface, one per line.
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
