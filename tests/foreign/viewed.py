"""What tests of views share: files, the command, and what a view may leave out."""

import glob
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import numpy as np

import written

FIXTURES = os.path.join(written.ROOT, "tests", "fixtures", "foreign")


def of(variable, block):
    """The shape of the array that a block belongs to."""
    return tuple(block["shape"] if variable.form == "global" else block["count"])


def overlapping(variable):
    for blocks in variable.steps.values():
        seen = np.zeros(blocks[0]["shape"], dtype=int)
        for b in blocks:
            seen[tuple(slice(o, o + c) for o, c in zip(b["offset"], b["count"]))] += 1
        if (seen > 1).any():
            return True
    return False


def thalweg(*words, expect=0):
    """Runs the command; returns what it printed, and its remarks. `expect`: its exit code; None for 0 or 1."""
    ran = subprocess.run([written.command(), *words], capture_output=True, text=True)
    if ran.returncode != expect and (expect is not None or ran.returncode > 1):
        raise AssertionError(f"thalweg {' '.join(words)}: exit code {ran.returncode}, {ran.stderr}")
    return ran.stdout, ran.stderr


class ViewReads(unittest.TestCase):
    """Files and their views."""

    # Of view files.
    ENDING = None
    # Reasons for which a variable may be left out, and what must then be so.
    REASONS = {}

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="thalweg-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.named("file")

    def named(self, stem):
        self.path, self.view = (os.path.join(self.folder, stem + ending) for ending in (".bp", self.ENDING))

    def variables(self, root, manifest, remarks):
        """Compares each variable that is shown, by `values`, and the reasons for the others; returns the number of those shown."""
        left_out = dict(re.findall(r"not shown: (.*?): (.*)", remarks))
        shown = 0
        for name, variable in manifest.variables.items():
            with self.subTest(variable=name):
                why = left_out.pop(name.strip("/"), None)
                if why is not None:
                    known = [is_so for reason, is_so in self.REASONS.items() if re.search(reason, why)]
                    self.assertEqual(len(known), 1, why)
                    self.assertTrue(known[0](variable), f"{name} could be shown, but {why}")
                    continue
                shown += 1
                self.values(root[name.strip("/")], variable, manifest)
        self.assertEqual(left_out, {})
        return shown


class Live:
    """Beside `ViewReads`: views of a file that is being written, by `compare`."""

    def test_a_view_made_while_the_writer_runs_shows_the_closed_steps(self):
        process = written.start(self.path, "follow", method="MPI", ranks=3, steps=3)
        with process:
            for step in range(3):
                self.assertEqual(process.stdout.readline().strip(), f"step {step}")
                self.compare(written.Manifest(self.path).before(step + 1))
                print(file=process.stdin, flush=True)
        self.assertEqual(process.returncode, 0)


def fixture(path):
    """A test of a file of other programs."""
    def test(self):
        stem = os.path.basename(path)
        for part in (".bp", ".bp.dir", ".json"):
            source, target = path + part, os.path.join(self.folder, stem + part)
            if os.path.isdir(source):
                shutil.copytree(source, target)
            elif os.path.exists(source):
                shutil.copy(source, target)
        self.named(stem)
        self.compare(written.Manifest(self.path))
    return test


def own(options):
    """A test of a file that is written for it."""
    def test(self):
        self.assertGreater(self.compare(written.write(self.path, **options)), 20)
    return test


def add_files(tests, options):
    """Adds a test for each fixture, and for each file that is written with these options, by name."""
    for manifest in sorted(glob.glob(os.path.join(FIXTURES, "*.json"))):
        stem = os.path.splitext(manifest)[0]
        setattr(tests, "test_fixture_" + os.path.basename(stem).replace("-", "_"), fixture(stem))
    for name, one in options.items():
        setattr(tests, "test_" + name, own(one))
