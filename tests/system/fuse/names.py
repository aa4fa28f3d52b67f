#!/usr/bin/env python3
"""The same calls on a plain folder and on a mount: names, modes, owners, links, times, errors.

names.py PLAIN MOUNT LAYOUT

The plain filesystem says what is right. Each case runs in a fresh folder, as root and as another user, and each of its calls leaves a line:
what it returned, or the error's name. `ok`, or `not ok` with the lines that differ. What LAYOUT cannot is listed in EXCEPTIONS.
"""

import ctypes
import errno
import os
import shutil
import stat
import sys
import tempfile
import time

NOBODY, OTHER, GROUP = 65534, 65533, 65532
libc = ctypes.CDLL(None, use_errno=True)
NOREPLACE, EXCHANGE = 1, 2

CASES = []

# Lines that may differ: layout, case, a part of the line, why.
EXCEPTIONS = [
    ("*", "rename_flags", "exchange", "no layout exchanges two names at once"),
    ("*", "nodes", "fifo", "layouts keep files, folders and links: a pipe or a socket belongs elsewhere"),
    ("*", "chown", "chown f -1 -1 changed", "the kernel tells FUSE nothing of a chown that changes nothing"),
    ("container", "*", "unlink one of two changed d/h", "the file's own record does not know of its names"),
    ("container", "*", "link changed f", "the same"),
]


def case(body):
    CASES.append(body)
    return body


class Run:
    """A case in a folder: makes calls and keeps what came of them."""

    def __init__(self, folder, user):
        self.folder, self.user, self.lines, self.files = folder, user, [], []

    def at(self, name):
        return os.path.join(self.folder, name) if name != "" else ""

    def note(self, what, outcome):
        self.lines.append(f"{what}: {outcome}")

    def call(self, what, body):
        try:
            value = body()
        except OSError as e:
            self.note(what, errno.errorcode.get(e.errno, e.errno))
            return None
        self.note(what, "done" if value is None else value)
        return value

    def as_user(self, uid, gid=None, groups=()):
        """From here on as this user; 0 is root again."""
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(list(groups) if uid else [0])
        os.setegid(uid if gid is None else gid)
        os.seteuid(uid)

    # Calls.

    def open(self, name, flags, mode=0o644, keep=False):
        shown = "|".join(k for k in sorted(dir(os)) if k.startswith("O_") and k not in SAME and getattr(os, k) and
                         flags & getattr(os, k) == getattr(os, k))
        fd = None

        def body():
            nonlocal fd
            fd = os.open(self.at(name), flags, mode)
        self.call(f"open {brief(name)} {shown} {mode:o}", body)
        if fd is not None and not keep:
            os.close(fd)
            return None
        return fd

    def make(self, name, text=b"", mode=0o644):
        def body():
            fd = os.open(self.at(name), os.O_CREAT | os.O_WRONLY | os.O_EXCL, mode)
            os.write(fd, text)
            os.close(fd)
        self.call(f"make {brief(name)} {mode:o}", body)

    def write(self, name, text, offset=0):
        def body():
            fd = os.open(self.at(name), os.O_WRONLY)
            try:
                os.pwrite(fd, text, offset)
            finally:
                os.close(fd)
        self.call(f"write {brief(name)} at {offset}", body)

    def read(self, name):
        def body():
            fd = os.open(self.at(name), os.O_RDONLY)
            try:
                return os.read(fd, 1 << 16)
            finally:
                os.close(fd)
        return self.call(f"read {brief(name)}", body)

    def mkdir(self, name, mode=0o755):
        self.call(f"mkdir {brief(name)} {mode:o}", lambda: os.mkdir(self.at(name), mode))

    def rmdir(self, name):
        self.call(f"rmdir {brief(name)}", lambda: os.rmdir(self.at(name)))

    def unlink(self, name):
        self.call(f"unlink {brief(name)}", lambda: os.unlink(self.at(name)))

    def rename(self, a, b):
        self.call(f"rename {brief(a)} {brief(b)}", lambda: os.rename(self.at(a), self.at(b)))

    def rename2(self, a, b, flags, shown):
        def body():
            if libc.renameat2(-100, self.at(a).encode(), -100, self.at(b).encode(), flags):
                raise OSError(ctypes.get_errno(), "renameat2")
        self.call(f"{shown} {a} {b}", body)

    def link(self, a, b, follow=False):
        self.call(f"link {brief(a)} {brief(b)}", lambda: os.link(self.at(a), self.at(b), follow_symlinks=follow))

    def symlink(self, target, name):
        self.call(f"symlink {brief(target)} {brief(name)}", lambda: os.symlink(target, self.at(name)))

    def readlink(self, name):
        self.call(f"readlink {brief(name)}", lambda: brief(os.readlink(self.at(name))))

    def chmod(self, name, mode):
        self.call(f"chmod {brief(name)} {mode:o}", lambda: os.chmod(self.at(name), mode))

    def chown(self, name, uid, gid, follow=True):
        self.call(f"chown {brief(name)} {uid} {gid} {'' if follow else 'nofollow'}",
                  lambda: os.chown(self.at(name), uid, gid, follow_symlinks=follow))

    def truncate(self, name, length):
        self.call(f"truncate {brief(name)} {length}", lambda: os.truncate(self.at(name), length))

    def access(self, name, mode):
        self.call(f"access {brief(name)} {mode}",
                  lambda: os.access(self.at(name), mode, effective_ids=True))

    def utime(self, name, times):
        shown = "now" if times is None else times
        self.call(f"utime {brief(name)} {shown}",
                  lambda: os.utime(self.at(name)) if times is None else os.utime(self.at(name), ns=times))

    def list(self, name):
        self.call(f"list {brief(name)}", lambda: sorted(brief(n) for n in os.listdir(self.at(name) or self.folder)))

    def stat(self, name, follow=True):
        self.call(f"stat {brief(name)}", lambda: about(os.stat(self.at(name), follow_symlinks=follow)))

    def lstat(self, name):
        self.stat(name, False)

    def fstat(self, fd, shown):
        self.call(f"fstat {shown}", lambda: about(os.fstat(fd)))

    def changed(self, what, body, *names):
        """Which of the times that writes and changes set a call moves, of these names."""
        def times(name):
            try:
                a = os.lstat(self.at(name) if name else self.folder)
                return a.st_mtime_ns, a.st_ctime_ns
            except OSError:
                return None
        before = [times(name) for name in names]
        time.sleep(0.012)
        try:
            body()
        except OSError as e:
            self.note(what, errno.errorcode.get(e.errno, e.errno))
            return
        for name, old in zip(names, before, strict=True):
            new = times(name)
            moved = "gone or new" if old is None or new is None else "".join(
                k for k, x, y in zip("mc", old, new, strict=True) if y > x)
            self.note(f"{what} changed {name or '.'}", moved or "nothing")
            if old and new and (new[0] < old[0] or new[1] < old[1]) and "utime" not in what:
                self.note(f"{what} changed {name}", "went back")


