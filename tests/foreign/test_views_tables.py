"""zarr-python and xarray read files in place, through references in a folder of Parquet tables: all values, also while a program writes."""

import glob
import json
import os
import shutil
import subprocess
import unittest

import numpy as np

import test_views
import viewed
import written
from viewed import thalweg

try:
    import fastparquet  # noqa: F401  fsspec reads tables with it
    import xarray
except ImportError as e:
    raise unittest.SkipTest(f"skipped: {e}") from None


class TablesRead(test_views.References):
    """One test per file."""

    ENDING = ".zarr.parquet"
    FORM = "parquet"

    def files(self):
        """The files of the view: when each was written."""
        return {path: os.stat(path).st_ino for path in glob.glob(os.path.join(self.view, "**", "refs.*.parq"), recursive=True)}

    def test_xarray_reads_names_coordinates_and_attributes(self):
        manifest = written.write(self.path, method="POSIX", ranks=3, steps=3)
        self.assertGreater(self.compare(manifest), 20)
        with xarray.open_dataset(self.view, engine="kerchunk", storage_options={"remote_protocol": "file"}) as dataset:
            self.assertEqual(list(dataset["step"].values), [0, 1, 2])
            compared = 0
            for name, variable in manifest.variables.items():
                if name.strip("/") in dataset.variables and variable.form == "global" and sorted(variable.steps) == [0, 1, 2]:
                    covered = variable.covered(0)
                    got = dataset[name.strip("/")].isel(step=0).values
                    np.testing.assert_array_equal(got[covered], variable.whole(0)[covered])
                    compared += 1
            self.assertGreater(compared, 0)
        options = {"consolidated": True, "storage_options": {"fo": self.view, "remote_protocol": "file"}}
        with xarray.open_dataset("reference://", group="global", engine="zarr", **options) as group:
            np.testing.assert_array_equal(group["double_3d"].isel(step=2).values, manifest.variables["/global/double_3d"].whole(2))

    def test_both_forms_say_the_same(self):
        """Metadata but the chunks of values, attributes, and the place of each block."""
        written.write(self.path, method="POSIX", ranks=3, steps=2)
        thalweg("view", "zarr", self.path, "--as", "json")
        thalweg("view", "zarr", self.path, "--as", "parquet")
        with open(self.path.replace(".bp", ".zarr.json"), encoding="utf-8") as view:
            document = json.load(view)["refs"]
        tables = test_views.fsspec.filesystem("reference", fo=self.view, remote_protocol="file").references
        compared = 0
        for key, entry in document.items():
            if key.endswith((".zgroup", ".zattrs")):
                self.assertEqual(json.loads(tables[key]), json.loads(entry), key)
            elif key.endswith("/.zarray"):
                own, other = json.loads(tables[key]), json.loads(entry)
                own.pop("chunks"), other.pop("chunks")
                self.assertEqual(own, other, key)
            elif isinstance(entry, list):
                self.assertEqual(list(tables[key]), entry, key)
                self.assertEqual([np.asarray(number).dtype.kind for number in tables[key][1:]], ["i", "i"])
                compared += 1
        self.assertGreater(compared, 50)

    def test_a_view_that_follows_shows_each_step_and_changes_the_last_files(self):
        for method in ("MPI", "POSIX"):
            with self.subTest(method=method):
                self.named(method.lower())
                process = written.start(self.path, "follow", method=method, ranks=3, steps=6)
                words = [written.command(), "view", "zarr", self.path, "--as", "parquet", "--follow", "--wait", "60s"]
                remarks = open(os.path.join(self.folder, "remarks"), "w+", encoding="utf-8")
                self.addCleanup(remarks.close)
                with process, subprocess.Popen(words, stdout=subprocess.PIPE, stderr=remarks, text=True) as view:
                    inodes = []
                    for step in range(6):
                        self.assertEqual(process.stdout.readline().strip(), f"step {step}")
                        said = view.stdout.readline()
                        with open(os.path.join(self.view, ".zmetadata"), encoding="utf-8") as metadata:
                            shapes = json.load(metadata)["metadata"]
                        self.assertEqual(shapes["step/.zarray"]["shape"], [step + 1], said)
                        remarks.seek(0)
                        self.assertGreater(self.shown(written.Manifest(self.path).before(step + 1), said, remarks.read()), 20)
                        inodes.append(os.stat(self.view).st_ino)
                        print(file=process.stdin, flush=True)
                    self.assertEqual(process.wait(60), 0)
                    self.assertEqual(view.wait(60), 0)
                # Variables that are not in all steps have an axis of steps from their second one: the folder is made anew. The last steps
                # change what is in it.
                self.assertEqual(len(set(inodes[3:])), 1, inodes)

    def test_an_earlier_view_is_replaced_and_nothing_else_is(self):
        written.write(self.path, method="MPI", ranks=2, steps=1)
        thalweg("view", "zarr", self.path, "--as", "parquet")
        before = self.files()
        thalweg("view", "zarr", self.path, "--as", "parquet")
        self.assertEqual(before.keys(), self.files().keys())
        other = os.path.join(self.folder, "other.parquet")
        os.mkdir(other)
        open(os.path.join(other, "thesis"), "w", encoding="utf-8").close()
        _, remarks = thalweg("view", "zarr", self.path, "-o", other, expect=3)
        self.assertIn("no view of tables", remarks)
        self.assertEqual(os.listdir(other), ["thesis"])
        self.assertEqual([name for name in os.listdir(self.folder) if "thalweg-new" in name], [])

    def test_a_copy_of_the_file_is_read_where_it_is(self):
        manifest = written.write(self.path, method="POSIX", ranks=3, steps=2)
        copied = os.path.join(self.folder, "copied")
        os.mkdir(copied)
        thalweg("view", "zarr", self.path, "-o", self.view, "--at", f"file://{copied}/file.bp")
        for name in ("file.bp", "file.bp.dir"):
            shutil.move(os.path.join(self.folder, name), copied)
        array = test_views.opened(self.view)["global/double_3d"]
        np.testing.assert_array_equal(array[1], manifest.variables["/global/double_3d"].whole(1))


viewed.add_files(TablesRead, {f"{method}_{ranks}_ranks": {"method": method, "ranks": ranks, "steps": 2} for method in ("MPI", "POSIX", "MPI_AGGREGATE") for ranks in (1, 3)})

if __name__ == "__main__":
    unittest.main()
