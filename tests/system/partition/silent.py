"""Passes the bytes of connections on to a server, until its parent says so on the standard input: from then on connections stand, and new
ones are taken, but no byte passes. So a server looks whose host has lost its power or its network.

    silent.py HOST:PORT    prints its own port
"""

import select, socket, sys, threading

host, port = sys.argv[1].rsplit(":", 1)
silent = threading.Event()
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen(64)
kept = []


def passes(source, sink):
    try:
        while True:
            select.select([source], [], [], 0.1)
            if silent.is_set():
                return
            source.settimeout(0.1)
            try:
                got = source.recv(1 << 16)
            except TimeoutError:
                continue
            if silent.is_set():
                return
            if not got:
                sink.shutdown(socket.SHUT_WR)
                return
            sink.settimeout(None)
            sink.sendall(got)
    except OSError:
        for end in (source, sink):
            end.close()


def accepts():
    while True:
        client, _ = listener.accept()
        kept.append(client)
        if silent.is_set():
            continue
        server = socket.create_connection((host, int(port)))
        kept.append(server)
        for ends in ((client, server), (server, client)):
            threading.Thread(target=passes, args=ends, daemon=True).start()


threading.Thread(target=accepts, daemon=True).start()
print(listener.getsockname()[1], flush=True)
for line in sys.stdin:
    silent.set()