SAME = {"O_RDONLY", "O_ACCMODE", "O_NDELAY", "O_CLOEXEC", "O_FSYNC", "O_LARGEFILE", "O_RSYNC", "O_NOCTTY"}
LONG = "n" * 255


def brief(name):
    return name if len(name) < 40 else f"{name[:3]}..({len(name)})"


def about(a):
    kind = stat.S_IFMT(a.st_mode) >> 12
    size = a.st_size if kind != 4 else "-"
    return f"kind {kind} mode {stat.S_IMODE(a.st_mode):o} links {a.st_nlink} user {a.st_uid} group {a.st_gid} size {size}"


@case
def open_flags(t):
    t.open("f", os.O_RDONLY)
    t.open("f", os.O_WRONLY)
    for mode in (0o644, 0o600, 0o777, 0o000, 0o4755, 0o2755, 0o1644):
        t.open(f"m{mode:o}", os.O_CREAT | os.O_WRONLY, mode)
        t.stat(f"m{mode:o}")
    fd = t.open("readonly", os.O_CREAT | os.O_RDWR | os.O_EXCL, 0o444, keep=True)
    t.call("write into a new read-only file", lambda: os.write(fd, b"text"))
    os.close(fd)
    t.read("readonly")
    t.make("f", b"twelve bytes")
    for flags in (os.O_CREAT | os.O_EXCL | os.O_WRONLY, os.O_RDWR, os.O_DIRECTORY, os.O_RDONLY | os.O_NOFOLLOW,
                  os.O_CREAT | os.O_RDONLY, os.O_WRONLY | os.O_APPEND, os.O_PATH):
        t.open("f", flags)
        t.stat("f")
    t.open("f", os.O_WRONLY | os.O_TRUNC)
    t.stat("f")
    t.write("f", b"again")
    t.open("f", os.O_RDONLY | os.O_TRUNC)
    t.stat("f")
    t.mkdir("d")
    for flags in (os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_CREAT | os.O_RDONLY, os.O_DIRECTORY,
                  os.O_CREAT | os.O_EXCL | os.O_WRONLY, os.O_RDONLY | os.O_TRUNC):
        t.open("d", flags)
    t.open("f/x", os.O_RDONLY)
    t.open("f/x", os.O_CREAT | os.O_WRONLY)
    t.open("no/x", os.O_CREAT | os.O_WRONLY)
    t.open("f/", os.O_RDONLY)
    t.open("d/", os.O_RDONLY)
    t.open("new/", os.O_CREAT | os.O_WRONLY)
    t.list("")


