"""The files of crates/io/examples/meshes.rs, and what their arrays are."""

import os
import subprocess

import numpy as np
from vtkmodules.util.numpy_support import vtk_to_numpy

import written

#: Points along the axes of its meshes, slowest axis first.
POINTS = [7, 6, 5]


def write(path, *words):
    program = os.path.join(os.path.dirname(written.program()), "meshes")
    subprocess.run([program, path, *map(str, words)], check=True)


def compare(case, data, name, shape, step):
    """An array as VTK reads it: each element tells where it belongs."""
    found = data.GetArray(name)
    case.assertIsNotNone(found, name)
    np.testing.assert_array_equal(vtk_to_numpy(found), 1000 * step + np.arange(np.prod(shape)))


def compare_coordinates(grid, points, moved):
    """Those of a rectilinear grid."""
    found = (grid.GetXCoordinates(), grid.GetYCoordinates(), grid.GetZCoordinates())
    for axis, (extent, own) in enumerate(zip(reversed(points), found)):
        np.testing.assert_array_equal(vtk_to_numpy(own), np.arange(extent) ** 2 + len(points) - 1 - axis + moved)


def compare_points(grid, points, moved):
    """Those of a structured grid."""
    got = vtk_to_numpy(grid.GetPoints().GetData())
    for component in range(3):
        wanted = 500 * component + np.arange(np.prod(points)) + moved
        np.testing.assert_array_equal(got[:, component], wanted if component < len(points) else 0)


def compare_uniform(case, grid, points):
    """Extents, first point and distances of a uniform grid."""
    missing = 3 - len(points)
    case.assertEqual(grid.GetDimensions(), tuple(points[::-1]) + (1,) * missing)
    case.assertEqual(grid.GetOrigin(), tuple(a + 0.5 for a in reversed(range(len(points)))) + (0.0,) * missing)
    case.assertEqual(grid.GetSpacing()[:len(points)], tuple(a + 2.0 for a in reversed(range(len(points)))))
