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
except ImportError as e:
    raise unittest.SkipTest(f"skipped: {e}") from None

import meshes  # noqa: E402
from meshes import POINTS  # noqa: E402

if not os.path.exists(os.path.join(os.path.dirname(written.command()), "thalweg-convert")):
    raise unittest.SkipTest("skipped: thalweg-convert: HDF5 is missing (Debian: libhdf5-dev)")


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
                    meshes.write(self.path, kind, count, language, steps, *(["varying"] if varying else []))
                    _, remarks = thalweg("view", "vtk", self.path)
                    self.assertEqual("fields/c: its shape" in remarks, kind == "none")
                    reader = vtk.vtkHDFReader()
                    reader.SetFileName(self.view)
                    reader.UpdateInformation()
                    for step in range(steps):
                        # VTK reads a single step as none.
                        reader.UpdateTimeStep(float(step)) if steps > 1 else reader.Update()
                        grid = reader.GetOutput()
                        meshes.compare(self, grid.GetPointData(), "u", POINTS[:count], step)
                        if kind != "none":
                            meshes.compare(self, grid.GetCellData(), "fields_c", [n - 1 for n in POINTS[:count]], step)
                        yield step, POINTS[:count], grid

    def test_uniform(self):
        for _, points, grid in self.grids("uniform", 3, False):
            meshes.compare_uniform(self, grid, points)

    def test_arrays_without_a_mesh(self):
        for _, points, grid in self.grids("none", 2, False):
            self.assertEqual(grid.GetDimensions(), tuple(points[::-1]) + (1,) * (3 - len(points)))

    def test_rectilinear(self):
        for varying in (False, True):
            for step, points, grid in self.grids("rectilinear", 3, varying):
                meshes.compare_coordinates(grid, points, varying * step)

    def test_structured(self):
        for varying in (False, True):
            for step, points, grid in self.grids("structured", 3, varying):
                meshes.compare_points(grid, points, varying * step)

    def test_unstructured(self):
        """Each form of points and cells; a mesh in the first step alone, and one that moves."""
        quads = [[n, n + 1, n + 5, n + 4] for n in (0, 1, 2, 4, 5, 6)]
        halves = [half for n in (5, 6) for half in ([n, n + 1, n + 5], [n, n + 5, n + 4])]
        program = os.path.join(os.path.dirname(written.program()), "cells")
        forms = [(cells, points, steps, varying) for cells in ("quads", "mixed") for points in ("plane", "space", "list", "apart")
                 for steps, varying in ((1, False), (3, False), (3, True))]
        for cells, points, steps, varying in forms:
            with self.subTest(cells=cells, points=points, steps=steps, varying=varying):
                subprocess.run([program, self.path, cells, points, str(steps), *(["varying"] if varying else [])], check=True)
                thalweg("view", "vtk", self.path)
                reader = vtk.vtkHDFReader()
                reader.SetFileName(self.view)
                reader.UpdateInformation()
                for step in range(steps):
                    reader.UpdateTimeStep(float(step)) if steps > 1 else reader.Update()
                    grid = reader.GetOutput()
                    wanted = quads if cells == "quads" else quads[:4] + halves
                    # Cells of one type are one object.
                    found = []
                    for cell in map(grid.GetCell, range(grid.GetNumberOfCells())):
                        found.append((cell.GetCellType(), [cell.GetPointId(n) for n in range(cell.GetNumberOfPoints())]))
                    self.assertEqual(found, [(9 if len(one) == 4 else 5, one) for one in wanted])
                    x, y = np.arange(12) % 4, np.arange(12) // 4
                    z = x * y if points in ("space", "list") else 0 * x
                    at = meshes.vtk_to_numpy(grid.GetPoints().GetData())
                    np.testing.assert_array_equal(at, np.column_stack([x, y + varying * step, z]))
                    meshes.compare(self, grid.GetPointData(), "u", [12], step)
                    meshes.compare(self, grid.GetCellData(), "c", [len(wanted)], step)
                    v = meshes.vtk_to_numpy(grid.GetPointData().GetArray("v"))
                    np.testing.assert_array_equal(v, 10 * np.arange(12)[:, None] + np.arange(3))

    def test_a_single_step(self):
        for kind in ("uniform", "rectilinear", "structured", "none"):
            self.assertEqual(len(list(self.grids(kind, 1, False))), 6)

    def test_the_program_of_the_guide_does_what_it_says(self):
        with open(os.path.join(written.ROOT, "docs", "guide", "views.md"), encoding="utf-8") as page:
            program = re.findall(r"```python\n(import vtk\n.*?)```", page.read(), re.DOTALL)
        self.assertEqual(len(program), 1)
        meshes.write(self.path, "uniform", 3, "C", 3)
        thalweg("view", "vtk", self.path)
        folder = os.path.dirname(self.path)
        ran = subprocess.run([sys.executable, "-c", program[0]], cwd=folder, capture_output=True, text=True)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(ran.stdout.strip(), f"(2000.0, {2000.0 + np.prod(POINTS) - 1})")

    def test_a_relative_view_is_moved_with_its_data(self):
        meshes.write(self.path, "rectilinear", 3, "C", 3)
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
        meshes.write(self.path, "uniform", 2, "C", 1)
        _, remarks = thalweg("view", "vtk", self.path, "--mesh", "other", expect=3)
        self.assertIn("on the mesh 'other'", remarks)
        self.assertFalse(os.path.exists(self.view))


if __name__ == "__main__":
    unittest.main()