@case
def open_links(t):
    t.make("f", b"text")
    t.symlink("f", "l")
    t.symlink("gone", "dangling")
    t.symlink("loop", "loop")
    t.mkdir("d")
    t.symlink("d", "ld")
    for name in ("l", "dangling", "loop"):
        t.open(name, os.O_RDONLY)
        t.open(name, os.O_RDONLY | os.O_NOFOLLOW)
        t.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    t.open("dangling", os.O_CREAT | os.O_WRONLY)
    t.lstat("dangling")
    t.stat("gone")
    t.open("ld", os.O_DIRECTORY)
    t.open("ld", os.O_DIRECTORY | os.O_NOFOLLOW)
    t.make("ld/inside")
    t.list("d")
    t.stat("loop")
    t.lstat("loop")
    t.mkdir("loop")
    t.chmod("loop", 0o600)
    t.truncate("loop", 0)
    t.rename("loop", "loop2")
    t.readlink("loop2")
    t.unlink("loop2")


@case
def long_names(t):
    for name in (LONG, LONG + "n", "d/" * 2000 + "x", "d/" * 2100):
        t.make(name)
        t.stat(name)
        t.mkdir(name)
        t.symlink("x", name)
        t.rename(name, "other")
        t.unlink(name)
        t.open(name, os.O_RDONLY)
        t.truncate(name, 0)
        t.chmod(name, 0o600)
        t.readlink(name)
        t.unlink("other")
    t.symlink("t" * 4095, "longest")
    t.readlink("longest")
    t.lstat("longest")
    t.make("ü and spaces * ?")
    t.make("line\nbreak")
    t.list("")


@case
def folders(t):
    t.stat("")
    t.mkdir("d", 0o750)
    t.stat("d")
    t.mkdir("d")
    t.mkdir("d/e", 0o1777)
    t.stat("d/e")
    t.stat("d")
    t.make("f")
    t.mkdir("f")
    t.mkdir("f/x")
    t.mkdir("no/x")
    t.mkdir("x/")
    t.stat("x")
    for mode in (0o0, 0o777, 0o2755, 0o4755):
        t.mkdir(f"m{mode:o}", mode)
        t.stat(f"m{mode:o}")
    t.rmdir("f")
    t.rmdir("d")
    t.rmdir("no")
    t.rmdir("d/.")
    t.rmdir("d/e/..")
    t.unlink("d")
    t.rmdir("d/e")
    t.stat("d")
    t.rmdir("d")
    t.stat("d")
    t.mkdir("busy")
    os.chmod(t.at("m0") if os.path.exists(t.at("m0")) else t.at("x"), 0o700)
    t.list("")
    for n in range(120):
        os.mkdir(t.at(f"busy/{n}"))
    t.list("busy")
    t.stat("busy")


@case
def umask(t):
    old = os.umask(0o027)
    t.make("f", mode=0o666)
    t.mkdir("d", 0o777)
    t.symlink("x", "l")
    os.umask(old)
    t.stat("f")
    t.stat("d")
    t.lstat("l")


