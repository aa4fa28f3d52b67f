"""What `bpls` of ADIOS 1.13 shows, taken apart."""

import os
import re
import shutil
import subprocess

PROGRAM = shutil.which("bpls")
TYPES = ("unsigned byte|unsigned short|unsigned integer|unsigned long long|byte|short|integer|long long|real|long double|double complex|"
         r"double|complex|string|char\*\[\]")
HEAD = re.compile(rf"^  ({TYPES})\s+(.*?)\s+(attr|(?:\d+\*)?(?:scalar|\{{[\d, ]*\}}))(?:\s+= (.*))?$")
# What shows every bit. Whole numbers are shown so by themselves.
FORMATS = {"real": "%.9g", "double": "%.17g", "complex": "(%.9g,i%.9g)", "double complex": "(%.17g,i%.17g)"}


def attempt(*arguments):
    """Its exit code, what it prints, and what it complains about. Memory that it never set holds no zeros."""
    environment = os.environ | {"MALLOC_PERTURB_": "165", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, env=environment)
    return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace").strip()


def run(*arguments):
    """What it prints. Fails where it fails or complains."""
    code, text, complaint = attempt(*arguments)
    if code != 0 or complaint:
        raise AssertionError(f"bpls {' '.join(arguments)}: code {code}: {complaint}")
    return text


def listing(path, *options):
    """Name: (type, steps, dimensions or "scalar" or "attr", what stands behind the equal sign)."""
    out = {}
    for line in run(*options, path).splitlines():
        if found := HEAD.match(line):
            kind, name, form, rest = found.groups()
            steps, form = form.split("*") if "*" in form else ("1", form)
            dimensions = [int(n) for n in form[1:-1].split(",")] if form.startswith("{") else form
            out[name] = (kind, int(steps), dimensions, rest)
    return out


def dump(path, kind, names):
    """Name: values as text, over all steps, of variables of one type."""
    out, current = {}, None
    form = ["-f", FORMATS[kind]] if kind in FORMATS else []
    for pattern in patterns(names):
        for line in run("-d", "-e", path, "-n", "1", *form, pattern).splitlines():
            if found := HEAD.match(line):
                current = out.setdefault(found.group(2), [])
            elif line.strip():
                current.append(re.sub(r"^\s*\([\d ,]+\)    ", "", line).strip())
    return out


def patterns(names):
    """Expressions that match these names: it takes ten patterns of 256 bytes, and one without a slash in front spoils others."""
    some = []
    for name in names:
        name = re.sub(r"([.\[\](){}*+?^$|\\])", r"\\\1", name)
        if some and len("|".join(some + [name]).encode()) > 200:
            yield f"^({'|'.join(some)})$"
            some = []
        some.append(name)
    if some:
        yield f"^({'|'.join(some)})$"


def number(kind, text):
    """A value it shows."""
    if "complex" in kind:
        return complex(*map(float, text.strip("()").split(",i")))
    return float(text) if kind in ("real", "double") else int(text)


def decomposition(path):
    """Name: for each step, its blocks as lists of (first, extent) per dimension; for scalars the number of values."""
    out, current = {}, None
    for line in run("-D", path).splitlines():
        if found := HEAD.match(line):
            current = out.setdefault(found.group(2), [])
        elif re.match(r"^\s+step\s+\d+:", line):
            values = re.search(r"(\d+) instances? available", line)
            current.append(int(values.group(1)) if values else [])
        elif found := re.match(r"^\s+block\s+\d+: \[(.*)\]", line):
            box = []
            for part in found.group(1).split(","):
                first, _, last = part.partition(":")
                box.append(None if first.strip() == "null" else (int(first), int(last) - int(first) + 1))
            current[-1].append(box)
    return out
