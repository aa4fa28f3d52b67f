"""VTK's reader reads meshes and the arrays on them in place, through `thalweg view vtk`."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import viewed
import written
from viewed import thalweg

try:
    import vtk
    from vtkmodules.util.numpy_support import vtk_to_numpy
except ImportError as e:
    raise unittest.SkipTest(f"skipped: {e}") from None

if not os.path.exists(os.path.join(os.path.dirname(written.command()), "thalweg-convert")):
    raise unittest.SkipTest("skipped: thalweg-convert: HDF5 is missing (Debian: libhdf5-dev)")

# As crates/io/examples/meshes.rs writes them, slowest axis first.
POINTS = [7, 6, 5]


def meshes(path, *words):
    program = os.path.join(os.path.dirname(written.program()), "meshes")
    subprocess.run([program, path, *map(str, words)], check=True)


class VtkReads(unittest.TestCase):
    """One test per kind of mesh; 1 to 3 axes, C and Fortran."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="thalweg-")
        self.addCleanup(folder.cleanup)
        self.path, self.view = (os.path.join(folder.name, name) for name in ("run.bp", "run.vtkhdf"))

    def grids(self, kind, steps, varying, axes=(1, 2, 3)):
        """Each grid of each file: step, numbers of points, what VTK reads; its arrays are compared."""
        for count in axes:
            for language in ("C", "Fortran"):
                with self.subTest(axes=count, language=language):
                    meshes(self.path, kind, count, language, steps, *(["varying"] if varying else []))
                    _, remarks = thalweg("view", "vtk", self.path)
                    self.assertEqual("fields/c: its shape" in remarks, kind == "none")
                    reader = vtk.vtkHDFReader()
                    reader.SetFileName(self.view)
                    reader.UpdateInformation()
                    for step in range(steps):
                        # VTK reads a single step as none.
                        reader.UpdateTimeStep(float(step)) if steps > 1 else reader.Update()
                        grid = reader.GetOutput()
                        self.array(grid.GetPointData(), "u", POINTS[:count], step)
                        if kind != "none":
                            self.array(grid.GetCellData(), "fields_c", [n - 1 for n in POINTS[:count]], step)
                        yield step, POINTS[:count], grid

    def array(self, data, name, shape, step):
        found = data.GetArray(name)
        self.assertIsNotNone(found, name)
        np.testing.assert_array_equal(vtk_to_numpy(found), 1000 * step + np.arange(np.prod(shape)))

    def test_uniform(self):
        for _, points, grid in self.grids("uniform", 3, False):
            missing = 3 - len(points)
            self.assertEqual(grid.GetDimensions(), tuple(points[::-1]) + (1,) * missing)
            self.assertEqual(grid.GetOrigin(), tuple(a + 0.5 for a in reversed(range(len(points)))) + (0.0,) * missing)
            self.assertEqual(grid.GetSpacing()[:len(points)], tuple(a + 2.0 for a in reversed(range(len(points)))))

    def test_arrays_without_a_mesh(self):
        for _, points, grid in self.grids("none", 2, False):
            self.assertEqual(grid.GetDimensions(), tuple(points[::-1]) + (1,) * (3 - len(points)))

    def test_rectilinear(self):
        for varying in (False, True):
            for step, points, grid in self.grids("rectilinear", 3, varying):
                found = (grid.GetXCoordinates(), grid.GetYCoordinates(), grid.GetZCoordinates())
                for axis, (extent, own) in enumerate(zip(reversed(points), found)):
                    wanted = np.arange(extent) ** 2 + len(points) - 1 - axis + varying * step
                    np.testing.assert_array_equal(vtk_to_numpy(own), wanted)

    def test_structured(self):
        for varying in (False, True):
            for step, points, grid in self.grids("structured", 3, varying):
                got = vtk_to_numpy(grid.GetPoints().GetData())
                for component in range(3):
                    wanted = 500 * component + np.arange(np.prod(points)) + varying * step
                    np.testing.assert_array_equal(got[:, component], wanted if component < len(points) else 0)

    def test_a_single_step(self):
        for kind in ("uniform", "rectilinear", "structured", "none"):
            self.assertEqual(len(list(self.grids(kind, 1, False))), 6)

    def test_the_program_of_the_guide_does_what_it_says(self):
        with open(os.path.join(written.ROOT, "docs", "guide", "views.md"), encoding="utf-8") as page:
            program = re.findall(r"```python\n(import vtk\n.*?)```", page.read(), re.DOTALL)
        self.assertEqual(len(program), 1)
        meshes(self.path, "uniform", 3, "C", 3)
        thalweg("view", "vtk", self.path)
        folder = os.path.dirname(self.path)
        ran = subprocess.run([sys.executable, "-c", program[0]], cwd=folder, capture_output=True, text=True)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(ran.stdout.strip(), f"(2000.0, {2000.0 + np.prod(POINTS) - 1})")

    def test_a_relative_view_is_moved_with_its_data(self):
        meshes(self.path, "rectilinear", 3, "C", 3)
        thalweg("view", "vtk", self.path, "--relative")
        folder = os.path.dirname(self.path)
        moved = os.path.join(folder, "moved")
        os.mkdir(moved)
        for path in (self.path, self.view):
            os.rename(path, os.path.join(moved, os.path.basename(path)))
        program = (
            "import vtk; r = vtk.vtkHDFReader(); r.SetFileName('moved/run.vtkhdf'); r.UpdateInformation(); r.UpdateTimeStep(2.0);"
            "g = r.GetOutput(); print(g.GetPointData().GetArray('u').GetRange(), g.GetXCoordinates().GetRange())"
        )
        environment = {**os.environ, "HDF5_EXTFILE_PREFIX": "${ORIGIN}"}
        ran = subprocess.run([sys.executable, "-c", program], cwd=folder, env=environment, capture_output=True, text=True, check=True)
        # Coordinates of the fastest axis: squares, and 2 more, as meshes.rs writes them.
        self.assertEqual(ran.stdout.strip(), f"(2000.0, {2000.0 + np.prod(POINTS) - 1}) (2.0, {2.0 + (POINTS[-1] - 1) ** 2})")

    def test_a_mesh_that_no_variable_is_on_is_named(self):
        meshes(self.path, "uniform", 2, "C", 1)
        _, remarks = thalweg("view", "vtk", self.path, "--mesh", "other", expect=3)
        self.assertIn("on the mesh 'other'", remarks)
        self.assertFalse(os.path.exists(self.view))


if __name__ == "__main__":
    unittest.main()