@case
def removal(t):
    t.make("f", b"text")
    t.unlink("f/")
    t.unlink("f")
    t.unlink("f")
    t.unlink("no/f")
    t.make("g")
    t.unlink("g/x")
    t.symlink("g", "l")
    t.unlink("l")
    t.stat("g")
    t.mkdir("d")
    t.changed("unlink", lambda: os.unlink(t.at("g")), "")
    t.make("d/h")
    t.link("d/h", "h2")
    t.changed("unlink one of two", lambda: os.unlink(t.at("h2")), "d/h", "")
    t.stat("d/h")


@case
def renames(t):
    t.make("f", b"file f")
    t.make("g", b"file g, longer")
    t.mkdir("d")
    t.mkdir("e")
    t.mkdir("full")
    t.make("full/x")
    for a, b in (("no", "x"), ("f", "no/x"), ("f", "d"), ("d", "f"), ("d", "full"), ("d", "d/x"), ("full", "full/x/y"),
                 ("f", "f"), ("d", "d"), ("f", "g/x"), ("f/x", "y"), ("f", "d/f"), ("d/f", "f"), ("d", "e"), ("f", "g"),
                 ("e", "new/"), ("new", "last"), ("g", "x/"), ("g/", "x"), ("full", "last")):
        t.rename(a, b)
    t.list("")
    t.read("g")
    t.stat("g")
    t.stat("last")
    t.symlink("g", "l")
    t.rename("l", "l2")
    t.readlink("l2")
    t.rename("g", "l2")
    t.lstat("l2")
    t.make("two")
    t.link("two", "names")
    t.rename("two", "names")
    t.list("")
    t.stat("names")
    t.rename(".", "x")
    t.rename("full/..", "x")
    t.mkdir("deep")
    t.mkdir("deep/er")
    t.make("deep/er/f", b"text")
    t.rename("deep", "moved")
    t.read("moved/er/f")
    t.stat("moved")
    t.rename("moved/er", "er")
    t.stat("moved")
    t.stat("")


@case
def rename_times(t):
    t.make("f")
    t.mkdir("a")
    t.mkdir("b")
    t.changed("rename", lambda: os.rename(t.at("f"), t.at("a/f")), "", "a")
    t.changed("rename across", lambda: os.rename(t.at("a/f"), t.at("b/f")), "a", "b", "")


@case
def rename_flags(t):
    t.make("f", b"f")
    t.make("g", b"g")
    t.rename2("f", "g", NOREPLACE, "noreplace")
    t.rename2("f", "h", NOREPLACE, "noreplace")
    t.read("h")
    t.list("")
    t.rename2("h", "g", EXCHANGE, "exchange")


@case
def hard_links(t):
    t.make("f", b"text")
    t.mkdir("d")
    t.link("f", "g")
    t.stat("f")
    t.stat("g")
    t.call("same number", lambda: os.stat(t.at("f")).st_ino == os.stat(t.at("g")).st_ino)
    t.link("f", "g")
    t.link("no", "x")
    t.link("d", "x")
    t.link("f", "no/x")
    t.link("f", "d/f")
    t.link("f", "f/x")
    t.stat("f")
    t.write("d/f", b"TEXT")
    t.read("f")
    t.chmod("g", 0o600)
    t.stat("f")
    t.changed("link", lambda: os.link(t.at("f"), t.at("d/more")), "f", "d")
    t.unlink("f")
    t.stat("g")
    t.symlink("g", "l")
    t.link("l", "l2")
    t.lstat("l2")
    t.lstat("l")


@case
def symbolic_links(t):
    t.symlink("", "empty")
    t.symlink("target", "l")
    t.lstat("l")
    t.symlink("x", "l")
    t.symlink("x", "no/l")
    t.readlink("l")
    t.make("f")
    t.readlink("f")
    t.mkdir("d")
    t.readlink("d")
    t.readlink("no")
    t.symlink("../f", "d/up")
    t.stat("d/up")
    t.symlink("/", "root")
    t.call("stat root/usr", lambda: stat.S_ISDIR(os.stat(t.at("root/usr")).st_mode))
    t.chown("l", NOBODY if t.user else OTHER, -1, follow=False)
    t.lstat("l")
    t.changed("symlink", lambda: os.symlink("x", t.at("d/new")), "d")


