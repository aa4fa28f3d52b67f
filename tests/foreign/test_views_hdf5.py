"""h5py, h5netcdf, netCDF4, xarray, h5dump and ncdump read files in place, through `thalweg view hdf5`: all values, or a reason why not."""

import os
import re
import shutil
import subprocess
import sys
import unittest

import numpy as np

import viewed
import written
from viewed import thalweg

try:
    import h5netcdf
    import h5py
    import netCDF4
    import xarray
except ImportError as e:
    raise unittest.SkipTest(f"skipped: {e}") from None

if not os.path.exists(os.path.join(os.path.dirname(written.command()), "thalweg-convert")):
    raise unittest.SkipTest("skipped: thalweg-convert: HDF5 is missing (Debian: libhdf5-dev)")

# Reasons for which a variable may be left out, and what must then be so.
REASONS = {
    "netCDF programs crash": lambda v: v.kind == "long double",
    "is compressed with the transform": lambda v: True,
    "covers elements of another block": viewed.overlapping,
    "other numbers of ranks wrote it": lambda v: len({len(blocks) for blocks in v.steps.values()}) > 1,
}


def numbers(got, variable):
    """What h5py reads, as the manifest has it."""
    got = np.asarray(got)
    return got.view("i1") if variable.kind == "char" else got


class Compared(viewed.ViewReads):
    """What h5py, netCDF4 and others read of an HDF5 file, compared with what was written."""

    ENDING = ".h5"

    def values(self, found, variable, manifest):
        steps = sorted(variable.steps)
        if isinstance(found, h5py.Group):
            for step in steps:
                self.part(found[f"step_{step}"], variable, step)
            return
        has_steps = len(steps) > 1 or manifest.steps == 1 and found.maxshape[:1] == (None,)
        self.assertEqual(has_steps, found.maxshape[:1] == (None,))
        for at, step in enumerate(steps):
            if variable.form == "scalar":
                got = found[at] if has_steps else found[()]
                if variable.kind == "string":
                    got = got[0] if np.ndim(got) == 1 else got
                    self.assertEqual(got.decode(), variable.value(step))
                    continue
                wanted = variable.value(step)
                if np.ndim(got) == 1:  # One value per writer.
                    wanted = written.array(variable.kind, [b["value"] for b in variable.steps[step]])
                np.testing.assert_array_equal(np.asarray(numbers(got, variable), dtype=np.asarray(wanted).dtype), wanted)
                continue
            got = numbers(found[at] if has_steps else found[...], variable)
            self.step(got, variable, step)

    def part(self, found, variable, step):
        """One step of an array whose shape changes, or of a local array with several blocks."""
        if isinstance(found, h5py.Dataset):
            self.step(numbers(found[...], variable), variable, step)
            return
        for number, block in enumerate(variable.steps[step]):
            np.testing.assert_array_equal(numbers(found[f"block_{number}"][...], variable), variable.block(block))
        self.assertEqual(len(found), len(variable.steps[step]))

    def step(self, got, variable, step):
        wanted = variable.whole(step) if variable.form == "global" else variable.block(variable.steps[step][0])
        covered = variable.covered(step) if variable.form == "global" else np.ones(wanted.shape, bool)
        self.assertEqual(got.shape, wanted.shape)
        np.testing.assert_array_equal(got[covered], wanted[covered], f"step {step}")
        if not covered.all() and wanted.dtype.kind == "f":
            self.assertTrue(np.isnan(got[~covered]).all())

    def others(self):
        """Programs of netCDF and HDF5 read all that h5py does."""
        with h5py.File(self.view) as view:
            names = [name for name, found in view.items() if isinstance(found, h5py.Dataset) and found.dtype.kind in "iuf"]
            names = [name for name in names if not view[name].attrs.get("NAME", b"").startswith(b"This is a netCDF dimension")]
            wanted = {name: view[name][...] for name in names}
        for engine in ("h5netcdf", "netcdf4"):
            with xarray.open_dataset(self.view, engine=engine, decode_cf=False) as dataset:
                for name, values in wanted.items():
                    np.testing.assert_array_equal(dataset[name].values, values, f"{engine} {name}")
        if shutil.which("h5dump") and shutil.which("ncdump"):
            for command in (["h5dump", "-H"], ["ncdump", "-h"]):
                subprocess.run([*command, self.view], check=True, stdout=subprocess.DEVNULL)

