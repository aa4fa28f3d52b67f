"""Changes of a registry that are killed, or fail, at each of their system calls: the registry reads as before or after the change, and the
next change works. Prints "ok NAME" or "not ok NAME (why)".

    torn.py THALWEG FOLDER CONFIGURATION    of a partition that was created and does not run, in the registry FOLDER/torn.registry

The change is that of a start whose servers cannot be launched: it records a start and takes it back. Only calls between the lock of the
registry and its release count.
"""

import collections, json, os, re, subprocess, sys, tomllib

thalweg, folder, configuration = sys.argv[1:4]
registry = f"{folder}/torn.registry"
entry, name = f"{registry}/torn.toml", "torn"
CHANGE = [thalweg, "partition", "start", configuration, "--by", "flux", "--patience", "5"]


def run(command, **more):
    return subprocess.run(command, capture_output=True, text=True, timeout=120, **more)


def state():
    """The entry, as the program reads it: number of starts, and whether it is started."""
    told = run([thalweg, "partition", "list", registry])
    assert told.returncode == 0 and "torn: 1 servers, stripes of 4096 bytes, " in told.stdout, (told.stdout, told.stderr)
    with open(entry, "rb") as file:
        read = tomllib.load(file)
    started = "instance" in read
    assert started == ("not started" not in told.stdout), told.stdout
    return read["starts"], started


def calls():
    """The system calls of the main thread inside of the changes, by name: which of its kind."""
    log = f"{folder}/strace.log"
    run(["strace", "-qq", "-o", log, *CHANGE])
    counts, inside, found = collections.Counter(), False, []
    for line in open(log):
        made = re.match(r"(\w+)\(", line)
        if not made:
            continue
        call = made[1]
        counts[call] += 1
        if "torn.lock" in line:
            inside, descriptor = True, line.rsplit("= ", 1)[1].split()[0]
        if inside:
            found.append((call, counts[call]))
            if call == "close" and line.startswith(f"close({descriptor})"):
                inside = False
    return found


def settle():
    """A later change: whatever was left, the partition is not started afterwards."""
    stopped = run([thalweg, "partition", "stop", configuration])
    assert stopped.returncode == 0, stopped.stderr
    starts, started = state()
    assert not started, "a stop leaves it started"
    return starts


def judge(what, inject):
    settle()
    found = calls()
    assert len(found) > 20, found
    seen = collections.Counter()
    for call, which in found:
        # A close that fails has closed; strace makes none, and the lock would stay.
        if call == "close" and inject != "signal=KILL":
            continue
        before = settle()
        done = run(["strace", "-qq", "-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={call}:{inject}:when={which}", *CHANGE])
        starts, started = state()
        where = f"{what} at {call} {which}"
        assert starts in (before, before + 1), f"{where}: start {starts} after {before}"
        # With the counted start, or before it, or after it was taken back.
        assert not started or starts == before + 1, f"{where}: started, but no start is counted"
        seen[starts - before, started] += 1
        settle()
        # A change after it works.
        again = run(CHANGE)
        assert "cannot start server 0 with flux" in again.stderr, f"{where}: {again.stderr}"
        assert state() == (starts + 1, False), f"{where}: {state()}"
        left = [file for file in os.listdir(registry) if re.match(r"torn\.(?!toml$|lock$|new$)", file)]
        assert not left, left
    assert len(seen) >= 2, f"only one outcome: {seen}"
    print(f"ok {what}: {len(found)} calls, {dict(seen)}", flush=True)


for what, inject in (("a change that is killed", "signal=KILL"), ("a change whose call fails", "error=EIO")):
    try:
        judge(what, inject)
    except (AssertionError, subprocess.TimeoutExpired) as e:
        print(f"not ok {what} ({str(e)[:700]})", flush=True)
