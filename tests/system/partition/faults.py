"""Each sort of system call of a partition's servers fails once, while a program uses a file: see tests/system/partition_faults.sh.

    faults.py THALWEG FOLDER CONFIGURATION ROOT [staged]    judges; prints "ok NAME" or "not ok NAME (why)" for each sort of calls;
                                              ROOT: the mount; staged: what is closed is held by the server, and stored later
    faults.py client STEP...                  the program: prints what each of its steps got
"""

import errno, hashlib, json, os, signal, subprocess, sys, time

PATIENCE = 60  # seconds for a program that takes one
SIZE = 700_000
SYNCED = SIZE + SIZE // 2  # bytes of the file after its second sync
CUT = 5000
# Calls on the storage and on names, and their errors; connections; threads and memory.
CALLS = [
    ("openat", "EIO"), ("openat", "EMFILE"), ("pwrite64", "EIO"), ("pwrite64", "ENOSPC"), ("pwritev", "EIO"), ("pread64", "EIO"),
    ("preadv", "EIO"), ("fsync", "EIO"), ("fdatasync", "EIO"), ("ftruncate", "EIO"), ("fallocate", "EIO"),
    ("rename", "EIO"), ("renameat", "EIO"), ("renameat2", "EIO"), ("linkat", "EIO"), ("unlinkat", "EIO"), ("unlink", "EIO"),
    ("mkdirat", "EIO"), ("mkdir", "EIO"), ("statx", "EIO"), ("fstat", "EIO"), ("newfstatat", "EIO"), ("getdents64", "EIO"),
    ("utimensat", "EIO"), ("fchmod", "EIO"), ("fchmodat", "EIO"), ("fcntl", "EIO"), ("close", "EIO"),
    ("accept4", "EMFILE"), ("recvfrom", "ECONNRESET"), ("sendmsg", "ECONNRESET"), ("process_vm_readv", "EFAULT"),
    ("clone3", "EAGAIN"), ("mmap", "ENOMEM"),
]