class Hdf5Reads(viewed.Live, Compared):
    """One test per file."""

    REASONS = REASONS

    def compare(self, manifest):
        """Compares all values; returns the number of variables that are shown."""
        _, remarks = thalweg("view", "hdf5", self.path, expect=None)
        with h5py.File(self.view) as view:
            shown = self.variables(view, manifest, remarks)
        self.others()
        return shown

    def test_names_of_axes_steps_and_attributes_are_read_by_all(self):
        manifest = written.write(self.path, method="MPI", ranks=3, steps=3)
        self.assertGreater(self.compare(manifest), 20)
        for engine in ("h5netcdf", "netcdf4"):
            with xarray.open_dataset(self.view, engine=engine) as dataset:
                self.assertEqual(list(dataset["step"].values), [0, 1, 2])
                self.assertEqual(dataset["holes"].dims[0], "step")
        with netCDF4.Dataset(self.view) as dataset:
            self.assertTrue(dataset.dimensions["step"].isunlimited())
            self.assertIn("global", dataset.groups)
        with h5netcdf.File(self.view) as dataset:
            self.assertEqual(dataset["global/double_3d"].dimensions[0], "step")

    def test_ncdump_and_h5dump_print_values(self):
        manifest = written.write(self.path, method="POSIX", ranks=2, steps=2)
        self.compare(manifest)
        for program in ("h5dump", "ncdump"):
            if not shutil.which(program):
                self.skipTest(f"{program}: not installed")
        wanted = manifest.variables["/global/double_3d"].whole(1).ravel()
        told = subprocess.run(["h5dump", "-y", "-w", "1", "-m", "%.17g", "-d", "/global/double_3d", self.view], capture_output=True, text=True, check=True).stdout
        data = told[told.index("DATA {"):told.index("}", told.index("DATA {"))].split("{")[1]
        np.testing.assert_array_equal([float(n) for n in data.replace(",", " ").split()][-wanted.size:], wanted)
        told = subprocess.run(["ncdump", "-p", "9,17", "-v", "/global/double_3d", self.view], capture_output=True, text=True, check=True).stdout
        data = re.search(r"double_3d = *\n?(.*?);", told[told.index("data:", told.index("group: global")):], re.DOTALL).group(1)
        np.testing.assert_array_equal([float(n) for n in data.replace(",", " ").split()][-wanted.size:], wanted)

    def test_a_view_that_follows_shows_each_step_and_ends_with_the_writer(self):
        command = [written.command(), "view", "hdf5", self.path, "--follow", "--wait", "60s"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as view:
            process = written.start(self.path, "follow", method="MPI", ranks=3, steps=3)
            with process:
                for step in range(3):
                    self.assertEqual(process.stdout.readline().strip(), f"step {step}")
                    self.assertIn("in place", view.stdout.readline())
                    manifest = written.Manifest(self.path).before(step + 1)
                    with h5py.File(self.view) as seen:
                        found = seen["global/double_3d"]
                        for at in range(step + 1):
                            np.testing.assert_array_equal(found[at], manifest.variables["/global/double_3d"].whole(at))
                    print(file=process.stdin, flush=True)
            told, remarks = view.communicate()
        self.assertEqual((process.returncode, view.returncode), (0, 0), remarks)
        # What is not shown is told once.
        self.assertEqual(len(remarks.splitlines()), len(set(remarks.splitlines())))
        with h5py.File(self.view) as seen:
            self.assertEqual(seen["global/double_3d"].shape[0], 3)

    def test_a_view_that_follows_nobody_ends_in_time(self):
        _, remarks = thalweg("view", "hdf5", self.path, "--follow", "--wait", "500ms", expect=3)
        self.assertIn("in time", remarks)

    def test_a_missing_subfile_is_named(self):
        written.write(self.path, method="POSIX", ranks=2, steps=1)
        shutil.rmtree(self.path + ".dir")
        _, remarks = thalweg("view", "hdf5", self.path, expect=3)
        self.assertIn("missing", remarks)
        self.assertFalse(os.path.exists(self.view))

    def test_a_relative_view_is_moved_with_its_data(self):
        manifest = written.write(self.path, method="POSIX", ranks=2, steps=2)
        os.makedirs(os.path.join(self.folder, "views"))
        os.symlink(os.path.join(self.folder, "views"), os.path.join(self.folder, "link"))
        for view in ("file.h5", "link/file.h5"):
            told, _ = thalweg("view", "hdf5", self.path, "--relative", "-o", os.path.join(self.folder, view))
        needed = re.search(r"(HDF5_EXTFILE_PREFIX)='(.*)'", told)
        moved = os.path.join(self.folder, "moved")
        os.mkdir(moved)
        for name in ("file.bp", "file.bp.dir", "file.h5", "views"):
            shutil.move(os.path.join(self.folder, name), moved)
        wanted = manifest.variables["/global/double_3d"].whole(1)
        programs = {
            "h5py": "import h5py; v = h5py.File(path)['global/double_3d'][1]",
            "netCDF4": "import netCDF4; v = netCDF4.Dataset(path)['global/double_3d'][1].data",
        }
        for name, program in programs.items():
            for view in ("file.h5", "views/file.h5"):
                with self.subTest(program=name, view=view):
                    text = f"import sys; path = sys.argv[1]; {program}; sys.stdout.buffer.write(v.tobytes())"
                    environment = {**os.environ, needed[1]: needed[2]}
                    ran = subprocess.run([sys.executable, "-c", text, os.path.join(moved, view)], cwd="/", env=environment, capture_output=True, check=True)
                    np.testing.assert_array_equal(np.frombuffer(ran.stdout).reshape(wanted.shape), wanted)

    def test_where_the_program_is_not_installed_the_error_says_so(self):
        written.write(self.path, method="MPI", ranks=1, steps=1)
        alone = os.path.join(self.folder, "thalweg")
        shutil.copy(written.command(), alone)
        ran = subprocess.run([alone, "view", "hdf5", self.path], env={"PATH": self.folder}, capture_output=True, text=True)
        self.assertEqual(ran.returncode, 3)
        self.assertIn("thalweg-convert, which is neither beside thalweg nor in PATH", ran.stderr)
        self.assertFalse(os.path.exists(self.view))


viewed.add_files(Hdf5Reads, {f"{method}_{language}": {"method": method, "ranks": 3, "steps": 2, "language": language} for method in ("MPI", "POSIX", "MPI_AGGREGATE") for language in ("C", "Fortran")})

if __name__ == "__main__":
    unittest.main()