@case
def modes(t):
    t.make("f", b"text")
    t.mkdir("d")
    for mode in (0o000, 0o777, 0o644, 0o4755, 0o2755, 0o6755, 0o1644, 0o7777):
        t.chmod("f", mode)
        t.stat("f")
        t.chmod("d", mode | 0o700)
        t.stat("d")
    t.chmod("no", 0o644)
    t.chmod("f/x", 0o644)
    t.changed("chmod", lambda: os.chmod(t.at("f"), 0o640), "f", "")
    t.symlink("f", "l")
    t.chmod("l", 0o604)
    t.stat("f")
    fd = t.open("f", os.O_RDONLY, keep=True)
    t.call("fchmod", lambda: os.fchmod(fd, 0o755))
    t.fstat(fd, "f")
    os.close(fd)


@case
def chown(t):
    t.make("f", b"text", 0o755)
    t.mkdir("d")
    t.chown("f", OTHER, GROUP)
    t.stat("f")
    t.chown("f", -1, t.user)
    t.stat("f")
    t.chown("f", t.user, -1)
    t.stat("f")
    t.changed("chown", lambda: t.chown("f", t.user, t.user), "f")
    t.changed("chown f -1 -1", lambda: t.chown("f", -1, -1), "f")
    t.chmod("f", 0o6755)
    t.chown("f", t.user, t.user)
    t.stat("f")
    t.chmod("f", 0o2644)
    t.chown("f", t.user, t.user)
    t.stat("f")
    t.chmod("d", 0o2755)
    t.chown("d", t.user, t.user)
    t.stat("d")
    t.chown("no", 1, 1)


@case
def special_bits_and_writes(t):
    for mode in (0o4755, 0o2755, 0o6755, 0o2644):
        name = f"f{mode:o}"
        t.make(name, b"text")
        t.chmod(name, mode)
        t.write(name, b"more")
        t.stat(name)
        t.chmod(name, mode)
        t.truncate(name, 2)
        t.stat(name)


@case
def lengths(t):
    t.make("f", b"0123456789")
    for length in (4, 20, 0, 5_000_000_000, 3):
        t.truncate("f", length)
        t.stat("f")
    t.read("f")
    t.truncate("no", 0)
    t.mkdir("d")
    t.truncate("d", 0)
    t.truncate("f", -1)
    fd = t.open("f", os.O_RDONLY, keep=True)
    t.call("ftruncate of a descriptor that reads", lambda: os.ftruncate(fd, 0))
    t.call("write to a descriptor that reads", lambda: os.write(fd, b"x"))
    os.close(fd)
    fd = t.open("f", os.O_WRONLY, keep=True)
    t.call("read from a descriptor that writes", lambda: os.read(fd, 1))
    t.call("ftruncate", lambda: os.ftruncate(fd, 7))
    t.fstat(fd, "f")
    t.call("seek behind the end", lambda: os.lseek(fd, 100, os.SEEK_SET))
    t.call("write there", lambda: os.write(fd, b"end"))
    t.call("seek to the end", lambda: os.lseek(fd, 0, os.SEEK_END))
    os.close(fd)
    t.read("f")
    fd = t.open("f", os.O_RDWR | os.O_APPEND, keep=True)
    t.call("append", lambda: os.pwrite(fd, b"A", 0))
    t.fstat(fd, "f")
    os.close(fd)
    t.chmod("f", 0o444)
    t.truncate("f", 1)
    t.changed("truncate", lambda: t.truncate("f", 9), "f")


@case
def writes_and_times(t):
    t.make("f", b"text")
    t.changed("write", lambda: t.write("f", b"T"), "f", "")
    t.changed("read", lambda: t.read("f"), "f")
    t.changed("make", lambda: t.make("g"), "")
    t.changed("mkdir", lambda: t.mkdir("d"), "")
    t.changed("rmdir", lambda: t.rmdir("d"), "")
    fd = t.open("f", os.O_WRONLY, keep=True)
    t.changed("write of nothing", lambda: os.write(fd, b""), "f")
    t.changed("write while open", lambda: os.write(fd, b"more"), "f")
    t.changed("close", lambda: os.close(fd), "f")


