"""VTK's readers read the files of method VTK: meshes, the arrays on them, all steps."""

import os
import tempfile
import unittest
import xml.etree.ElementTree as xml

try:
    import vtk
except ImportError as e:
    raise unittest.SkipTest(f"skipped: {e}") from None

import meshes  # noqa: E402
from meshes import POINTS  # noqa: E402


def listed(path):
    """The entries of a list of steps."""
    return [entry.attrib for entry in xml.parse(path).getroot().iter("DataSet")]


def opened(path):
    """A file of a step, as the reader of its kind reads it."""
    readers = {"vti": vtk.vtkXMLImageDataReader, "vtr": vtk.vtkXMLRectilinearGridReader, "vts": vtk.vtkXMLStructuredGridReader}
    reader = readers[path.rsplit(".", 1)[1]]()
    reader.SetFileName(path)
    reader.Update()
    if reader.GetErrorCode():
        raise AssertionError(f"{path}: {vtk.vtkErrorCode.GetStringFromErrorCode(reader.GetErrorCode())}")
    return reader.GetOutput()


class VtkReadsFilesOfMethodVtk(unittest.TestCase):
    """One test per kind of mesh; 1 to 3 axes, C and Fortran."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="thalweg-")
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "run.bp")
        self.list = os.path.join(folder.name, "run.pvd")

    def grids(self, kind, ending, varying):
        for count in (1, 2, 3):
            for language in ("C", "Fortran"):
                with self.subTest(axes=count, language=language):
                    words = ["varying"] if varying else []
                    meshes.write(self.path, kind, count, language, 3, *words, "VTK")
                    entries = [one for one in listed(self.list) if one["part"] == "0"]
                    self.assertEqual([float(one["timestep"]) for one in entries], [0.0, 1.0, 2.0])
                    for step, entry in enumerate(entries):
                        self.assertTrue(entry["file"].endswith(ending), entry)
                        grid = opened(os.path.join(os.path.dirname(self.path), entry["file"]))
                        meshes.compare(self, grid.GetPointData(), "u", POINTS[:count], step)
                        if kind != "none":
                            meshes.compare(self, grid.GetCellData(), "fields_c", [n - 1 for n in POINTS[:count]], step)
                        self.assertEqual(grid.GetFieldData().GetArray("TimeValue").GetValue(0), step)
                        self.assertEqual(grid.GetFieldData().GetArray("points0").GetValue(0), POINTS[0])
                        yield step, POINTS[:count], grid

    def test_uniform(self):
        for _, points, grid in self.grids("uniform", ".vti", False):
            meshes.compare_uniform(self, grid, points)

    def test_arrays_without_a_mesh(self):
        for step, points, grid in self.grids("none", ".vti", False):
            self.assertEqual(grid.GetDimensions(), tuple(points[::-1]) + (1,) * (3 - len(points)))
        # Those of another shape are on a grid of their own.
        other = [one for one in listed(self.list) if one["part"] == "1"]
        self.assertEqual([one["name"] for one in other], ["6x5x4"] * 3)
        for step, entry in enumerate(other):
            grid = opened(os.path.join(os.path.dirname(self.path), entry["file"]))
            meshes.compare(self, grid.GetPointData(), "fields_c", [6, 5, 4], step)

    def test_rectilinear(self):
        for varying in (False, True):
            for step, points, grid in self.grids("rectilinear", ".vtr", varying):
                meshes.compare_coordinates(grid, points, varying * step)

    def test_structured(self):
        for varying in (False, True):
            for step, points, grid in self.grids("structured", ".vts", varying):
                meshes.compare_points(grid, points, varying * step)


if __name__ == "__main__":
    unittest.main()
