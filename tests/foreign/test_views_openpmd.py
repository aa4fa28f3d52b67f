"""openPMD-api and openPMD-viewer read files in place, through `thalweg view openpmd` or the schema of a group: all values, or a reason why not."""

import os
import re
import shutil
import subprocess
import sys
import unittest

import numpy as np

import viewed
import written
from excepted import excepted
from viewed import thalweg

try:
    import adios2
    import openpmd_api
except ImportError as e:
    raise unittest.SkipTest(f"skipped: {e}") from None

#: Points along the axes of the meshes of crates/io/examples/meshes.rs, slowest axis first.
POINTS = [7, 6, 5]
SCALAR = openpmd_api.Mesh_Record_Component.SCALAR
#: Exponents of kg m s-3 A-1, an electric field.
FIELD = [1.0, 1.0, -3.0, -1.0, 0.0, 0.0, 0.0]

# Reasons for which a variable may be left out, and what must then be so.
REASONS = {
    "is compressed with the transform": lambda v: True,
    "covers elements of another block": viewed.overlapping,
    "other numbers of ranks wrote it": lambda v: len({len(blocks) for blocks in v.steps.values()}) > 1,
}


def safe(name):
    """A name as openPMD has it."""
    return re.sub("[^A-Za-z0-9]", "_", name)


def loaded(series, component):
    """The values of a component."""
    values = component.load_chunk()
    series.flush()
    return values


def meshes(path, *words):
    program = os.path.join(os.path.dirname(written.program()), "meshes")
    return subprocess.run([program, path, *map(str, words)], check=True, capture_output=True, text=True).stderr


class OpenpmdReads(viewed.Live, viewed.ViewReads):
    """One test per file: every variable of every step."""

    ENDING = ".openpmd.bp"
    REASONS = REASONS

    def compare(self, manifest):
        """Compares all values; returns the number of variables that are shown."""
        _, remarks = thalweg("view", "openpmd", self.path, expect=None)
        is_foreign = "byte order of the file: it is another machine's" in remarks
        self.assertEqual(is_foreign, "encoded-big" in self.path)
        # Parts of variables, and what is no variable.
        remarks = re.sub("(?m)^.*not shown: (byte order|elements of|steps of|unit of|mesh|points of|time) .*$", "", remarks)
        if is_foreign:
            with self.assertRaisesRegex(RuntimeError, "ADIOS2_USE_Endian_Reverse"):
                openpmd_api.Series(self.view, openpmd_api.Access.read_only)
            with adios2.FileReader(self.view) as file:
                return self.variables(ByAdios2(file), manifest, remarks)
        series = openpmd_api.Series(self.view, openpmd_api.Access.read_only)
        self.assertEqual(list(series.iterations), list(range(manifest.steps)))
        shown = self.variables(ByOpenpmd(series), manifest, remarks)
        series.close()
        return shown

    def values(self, found, variable, manifest):
        if isinstance(found, ByAdios2):
            if variable.kind == "complex" and excepted("complex-single") or variable.kind == "long double" and excepted("long-double"):
                return
        for step in sorted(variable.steps):
            if variable.form == "scalar":
                self.scalar(found.scalar(step), variable, step)
            elif variable.form == "global":
                whole, covered = variable.whole(step), variable.covered(step)
                if covered.any():
                    got = np.asarray(found.array(step), dtype=whole.dtype)
                    np.testing.assert_array_equal(got[covered], whole[covered], f"step {step}")
            else:
                for number, block in enumerate(variable.steps[step]):
                    if 0 not in block["count"]:
                        wanted = variable.block(block)
                        got = found.array(step, "" if self.is_whole(variable) else f"_block_{number}")
                        np.testing.assert_array_equal(np.asarray(got, dtype=wanted.dtype), wanted, f"step {step}")

    @staticmethod
    def is_whole(variable):
        """Whether a local array has one block in each step."""
        return all(len(blocks) == 1 for blocks in variable.steps.values())

    def scalar(self, got, variable, step):
        blocks = variable.steps[step]
        if variable.kind == "string":
            self.assertEqual(got, variable.value(step))
        elif np.ndim(got) == 1 and not isinstance(got, (str, bytes)):  # One value per writer.
            np.testing.assert_array_equal(got, written.array(variable.kind, [b["value"] for b in blocks]))
        elif variable.kind not in ("char", "byte", "unsigned byte"):  # Texts for openPMD-api.
            np.testing.assert_array_equal(np.asarray(got, dtype=np.asarray(variable.value(step)).dtype), variable.value(step))

    def test_what_is_no_view_is_never_replaced(self):
        written.write(self.path, method="POSIX", ranks=2, steps=1)
        before = open(self.path, "rb").read()
        _, remarks = thalweg("view", "openpmd", self.path, "-o", self.path, expect=2)
        self.assertIn("is the file itself", remarks)
        other = os.path.join(self.folder, "other.bp")
        written.write(other, method="POSIX", ranks=2, steps=1)
        others = {name: open(os.path.join(other + ".dir", name), "rb").read() for name in os.listdir(other + ".dir")}
        _, remarks = thalweg("view", "openpmd", self.path, "-o", other, expect=3)
        self.assertIn("is the folder of another BP file", remarks)
        self.assertEqual(others, {name: open(os.path.join(other + ".dir", name), "rb").read() for name in os.listdir(other + ".dir")})
        _, remarks = thalweg("view", "openpmd", self.path, "-o", os.path.join(self.folder, "view.h5"), expect=3)
        self.assertIn("ends with .bp", remarks)
        self.assertEqual(open(self.path, "rb").read(), before)

    def test_a_view_is_moved_with_its_data(self):
        manifest = written.write(self.path, method="POSIX", ranks=3, steps=2)
        thalweg("view", "openpmd", self.path)
        moved = self.folder + "/moved"
        os.mkdir(moved)
        for name in os.listdir(self.folder):
            if name != "moved":
                shutil.move(os.path.join(self.folder, name), moved)
        series = openpmd_api.Series(moved + "/file.openpmd.bp", openpmd_api.Access.read_only)
        got = loaded(series, series.iterations[1].meshes["global_double_3d"][SCALAR])
        np.testing.assert_array_equal(got, manifest.variables["/global/double_3d"].whole(1))
        series.close()