@case
def set_times(t):
    t.make("f")
    t.mkdir("d")
    for name in ("f", "d"):
        t.utime(name, (1_000_000_000_123_456_789, 1_234_567_890_987_654_321))
        t.call("times", lambda name=name: (os.stat(t.at(name)).st_atime_ns, os.stat(t.at(name)).st_mtime_ns))
        t.changed(f"utime {name}", lambda name=name: os.utime(t.at(name), ns=(5, 7)), name)
    t.call("times", lambda: (os.stat(t.at("f")).st_atime_ns, os.stat(t.at("f")).st_mtime_ns))
    t.utime("f", (-2_000_000_000, -1_000_000_000))
    t.call("times", lambda: os.stat(t.at("f")).st_mtime_ns)
    t.changed("utime now", lambda: t.utime("f", None), "f")
    t.utime("no", None)
    t.write("f", b"text")
    t.call("a write after it", lambda: abs(os.stat(t.at("f")).st_mtime - time.time()) < 5)
    t.symlink("f", "l")
    t.call("utime of the link itself", lambda: os.utime(t.at("l"), ns=(3, 4), follow_symlinks=False))
    t.call("times of the link", lambda: os.lstat(t.at("l")).st_mtime_ns)


@case
def removed_and_open(t):
    t.make("f", b"text")
    fd = t.open("f", os.O_RDWR, keep=True)
    reader = t.open("f", os.O_RDONLY, keep=True)
    t.unlink("f")
    t.fstat(fd, "removed")
    t.call("read", lambda: os.pread(reader, 10, 0))
    t.call("write", lambda: os.pwrite(fd, b"more text", 4))
    t.fstat(reader, "removed")
    t.call("read what was written", lambda: os.pread(reader, 20, 0))
    t.call("ftruncate", lambda: os.ftruncate(fd, 6))
    t.fstat(fd, "removed")
    t.call("fchmod", lambda: os.fchmod(fd, 0o600))
    t.fstat(fd, "removed")
    t.call("futimes", lambda: os.utime(fd, ns=(5, 1_000_000_007)))
    t.call("times", lambda: os.fstat(fd).st_mtime_ns)
    t.call("fsync", lambda: os.fsync(fd))
    t.make("f", b"another")
    t.call("read the old one", lambda: os.pread(reader, 20, 0))
    t.read("f")
    os.close(fd)
    os.close(reader)
    t.make("g", b"old")
    fd = t.open("g", os.O_RDWR, keep=True)
    t.make("h", b"new one")
    t.rename("h", "g")
    t.call("read what was replaced", lambda: os.pread(fd, 20, 0))
    t.fstat(fd, "replaced")
    t.read("g")
    t.rename("g", "i")
    os.close(fd)
    fd = t.open("i", os.O_RDWR, keep=True)
    t.rename("i", "j")
    t.call("write under a new name", lambda: os.write(fd, b"moved"))
    t.fstat(fd, "renamed")
    os.close(fd)
    t.read("j")
    t.list("")


@case
def folders_in_use(t):
    t.mkdir("d")
    fd = t.open("d", os.O_RDONLY, keep=True)
    t.rmdir("d")
    t.call("links of a removed folder", lambda: os.fstat(fd).st_nlink)
    t.call("names in it", lambda: os.listdir(fd))
    t.call("make a file in it", lambda: os.close(os.open("x", os.O_CREAT | os.O_WRONLY, dir_fd=fd)))
    os.close(fd)
    t.mkdir("e")
    fd = t.open("e", os.O_RDONLY, keep=True)
    t.rename("e", "g")
    t.call("make a file in a renamed one", lambda: os.close(os.open("x", os.O_CREAT | os.O_WRONLY, dir_fd=fd)))
    t.list("g")
    os.close(fd)


