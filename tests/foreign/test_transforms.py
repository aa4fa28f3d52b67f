"""bpls 1.13 reads transformed variables as they were written, whatever their type, shape and language."""

import json
import os
import subprocess
import tempfile
import unittest

import numpy as np

import bpls
import written
from test_values import Bpls

LOSSLESS = ["identity", "zlib:1", "zlib", "bzip2:3", "lz4", "lz4:lvl=20,threshold=500", "blosc",
            "blosc:compressor=blosclz,lvl=9,shuffle=bit", "blosc:compressor=lz4,shuffle=byte,lvl=5",
            "blosc:compressor=lz4hc,threads=2", "blosc:compressor=zlib,shuffle=byte", "blosc:compressor=zstd,lvl=7"]
ZFP = {"zfp:accuracy=0.01": 0.01, "zfp:precision=64": 1e-5, "zfp:rate=40": 1.0}


@unittest.skipIf(bpls.PROGRAM is None, "bpls of ADIOS 1.13 is not installed")
class Transforms(unittest.TestCase):
    """One file per transform."""

    maxDiff = 2000

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="thalweg-")
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "file.bp")

    def test_without_loss(self):
        for number, transform in enumerate(LOSSLESS):
            with self.subTest(transform=transform):
                options = dict(method=("MPI", "POSIX")[number % 2], ranks=number % 4 + 1, steps=2)
                if number % 3 == 2:
                    options["language"] = "Fortran"
                manifest = written.write(self.path, transform=transform, **options)
                Bpls(self, self.path, manifest).everything()

    def test_zfp_gives_both_readers_the_same_bits(self):
        for language in ("C", "Fortran"):
            for transform, loss in ZFP.items():
                with self.subTest(transform=transform, language=language):
                    self.zfp(transform, loss, language)

    def test_blocks_within_an_error_bound_are_read(self):
        manifest = written.write(self.path, transform="zfp:error=100", ranks=2, steps=2)
        for kind in ("real", "double"):
            compared = 0
            for name in (f"/global/{kind}_{n}d" for n in (1, 2, 3)):
                told = subprocess.run([written.command(), "ls", "-l", "--json", self.path, name], stdout=subprocess.PIPE, text=True, check=True)
                if json.loads(told.stdout)["variables"][0]["errors"]["lossless"]:
                    continue
                got = np.array([float(text) for text in bpls.dump(self.path, kind, [name])[name]], dtype=written.NUMPY[kind])
                variable = manifest.variables[name]
                wanted = np.concatenate([variable.whole(s).ravel() for s in variable.steps])
                self.assertLessEqual(np.abs(got - wanted).max(), 100, name)
                self.assertEqual(got.tobytes(), self.ours(name, kind).tobytes(), name)
                compared += 1
            self.assertGreater(compared, 0, kind)

    def test_a_block_that_is_stored_without_loss_is_refused(self):
        # So small an error leaves nothing to be gained.
        manifest = written.write(self.path, transform="zfp:error=1e-12", ranks=2, steps=1)
        name = "/global/real_2d"
        told = subprocess.run([written.command(), "ls", "-lv", self.path, name], stdout=subprocess.PIPE, text=True, check=True).stdout
        self.assertIn("2 of 2 blocks lossless", told)
        _, _, complaint = bpls.attempt("-d", self.path, name)
        wanted = manifest.variables[name].whole(0).ravel()
        self.assertEqual(self.ours(name, "real").tobytes(), wanted.tobytes())
        self.assertIn("lossless. Provide a double value", complaint)

    def zfp(self, transform, loss, language):
        manifest = written.write(self.path, transform=transform, ranks=3, steps=2, language=language)
        compared = 0
        for kind in ("real", "double"):
            names = [f"/global/{kind}_{n}d" for n in (1, 2, 3)]
            shown = bpls.dump(self.path, kind, names)
            for name in names:
                got = np.array([float(text) for text in shown[name]], dtype=written.NUMPY[kind])
                variable = manifest.variables[name]
                wanted = np.concatenate([variable.whole(s).ravel() for s in variable.steps])
                self.assertLessEqual(np.abs(got - wanted).max(), loss, name)
                self.assertEqual(got.tobytes(), self.ours(name, kind).tobytes(), name)
                compared += len(got)
        self.assertGreater(compared, 500)

    def ours(self, name, kind):
        """What the command `thalweg dump` shows of a variable, all steps."""
        told = subprocess.run([written.command(), "dump", self.path, name, "--json"], stdout=subprocess.PIPE, text=True, check=True)
        parts = json.loads(told.stdout)["variables"][0]["parts"]
        return np.array([v for part in parts for v in np.ravel(part["values"])], dtype=written.NUMPY[kind])


if __name__ == "__main__":
    unittest.main()
