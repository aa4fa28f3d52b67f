"""Files written by the library for these tests, and what they must hold.

The example `everything` of crates/io writes them; its manifests have the form that tests/fixtures/foreign/manifest.py describes.
"""

import functools
import json
import os
import subprocess

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TEXTS = {"NaN": np.nan, "Infinity": np.inf, "-Infinity": -np.inf}
NUMPY = {"byte": "i1", "short": "i2", "integer": "i4", "long long": "i8", "unsigned byte": "u1", "unsigned short": "u2",
         "unsigned integer": "u4", "unsigned long long": "u8", "real": "f4", "double": "f8", "long double": "f8", "complex": "c8",
         "double complex": "c16", "char": "i1"}


# As scripts/build.sh builds it: with one set of features for every library.
EVERYTHING = "source scripts/build.sh; exec \"$@\" \"${everything[@]}\" \"${features[@]}\""


@functools.cache
def program():
    """The example, built if need be."""
    command = ["bash", "-euc", EVERYTHING, "build", "cargo", "build", "--quiet", "--message-format=json"]
    told = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    messages = map(json.loads, told.splitlines())
    return [m["executable"] for m in messages if m.get("executable") and m["target"]["name"] == "everything"][-1]


def command():
    """The command `thalweg`, built with the example."""
    return os.path.join(os.path.dirname(os.path.dirname(program())), "thalweg")


def start(path, *words, **options):
    """A process that writes `path`; see the example for its options."""
    arguments = list(words) + [f"{key}={value}" for key, value in options.items()]
    return subprocess.Popen([program(), path, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def write(path, *words, **options):
    """Writes `path` and returns what it holds."""
    with start(path, *words, **options) as process:
        process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"{path} could not be written")
    return Manifest(path)


def array(kind, values):
    """Values of the manifest as numpy's."""
    if "complex" in kind:
        values = [complex(*v) for v in values]
    return np.array([TEXTS.get(v, v) if isinstance(v, str) else v for v in values], dtype=NUMPY[kind])


class Variable:
    """One variable as it was written."""

    def __init__(self, name, said):
        self.name, self.kind = name, said["type"]
        self.steps = {}
        for block in said["blocks"]:
            self.steps.setdefault(block["step"], []).append(block)
        first = said["blocks"][0]
        self.form = "scalar" if "value" in first else "global" if "shape" in first else "local"

    def before(self, steps):
        """The same in a file of which only so many steps are written."""
        some = Variable.__new__(Variable)
        some.__dict__ = self.__dict__ | {"steps": {s: b for s, b in self.steps.items() if s < steps}}
        return some

    def block(self, block):
        """The values of one block of an array."""
        return array(self.kind, block["values"]).reshape(block["count"])

    def value(self, step):
        """The first value of a scalar, or a text, at a step."""
        value = self.steps[step][0]["value"]
        return value if self.kind == "string" else array(self.kind, [value])[0]

    def whole(self, step):
        """The global array of one step, assembled from its blocks; zero where there is none."""
        out = np.zeros(self.steps[step][0]["shape"], dtype=NUMPY[self.kind])
        for block in self.steps[step]:
            out[tuple(slice(o, o + c) for o, c in zip(block["offset"], block["count"]))] = self.block(block)
        return out

    def covered(self, step):
        """Which elements of the global array any block holds."""
        out = np.zeros(self.steps[step][0]["shape"], dtype=bool)
        for block in self.steps[step]:
            out[tuple(slice(o, o + c) for o, c in zip(block["offset"], block["count"]))] = True
        return out

    def finite(self, steps=None):
        """All finite values of all blocks of these steps."""
        blocks = [b for s, blocks in self.steps.items() if steps is None or s in steps for b in blocks]
        if self.form == "scalar":
            values = array(self.kind, [b["value"] for b in blocks])
        else:
            values = np.concatenate([self.block(b).ravel() for b in blocks])
        return values[np.isfinite(values)]

    def begins_empty(self):
        """Whether the first block of all has no element, and no extent but 0."""
        return not any(self.steps[min(self.steps)][0]["count"])

    def has_empty_blocks(self):
        return any(0 in b["count"] for blocks in self.steps.values() for b in blocks)


class Manifest:
    """What a file holds."""

    def __init__(self, path):
        with open(os.path.splitext(path)[0] + ".json", encoding="utf-8") as file:
            said = json.load(file)
        self.steps, self.partly = said["steps"], False
        self.variables = {name: Variable(name, v) for name, v in said["variables"].items()}
        self.attributes = said["attributes"]

    def before(self, steps):
        """What it holds when only so many steps are written."""
        some = Manifest.__new__(Manifest)
        variables = {name: v.before(steps) for name, v in self.variables.items()}
        some.__dict__ = self.__dict__ | {"steps": steps, "partly": True, "variables": {n: v for n, v in variables.items() if v.steps}}
        return some