def content(seed, length=SIZE):
    block = hashlib.sha256(str(seed).encode()).digest()
    return (block * (length // len(block) + 1))[:length]


# The steps of the program. Each one tells an error or what it read; `path` is a new one for each fault.
def steps(path):
    old, new, more = content(1), content(2), content(3, 90_000)
    file = None

    def opened(name, flags=os.O_RDWR):
        return os.open(name, flags, 0o640)

    def create():
        file = opened(path, os.O_RDWR | os.O_CREAT)
        try:
            assert os.pwrite(file, old, 0) == len(old)
            os.fsync(file)
        finally:
            os.close(file)

    def again():
        file = opened(path)
        try:
            assert os.pwrite(file, new, SIZE // 2) == len(new)
            os.fsync(file)
        finally:
            os.close(file)

    def append():
        file = opened(path, os.O_WRONLY | os.O_APPEND)
        try:
            assert os.write(file, more) == len(more)
        finally:
            os.close(file)

    def read(length=None):
        with open(path, "rb") as file:
            return hashlib.sha256(file.read(length)).hexdigest()

    def cut():
        file = opened(path + ".cut", os.O_RDWR | os.O_CREAT)
        try:
            assert os.pwrite(file, old, 0) == len(old)
            os.ftruncate(file, CUT)
            os.fsync(file)
        finally:
            os.close(file)

    def folder():
        os.mkdir(path + ".d")
        os.rename(path, path + ".d/x")
        assert os.listdir(path + ".d") == ["x"]
        os.rename(path + ".d/x", path)
        os.rmdir(path + ".d")

    return [
        ("create", create), ("again", again), ("append", append), ("read", read),
        ("stat", lambda: os.stat(path).st_size), ("chmod", lambda: os.chmod(path, 0o600)), ("folder", folder),
        ("cut", cut), ("synced", lambda: read(SYNCED)), ("size", lambda: os.stat(path + ".cut").st_size),
        ("remove", lambda: os.remove(path)), ("remove cut", lambda: os.remove(path + ".cut")),
    ]


def client(path, *wanted):
    known = dict(steps(path))
    for name in wanted:
        try:
            got = known[name]()
        except OSError as e:
            got = f"error {errno.errorcode.get(e.errno, e.errno)}"
        print(json.dumps([name, got]), flush=True)


def run(words, **more):
    return subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE, **more)


class Judge:
    def __init__(self, thalweg, folder, configuration, root, staged=""):
        self.thalweg, self.folder, self.configuration, self.root, self.staged = thalweg, folder, configuration, root, bool(staged)
        self.number, self.hit, self.told, self.borne = 0, 0, 0, 0

    def partition(self, *words):
        done = run([self.thalweg, "partition", words[0], self.configuration, *words[1:]])
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    def pids(self):
        # Its exit status is another one where a server has ended.
        told = run([self.thalweg, "partition", "status", self.configuration, "--json"]).stdout
        return [server["pid"] for server in json.loads(told)["servers"] if server.get("pid")]

    def restart(self):
        """Kills the servers, and starts them again."""
        pids = self.pids()
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        for _ in range(1000):
            if not any(os.path.exists(f"/proc/{pid}") for pid in pids):
                break
            time.sleep(0.01)
        self.partition("start")

    def program(self, path, *wanted):
        done = run([self.thalweg, "run", "--", sys.executable, __file__, "client", path, *wanted])
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        assert [line[0] for line in lines] == list(wanted), (wanted, done.returncode, done.stdout, done.stderr)
        return dict(lines), done.stderr

    def fails_once(self, server, call, error, when):
        """Whether such a call was made; asserts what must hold then."""
        self.number += 1
        path = f"{self.root}/f{self.number}"
        log = f"{self.folder}/strace.log"
        pids = self.pids()
        open(log, "w").close()
        tracer = subprocess.Popen(
            ["strace", "-f", "-qq", "-o", log, "-e", f"trace={call}", "-e", f"inject={call}:error={error}:when={when}", "-p", str(pids[server])],
            stderr=subprocess.PIPE, text=True)
        for _ in range(500):
            if tracer.poll() is not None:
                return None  # No such call on this machine.
            tracers = [open(f"/proc/{pids[server]}/task/{task}/status").read() for task in os.listdir(f"/proc/{pids[server]}/task")]
            if all(f"TracerPid:\t{tracer.pid}\n" in text for text in tracers):
                break
            time.sleep(0.01)
        try:
            got, said = self.program(path, "create", "again", "append", "read", "stat", "chmod", "folder", "cut")
        finally:
            tracer.send_signal(signal.SIGINT)
            tracer.wait(PATIENCE)
        hit = "INJECTED" in open(log).read()
        errors = {name: text for name, text in got.items() if str(text).startswith("error")}
        where = f"server {server}, {call} {when} {error}, {got}"
        assert hit or not errors, f"an error without a fault: {where} {said}"
        # What was read, and the length, are those of the steps that succeeded.
        whole = content(1)[: SIZE // 2] + content(2) + content(3, 90_000)
        sums = {length: hashlib.sha256(whole[:length]).hexdigest() for length in (SYNCED, len(whole))}
        written = not {"create", "again", "append"} & errors.keys()
        if written:
            assert got["read"] == sums[len(whole)] or "read" in errors, f"other bytes, and no error: {where}"
            assert got["stat"] == len(whole) or "stat" in errors, f"another length, and no error: {where}"
        # What was synced or closed is in the storage, and nothing is left that makes the next program fail.
        if hit:
            self.restart()
            checked = run([self.thalweg, "partition", "check", self.configuration]).stdout
            assert self.staged or "objects at the servers" in checked and "cannot be used" not in checked, f"{checked}: {where}"
            wanted = [("synced", not {"create", "again", "folder"} & errors.keys(), sums[SYNCED])]
            # What was closed and is held ends with the server.
            wanted += [("read", written and not self.staged and "folder" not in errors, sums[len(whole)])]
            wanted += [("size", "cut" not in errors, CUT)]
            wanted = {name: value for name, sure, value in wanted if sure}
            after, _ = self.program(path, *wanted)
            assert after == wanted, f"after a restart {after}, not {wanted}: {where}"
        self.program(path, "remove", "remove cut")
        self.hit += hit
        self.told += hit and bool(errors)
        self.borne += hit and not errors
        return hit

    def judge(self, thin):
        for server in range(len(self.pids())):
            for call, error in CALLS:
                name = f"{'staging ' if self.staged else ''}server {server}: {call} fails with {error}"
                if os.environ.get("ONLY", "") not in name:
                    continue
                self.hit = self.told = self.borne = 0
                try:
                    when = 1
                    while (made := self.fails_once(server, call, error, when)):
                        when += thin if when > 1 else 1
                    if self.hit:
                        print(f"ok {name}: {self.told} of {self.hit} told, {self.borne} made no difference", flush=True)
                except (AssertionError, subprocess.TimeoutExpired) as e:
                    print(f"not ok {name} ({str(e)[:700]})", flush=True)
                    self.restart()


if sys.argv[1] == "client":
    client(*sys.argv[2:])
else:
    Judge(*sys.argv[1:]).judge(int(os.environ.get("THIN", "60")))
