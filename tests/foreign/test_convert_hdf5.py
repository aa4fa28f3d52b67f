"""`thalweg convert`: BP files as HDF5 and netCDF-4 files that other programs read, and such files of other programs as BP files."""

import os
import re
import unittest

import numpy as np

import viewed
import written
from viewed import thalweg

try:
    import h5py

    import test_views_hdf5 as views
except ImportError as e:
    raise unittest.SkipTest(f"skipped: {e}") from None

# What may be said of a variable, and what must then be so.
REMARKS = {
    "its type long double: values become double": lambda v: v.kind == "long double",
    "each writer has its own value": lambda v: v.form == "scalar" and any(len({str(b["value"]) for b in blocks}) > 1 for blocks in v.steps.values()),
}


class Converted(views.Compared):
    """One test per file: everything is there, whatever its blocks are, compressed or not."""

    def compare(self, manifest):
        """Compares all values; returns the number of variables."""
        _, remarks = thalweg("convert", self.path, self.view, "--force")
        told = dict(re.findall(r"not as it was: (.*?): (.*)", remarks))
        with h5py.File(self.view) as view:
            for name, variable in manifest.variables.items():
                with self.subTest(variable=name):
                    why = told.pop(name.strip("/"), None)
                    known = [is_so for remark, is_so in REMARKS.items() if why is not None and why.startswith(remark)]
                    self.assertEqual(len(known), why is not None, why)
                    self.assertTrue(all(is_so(variable) for is_so in known), why)
                    self.values(view[name.strip("/")], variable, manifest)
        self.assertEqual(told, {})
        self.others()
        return len(manifest.variables)


class ConvertedToNetcdf(Converted):
    ENDING = ".nc"


class Back(viewed.ViewReads):
    """From BP to HDF5 and back: the same values, but what HDF5 does not have."""

    ENDING = ".h5"

    def compare(self, manifest):
        thalweg("convert", self.path, self.view)
        back = self.path + ".back.bp"
        thalweg("convert", self.view, back)
        told, _ = thalweg("diff", self.path, back, "--values", expect=None)
        for line in filter(None, told.splitlines()):
            with self.subTest(line=line):
                self.check(line, manifest)
        return len(manifest.variables)

    def check(self, line, manifest):
        """Whether a difference is one that must be."""
        if re.search(r"variables? (differ|equal)", line):
            return
        name = re.split(r", step \d+|: ", line)[0].strip("/")
        known = {full.strip("/"): variable for full, variable in manifest.variables.items()}
        variable = known.get(name) or known.get(name.split("/step_")[0])
        steps = variable.steps
        if variable.form == "scalar":
            # One value per writer, or the first of several.
            self.assertTrue(any(len(blocks) > 1 for blocks in steps.values()), line)
        elif "only in" in line:
            # Now one array for each step, or for each block.
            shapes = {viewed.of(variable, block) for blocks in steps.values() for block in blocks}
            self.assertTrue(len(shapes) > 1 or variable.form == "local", line)
        elif variable.form == "local":
            self.assertIn("local array", line)
        elif variable.kind == "long double":
            self.assertIn("long double, and", line)
        else:
            self.assertRegex(line, r"blocks, and 1 blocks|blocks cover|and NaN, by inf")
            if "NaN" in line or "cover" in line:
                self.assertFalse(all(variable.covered(step).all() for step in steps), line)


FILES = {f"{method}_{language}": {"method": method, "ranks": 3, "steps": 2, "language": language} for method, language in (("MPI", "C"), ("POSIX", "Fortran"))}
viewed.add_files(Converted, FILES)
viewed.add_files(ConvertedToNetcdf, {"MPI_C": FILES["MPI_C"]})
for name, options in FILES.items():
    setattr(Back, "test_" + name, viewed.own(options))

if __name__ == "__main__":
    unittest.main()
