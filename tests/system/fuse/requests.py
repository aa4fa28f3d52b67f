"""What a mount is asked for while a program works on it.

    requests.py POINT

Makes, reads, lists, removes and clones files at POINT, and prints for each operation the kernel's requests to the FUSE server, and
how often the server named a file in a system call (`names`) and looked at an open file (`looks`): counts per file, rounded; of a
list, all requests; of a clone, requests per ten files. Seen by strace: no clock decides anything.
"""
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

FILES = 100
WORDS = {1: "lookup", 2: "forget", 3: "getattr", 4: "setattr", 9: "mkdir", 10: "unlink", 12: "rename", 14: "open", 15: "read", 16: "write", 18: "release",
         22: "getxattr", 25: "flush", 27: "opendir", 28: "readdir", 29: "releasedir", 35: "create", 42: "forgets", 44: "readdirplus"}

[point] = sys.argv[1:]
process = os.getxattr(point, "user.thalweg.process").decode()
folder = os.path.join(point, "asked")
names = [os.path.join(folder, f"file.{n}") for n in range(FILES)]


def watched(work):
    with tempfile.NamedTemporaryFile("r") as log:
        strace = subprocess.Popen(["strace", "-f", "-qq", "-xx", "-s", "8", "-o", log.name, "-e", "trace=read,%file,lgetxattr", "-p", process])
        while "read(" not in log.read():
            time.sleep(0.01)
        work()
        # What nobody waits for is on its way.
        time.sleep(1)
        strace.terminate()
        strace.wait()
        log.seek(0)
        asked, named, looks = collections.Counter(), 0, 0
        for line in log:
            if re.search(r"[0-9]+ +(read\(|<\.\.\. read resumed)", line):
                told = re.search(r'"((?:\\x[0-9a-f]{2}){8})"\.*, [0-9]+\) += [0-9]+$', line)
                if told:
                    asked[WORDS.get(bytes.fromhex(told[1].replace("\\x", ""))[4], "other")] += 1
            # A call counts where it begins: several threads call at once.
            elif "resumed>" in line or line.rstrip().endswith("+++"):
                continue
            elif "AT_EMPTY_PATH" in line:
                looks += 1
            else:
                named += 1
        return asked, named, looks


def make():
    for name in names:
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        os.write(fd, b"x" * 1024)
        os.close(fd)


def read():
    for name in names:
        fd = os.open(name, os.O_RDONLY)
        assert len(os.read(fd, 1024)) == 1024
        os.close(fd)


def show():
    # As `ls -l`.
    assert [entry.stat(follow_symlinks=False).st_size for entry in os.scandir(folder)] == [1024] * FILES


def git(*arguments):
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e", "-c", "gc.auto=0", *arguments], check=True, env=environment)


def repository(at):
    git("init", "-q", at)
    for n in range(FILES):
        os.makedirs(f"{at}/folder.{n % 5}", exist_ok=True)
        with open(f"{at}/folder.{n % 5}/file.{n}", "w") as file:
            file.write(f"{n}\n" * 100)
    git("-C", at, "add", ".")
    git("-C", at, "commit", "-q", "-m", "files")


def clone():
    git("clone", "-q", "--no-hardlinks", source, os.path.join(point, "counted-clone"))


os.mkdir(folder)
works = [("make", make), ("read", read), ("show", show), ("remove", lambda: [os.unlink(name) for name in names])]
if shutil.which("git"):
    source = tempfile.mkdtemp()
    repository(source)
    works.append(("clone", clone))
for what, work in works:
    asked, named, looks = watched(work)
    each = {"show": 1, "clone": FILES / 10}.get(what, FILES)
    for word, count in sorted(asked.items()):
        if round(count / each) or what == "show":
            print(what, word, round(count / each))
    each = {"clone": FILES / 10}.get(what, FILES)
    print(what, "names", round(named / each))
    print(what, "looks", round(looks / each))
    # What the kernel keeps of a name for a second is forgotten.
    time.sleep(1.2)
os.rmdir(folder)
if shutil.which("git"):
    shutil.rmtree(source)
    shutil.rmtree(os.path.join(point, "counted-clone"))
