"""Two processes have a file open, each through a door: what one writes and syncs the other sees, in turns.

open_handles.py synced|kept|reopened THALWEG FIRST SECOND

FIRST and SECOND name one file as the two processes see it; with `run:` before the name through `thalweg run`, with `run=TABLE:` through
`thalweg run` with another table of mounts. Both create it.

synced    a handle shows what was synced after a sync of its own
kept      as synced, and until that sync what it showed before
reopened  a handle may show what it has read before until the file is opened again

Prints one line for each check, "ok NAME" or "not ok NAME".
"""

import os
import subprocess
import sys

MODES = {"r": os.O_RDONLY, "rw": os.O_RDWR, "a": os.O_RDWR | os.O_APPEND}
WHEN = {
    "synced": "after a sync of its own",
    "kept": "after a sync of its own and not before",
    "reopened": "once it is opened again",
}


def serve(path, mode):
    """Executes commands of the standard input on one open handle; each answer is one line."""
    fd = os.open(path, MODES[mode])
    for line in sys.stdin:
        command, *rest = line.split()
        if command == "read":
            print(os.pread(fd, 4096, 0).decode())
        elif command == "size":
            print(os.fstat(fd).st_size)
        elif command == "put":
            print(os.pwrite(fd, rest[1].encode(), int(rest[0])))
        elif command == "append":
            print(os.write(fd, rest[0].encode()))
        elif command == "sync":
            os.fsync(fd)
            print("synced")
        elif command == "reopen":
            os.close(fd)
            fd = os.open(path, MODES[mode])
            print("reopened")
        sys.stdout.flush()


def split(name):
    """The door, the table of mounts (or nothing) and the path of a name."""
    if not name.startswith(("run:", "run=")):
        return "FUSE", "", name
    table, path = name.removeprefix("run").split(":", 1)
    table = table.removeprefix("=")
    return f"preload, {os.path.basename(table)}" if table else "preload", table, path


class Process:
    """A process with the file open."""

    def __init__(self, thalweg, name, mode):
        door, table, self.path = split(name)
        self.through = [thalweg, "run", "--"] if door != "FUSE" else []
        if table:
            self.through = ["env", f"THALWEG_MOUNTS={table}", *self.through]
        self.mode = mode
        self.ran = None

    def run(self, *command):
        subprocess.run([*self.through, *command], check=True)

    def begin(self):
        command = [*self.through, sys.executable, os.path.abspath(__file__), "serve", self.path, self.mode]
        self.ran = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, *words):
        self.ran.stdin.write(" ".join(words) + "\n")
        self.ran.stdin.flush()
        answer = self.ran.stdout.readline()
        assert answer, f"the process of {self.path} has ended"
        return answer.rstrip("\n")

    def end(self):
        self.ran.stdin.close()
        assert self.ran.wait() == 0, f"the process of {self.path} failed"


def is_equal(got, wanted, what):
    assert got == wanted, f"{what}: {got!r} instead of {wanted!r}"


def turns(promise, writer, reader):
    """One writes, the other sees it; the other writes too, unless it only reads."""
    writer.run("sh", "-c", 'printf %s first--- >"$1"', "_", writer.path)
    writer.begin()
    reader.begin()
    content = "first---"

    def sees(process, what):
        process.ask("sync")
        if promise == "reopened":
            process.ask("reopen")
        is_equal(process.ask("read"), content, what)
        is_equal(process.ask("size"), str(len(content)), f"{what}, size")

    for process in (writer, reader):
        is_equal(process.ask("read"), content, "at first")
    for turn in range(8):
        before = content
        # In even turns the length stays.
        content = f"turn-{turn:03}" + content[8:] + (f"+{turn:03}" if turn % 2 else "")
        writer.ask("put", "0", content[:8])
        if turn % 2:
            writer.ask("put", str(len(before)), content[len(before) :])
        writer.ask("sync")
        if promise != "reopened":
            seen = reader.ask("read")
            possible = (before,) if promise == "kept" else (before, content)
            assert seen in possible, f"turn {turn}, before a sync of its own: {seen!r} and none of {possible}"
        sees(reader, f"turn {turn}, after the writer's sync")
        if reader.mode == "rw":
            content = content[:5] + "abc" + content[8:]
            reader.ask("put", "5", "abc")
            is_equal(reader.ask("read"), content, f"turn {turn}, its own write")
        elif reader.mode == "a":
            content += f"*{turn:03}"
            reader.ask("append", content[-4:])
            is_equal(reader.ask("read"), content, f"turn {turn}, its own append")
        else:
            continue
        reader.ask("sync")
        sees(writer, f"turn {turn}, after the other's sync")
    for process in (writer, reader):
        process.end()
    for process in (writer, reader):
        process.run("sh", "-c", '[ "$(cat "$1")" = "$2" ]', "_", process.path, content)


def main(promise, thalweg, *names):
    for first, second in (names, names[::-1]):
        doors = [split(name)[0] for name in (first, second)]
        for mode in MODES:
            when = WHEN[promise]
            name = f"a handle ({mode}, {doors[1]}) shows what another process ({doors[0]}) synced, {when}"
            try:
                writer, reader = Process(thalweg, first, "rw"), Process(thalweg, second, mode)
                turns(promise, writer, reader)
                print("ok", name, flush=True)
            except (AssertionError, OSError, subprocess.SubprocessError) as e:
                print("not ok", name, flush=True)
                print(e, file=sys.stderr)
        if doors[0] == doors[1]:
            break


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(*sys.argv[2:])
    else:
        main(*sys.argv[1:])