@case
def extended_attributes(t):
    t.make("f")
    t.mkdir("d")
    for name in ("f", "d"):
        at = t.at(name)
        t.call("setxattr", lambda at=at: os.setxattr(at, "user.one", b"value"))
        t.call("getxattr", lambda at=at: os.getxattr(at, "user.one"))
        t.call("setxattr new", lambda at=at: os.setxattr(at, "user.one", b"x", os.XATTR_CREATE))
        t.call("setxattr existing", lambda at=at: os.setxattr(at, "user.two", b"x", os.XATTR_REPLACE))
        t.call("setxattr of 3000 bytes", lambda at=at: os.setxattr(at, "user.long", b"x" * 3000))
        t.call("getxattr of 3000 bytes", lambda at=at: len(os.getxattr(at, "user.long")))
        t.call("setxattr empty", lambda at=at: os.setxattr(at, "user.empty", b""))
        t.call("listxattr", lambda at=at: sorted(os.listxattr(at)))
        t.call("removexattr", lambda at=at: os.removexattr(at, "user.one"))
        t.call("removexattr", lambda at=at: os.removexattr(at, "user.one"))
        t.call("getxattr gone", lambda at=at: os.getxattr(at, "user.one"))
        t.call("setxattr without a space", lambda at=at: os.setxattr(at, "one", b"x"))
        t.call("getxattr of nothing there", lambda: os.getxattr(t.at("no"), "user.one"))
    t.changed("setxattr", lambda: os.setxattr(t.at("f"), "user.two", b"2") if t.lines[-1] else None, "f")


@case
def nodes(t):
    t.call("regular by mknod", lambda: os.mknod(t.at("f"), stat.S_IFREG | 0o640))
    t.stat("f")
    t.call("mknod of what is there", lambda: os.mknod(t.at("f"), stat.S_IFREG | 0o640))
    t.call("fifo", lambda: os.mkfifo(t.at("p")))


@case
def lists(t):
    t.list("no")
    t.make("f")
    t.list("f")
    for n in range(300):
        os.close(os.open(t.at(f"file {n:04}"), os.O_CREAT | os.O_WRONLY, 0o644))
    t.list("")
    for n in range(0, 300, 3):
        os.unlink(t.at(f"file {n:04}"))
    t.list("")
    names = [entry.name for entry in os.scandir(t.folder) if entry.is_file()]
    t.call("kinds are told", lambda: len(names))
    t.call("numbers agree", lambda: all(
        entry.inode() == os.stat(entry.path).st_ino for entry in os.scandir(t.folder)))


@case
def access_checks(t):
    t.make("f", b"text", 0o640)
    for mode in (os.F_OK, os.R_OK, os.W_OK, os.X_OK, os.R_OK | os.W_OK):
        t.access("f", mode)
        t.access("no", mode)
    t.chmod("f", 0o100)
    for mode in (os.R_OK, os.W_OK, os.X_OK):
        t.access("f", mode)
    t.open("f", os.O_RDONLY)
    t.chmod("f", 0o200)
    t.open("f", os.O_RDONLY)
    t.open("f", os.O_WRONLY)


@case
def other_users(t):
    """Of root's alone: what belongs to one user, another one tries."""
    if t.user:
        return
    os.chmod(t.folder, 0o777)
    t.make("root's", b"text", 0o600)
    t.make("public", b"text", 0o666)
    t.make("program", b"text", 0o755)
    t.mkdir("closed", 0o700)
    t.make("closed/f")
    t.mkdir("seen", 0o755)
    t.make("seen/f", b"text", 0o644)
    t.mkdir("blind", 0o711)
    t.make("blind/f", b"text", 0o644)
    t.mkdir("sticky", 0o755)
    t.chmod("sticky", 0o1777)
    t.make("sticky/root's", mode=0o666)
    t.mkdir("shared", 0o755)
    t.chmod("shared", 0o2777)
    t.chown("shared", 0, GROUP)
    t.make("group's", b"text", 0o640)
    t.chown("group's", 0, GROUP)
    for uid, groups in ((NOBODY, ()), (OTHER, (GROUP,))):
        t.as_user(uid, groups=groups)
        for name in ("root's", "public", "closed/f", "seen/f", "blind/f", "group's"):
            t.open(name, os.O_RDONLY)
            t.open(name, os.O_WRONLY)
            t.stat(name)
            t.truncate(name, 4)
            t.chmod(name, 0o777)
            t.chown(name, uid, -1)
            t.utime(name, None)
            t.utime(name, (1, 2))
            t.access(name, os.R_OK | os.W_OK)
        for name in ("closed", "seen", "blind", "sticky", "shared"):
            t.list(name)
            t.make(f"{name}/by {uid}")
            t.stat(f"{name}/by {uid}")
            t.mkdir(f"{name}/folder by {uid}", 0o775)
            t.stat(f"{name}/folder by {uid}")
            t.symlink("x", f"{name}/link by {uid}")
            t.lstat(f"{name}/link by {uid}")
            t.unlink(f"{name}/f")
            t.rename(f"{name}/f", f"{name}/g")
        t.unlink("sticky/root's")
        t.rename("sticky/root's", "sticky/mine")
        t.unlink(f"sticky/by {NOBODY}")
        t.rmdir(f"sticky/folder by {NOBODY}")
        t.link("public", f"public by {uid}")
        t.link("root's", f"link by {uid}")
        t.rename("root's", f"renamed by {uid}")
        t.rename(f"renamed by {uid}", "root's")
        t.make(f"own {uid}", b"text")
        t.chmod(f"own {uid}", 0o6777)
        t.stat(f"own {uid}")
        t.chown(f"own {uid}", 0, -1)
        t.chown(f"own {uid}", -1, GROUP)
        t.stat(f"own {uid}")
        t.chmod(f"own {uid}", 0o2755)
        t.stat(f"own {uid}")
        t.write("program", b"x")
        # A program that another may write loses its special bits by that.
        t.as_user(0)
        t.chmod("public", 0o6777)
        t.as_user(uid, groups=groups)
        t.write("public", b"x")
        t.stat("public")
        t.as_user(0)
        t.chmod("public", 0o666)


