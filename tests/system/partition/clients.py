"""A program on a partition whose server goes away: clients.py KIND FILE READY GO. Each kind works until it gets an error, which it prints.

    writer    writes at all servers, again and again
    reader    reads the whole file, again and again
    idle      has the file open and does nothing until GO exists; then it reads
    syncer    has written before, and syncs once GO exists

READY is made once it has begun. An error that does not come is one that tests wait for in vain.
"""

import os, sys, time

kind, path, ready, go = sys.argv[1:5]
LENGTH = 400_000


def waits():
    while not os.path.exists(go):
        time.sleep(0.02)


file = os.open(path, os.O_RDWR | os.O_CREAT, 0o640)
try:
    if kind == "syncer":
        os.pwrite(file, b"s" * LENGTH, 0)
    first = True
    while True:
        if kind == "writer":
            assert os.pwrite(file, b"w" * LENGTH, 0) == LENGTH
        elif kind == "reader":
            assert len(os.pread(file, LENGTH, 0)) == LENGTH
        elif not first:
            waits()
            if kind == "syncer":
                os.fsync(file)
            else:
                assert len(os.pread(file, LENGTH, 0)) == LENGTH
        if first:
            open(ready, "w").close()
            first = False
except OSError as e:
    print("error", e, flush=True)
    os._exit(0)