class ByOpenpmd:
    """A variable by its name, as openPMD-api has it."""

    def __init__(self, series, name=None):
        self.series, self.name = series, name

    def __getitem__(self, name):
        return ByOpenpmd(self.series, safe(name))

    def scalar(self, step):
        return self.series.iterations[step].get_attribute(self.name)

    def array(self, step, more=""):
        return loaded(self.series, self.series.iterations[step].meshes[self.name + more][SCALAR])


class ByAdios2:
    """The same by adios2, which reads files of the other byte order, too."""

    def __init__(self, file, name=None):
        self.file, self.name = file, name

    def __getitem__(self, name):
        return ByAdios2(self.file, safe(name))

    def scalar(self, step):
        return self.file.read_attribute(f"/data/{step}/{self.name}")

    def array(self, step, more=""):
        return self.file.read(f"/data/{step}/meshes/{self.name}{more}")


viewed.add_files(OpenpmdReads, {f"{method}_{ranks}_ranks": {"method": method, "ranks": ranks, "steps": 2} for method in ("MPI", "POSIX", "MPI_AGGREGATE") for ranks in (1, 3)})


class MeshesAndUnits(unittest.TestCase):
    """Attributes of the standard, made from the meshes of the XML, for files of one to three axes."""

    def setUp(self):
        folder = viewed.tempfile.TemporaryDirectory(prefix="thalweg-")
        self.addCleanup(folder.cleanup)
        self.path, self.view = (os.path.join(folder.name, name) for name in ("run.bp", "run.openpmd.bp"))

    def series(self, *words):
        """Each file that the example writes, and its view: what is not shown, axes, the series."""
        for axes in (1, 2, 3):
            for language in ("C", "Fortran"):
                for method in ("MPI", "POSIX"):
                    with self.subTest(axes=axes, language=language, method=method):
                        told = self.written(words[0], axes, language, *words[1:], method)
                        series = openpmd_api.Series(self.view, openpmd_api.Access.read_only)
                        yield told, axes, series
                        series.close()

    def written(self, *words):
        """Writes a file and its view; returns what is not shown."""
        meshes(self.path, *words)
        return thalweg("view", "openpmd", self.path)[1]

    def values(self, series, step, name, label, shape, added=0.0):
        component = series.iterations[step].meshes[name][label]
        wanted = 1000 * step + np.arange(np.prod(shape)).reshape(shape) + added
        self.assertEqual(component.shape, list(shape))
        np.testing.assert_array_equal(loaded(series, component), wanted)
        return component

    def test_a_uniform_mesh_with_a_vector_times_and_units(self):
        for told, axes, series in self.series("uniform", 3, "physics"):
            self.assertEqual(told, "")
            self.check_uniform(series, axes)

    def check_uniform(self, series, axes):
        points = POINTS[:axes]
        self.assertEqual((series.openPMD, series.openPMD_extension, series.base_path, series.meshes_path), ("1.1.0", 0, "/data/%T/", "meshes/"))
        self.assertEqual((series.author, series.software), ("A. Author", "Thalweg"))
        self.assertEqual(list(series.iterations), [0, 1, 2])
        for step, iteration in series.iterations.items():
            self.assertEqual((iteration.time, iteration.dt, iteration.time_unit_SI), (0.5 * step, 0.125, 1e-3))
            self.assertEqual(iteration.get_attribute("clock"), 0.5 * step)
            # One component alone is no vector.
            vector, components = ("E", ["x", "y", "z"][:axes]) if axes > 1 else ("E_x", [SCALAR])
            self.assertEqual(sorted(iteration.meshes), [vector, "fields_c", "u"])
            for name, labels in ((vector, components), ("u", [SCALAR])):
                mesh = iteration.meshes[name]
                self.assertEqual(sorted(mesh), sorted(labels))
                self.assertEqual(str(mesh.geometry), "Geometry.cartesian")
                self.assertEqual(mesh.data_order, "C")
                self.assertEqual(mesh.axis_labels, ["z", "y", "x"][3 - axes:])
                self.assertEqual(list(mesh.grid_spacing), [axis + 2.0 for axis in range(axes)])
                self.assertEqual(list(mesh.grid_global_offset), [axis + 0.5 for axis in range(axes)])
                self.assertEqual((mesh.grid_unit_SI, mesh.time_offset), (1e-3, 0.0))
            self.assertEqual(list(iteration.meshes["u"].unit_dimension), [0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0])
            component = self.values(series, step, "u", SCALAR, points)
            self.assertEqual((component.unit_SI, list(component.position)), (1.0, [0.0] * axes))
            self.assertEqual(list(iteration.meshes[vector].unit_dimension), FIELD)
            for number, label in enumerate(components):
                component = self.values(series, step, vector, label, points, number / 4)
                self.assertEqual((component.unit_SI, list(component.position)), (1e3, [0.0] * axes))
                self.assertEqual(component.get_attribute("units"), "kV/m")
            component = self.values(series, step, "fields_c", SCALAR, [n - 1 for n in points])
            self.assertEqual(list(component.position), [0.5] * axes)
            self.assertEqual(iteration.meshes["fields_c"].axis_labels, ["level", "layer", "radius"][3 - axes:])

    def test_the_schema_of_a_group_makes_the_view_when_the_file_is_closed(self):
        for axes in (1, 2, 3):
            for method in ("MPI", "POSIX", "MPI_AGGREGATE", "ADAPTIVE"):
                with self.subTest(axes=axes, method=method):
                    told = meshes(self.path, "uniform", axes, "C", 3, "physics", "openPMD", method)
                    self.assertEqual(told, "")
                    series = openpmd_api.Series(self.view, openpmd_api.Access.read_only)
                    self.check_uniform(series, axes)
                    series.close()
                    by_schema = open(self.view, "rb").read()
                    os.remove(self.view)
                    thalweg("view", "openpmd", self.path)
                    self.assertEqual(open(self.view, "rb").read(), by_schema)

    def test_meshes_that_openpmd_does_not_have_are_named(self):
        for kind, variables in (("rectilinear", "along"), ("structured", "")):
            for told, axes, series in self.series(kind, 2, "varying"):
                self.assertIn("not shown: points of mesh m: openPMD has points at equal distances alone", told)
                for step, iteration in series.iterations.items():
                    mesh = iteration.meshes["u"]
                    self.assertEqual(str(mesh.geometry), "Geometry.other")
                    self.assertIn(kind, mesh.geometry_parameters)
                    self.assertIn(variables, mesh.geometry_parameters)
                    self.values(series, step, "u", SCALAR, POINTS[:axes])
                    if kind == "rectilinear":
                        got = loaded(series, iteration.meshes["along0"][SCALAR])
                        np.testing.assert_array_equal(got, np.arange(POINTS[0]) ** 2 + step)

    def test_arrays_without_a_mesh(self):
        for told, axes, series in self.series("none", 2):
            self.assertEqual(told, "")
            for step, iteration in series.iterations.items():
                self.assertEqual((iteration.time, iteration.dt, iteration.time_unit_SI), (float(step), 1.0, 1.0))
                mesh = iteration.meshes["u"]
                self.assertEqual((list(mesh.grid_spacing), list(mesh.grid_global_offset)), ([1.0] * axes, [0.0] * axes))
                self.values(series, step, "u", SCALAR, POINTS[:axes])

    def test_steps_one_after_the_other(self):
        self.written("uniform", 3, "C", 3, "physics")
        series = openpmd_api.Series(self.view, openpmd_api.Access.read_linear)
        seen = []
        for iteration in series.read_iterations():
            seen.append(iteration.iteration_index)
            values = loaded(series, iteration.meshes["u"][SCALAR])
            np.testing.assert_array_equal(values.ravel(), 1000 * iteration.iteration_index + np.arange(np.prod(POINTS)))
            iteration.close()
        self.assertEqual(seen, [0, 1, 2])

    def test_openpmd_viewer_reads_it(self):
        try:
            from openpmd_viewer import OpenPMDTimeSeries
        except ImportError as e:
            self.skipTest(f"openpmd-viewer: {e}")
        self.written("uniform", 3, "C", 3, "physics")
        series = OpenPMDTimeSeries(self.view, backend="openpmd-api", check_all_files=False)
        self.assertEqual((list(series.iterations), list(series.t)), ([0, 1, 2], [0.0, 0.0005, 0.001]))
        self.assertEqual(sorted(series.avail_fields), ["E", "fields_c", "u"])
        got, info = series.get_field("u", iteration=2)
        np.testing.assert_array_equal(got.ravel(), 2000 + np.arange(np.prod(POINTS)))
        np.testing.assert_allclose(info.z, 1e-3 * (0.5 + 2 * np.arange(POINTS[0])))
        got, _ = series.get_field("E", "y", iteration=1)
        np.testing.assert_array_equal(got.ravel(), 1e3 * (1000.25 + np.arange(np.prod(POINTS))))

    def test_the_commands_of_the_guide_do_what_it_says(self):
        with open(os.path.join(written.ROOT, "docs", "guide", "views.md"), encoding="utf-8") as page:
            section = re.search(r"\n## openPMD\n(.*?)(\n## |\Z)", page.read(), re.DOTALL).group(1)
        blocks = re.findall(r"```(sh|python)\n(.*?)```", section, re.DOTALL)
        self.assertEqual([language for language, _ in blocks], ["sh", "python"])
        meshes(self.path, "uniform", 3, "C", 3, "physics")
        outputs = []
        for language, text in blocks:
            program = {"sh": ["sh", "-euc"], "python": [sys.executable, "-c"]}[language]
            path = os.pathsep.join([os.path.dirname(written.command()), os.environ["PATH"]])
            ran = subprocess.run([*program, text], cwd=os.path.dirname(self.path), env={**os.environ, "PATH": path}, capture_output=True, text=True)
            self.assertEqual(ran.returncode, 0, f"{text}{ran.stderr}")
            outputs.append(ran.stdout.strip())
        self.assertEqual(outputs[1], f"0.001 s, {2e3 + np.prod(POINTS) - 1} K")


if __name__ == "__main__":
    unittest.main()