@case
def space(t):
    s = os.statvfs(t.folder)
    t.call("longest name", lambda: s.f_namemax)
    t.call("some room", lambda: s.f_blocks >= s.f_bfree >= s.f_bavail > 0)


@case
def descriptors(t):
    fd = t.open("f", os.O_CREAT | os.O_RDWR, keep=True)
    other = os.dup(fd)
    t.call("write", lambda: os.write(fd, b"0123456789"))
    t.call("close one", lambda: os.close(fd))
    t.call("write by the other", lambda: os.write(other, b"abc"))
    t.call("read", lambda: os.pread(other, 20, 0))
    os.close(other)
    t.read("f")
    import mmap
    fd = os.open(t.at("f"), os.O_RDWR)
    with mmap.mmap(fd, 13) as memory:
        t.call("mapped", lambda: bytes(memory[:13]))

        def change():
            memory[0:4] = b"MAPS"
            memory.flush()
        t.call("write through a mapping", change)
    os.close(fd)
    t.read("f")
    a, b = os.open(t.at("f"), os.O_RDWR), os.open(t.at("f"), os.O_RDONLY)
    t.call("write by one", lambda: os.pwrite(a, b"seen", 0))
    t.call("read by another", lambda: os.pread(b, 4, 0))
    os.close(a)
    os.close(b)


def run(body, root, user):
    folder = tempfile.mkdtemp(dir=root)
    os.chmod(folder, 0o755)
    os.chown(folder, user, user)
    t = Run(folder, user)
    old = os.umask(0o022)
    try:
        t.as_user(user)
        body(t)
    finally:
        t.as_user(0)
        os.umask(old)
        shutil.rmtree(folder, ignore_errors=True)
    return t.lines


def excused(layout, name, line):
    return any(of in ("*", layout) and which in ("*", name) and part in line for of, which, part, _ in EXCEPTIONS)


def main():
    plain, mount, layout = sys.argv[1:4]
    wanted = sys.argv[4:]
    users = (0, NOBODY) if os.geteuid() == 0 else (os.geteuid(),)
    failed, calls = 0, 0
    for body in CASES:
        if wanted and body.__name__ not in wanted:
            continue
        for user in users:
            right, found = run(body, plain, user), run(body, mount, user)
            calls += len(right)
            wrong = [(r, f) for r, f in zip(right, found, strict=False)
                     if r != f and not excused(layout, body.__name__, r)]
            if len(right) != len(found):
                wrong.append((f"{len(right)} lines", f"{len(found)} lines"))
            name = f"{layout} {body.__name__} {'root' if user == 0 else 'another user'}"
            print("not ok" if wrong else "ok", name)
            failed += bool(wrong)
            for r, f in wrong[:12]:
                print(f"  {r}\n    but {f.rsplit(': ', 1)[-1]}")
    print(f"{calls} calls compared on {layout}")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
