"""zarr-python and xarray read files in place, through views that `thalweg view` makes: all values, or a reason why not."""

import glob
import json
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
    import fsspec
    import xarray
    import zarr
except ImportError as e:
    raise unittest.SkipTest(f"skipped: {e}") from None

def uneven(variable):
    """Whether blocks have several extents along an axis."""
    counts = {tuple(b["count"]) for blocks in variable.steps.values() for b in blocks}
    return len(counts) > 1 or any(o % max(c, 1) for bs in variable.steps.values() for b in bs for o, c in zip(b["offset"], b["count"]))


# Reasons for which a variable may be left out, and what must then be so.
REASONS = {
    "Zarr has no type for": lambda v: v.kind == "long double",
    "the transform (lz4|zfp|szip), in a form of BP files alone": lambda v: True,
    "is compressed in another way": lambda v: sum(len(blocks) for blocks in v.steps.values()) > 1,
    "a compressed chunk may not be": uneven,
    "its shape changes|its shape is": lambda v: len({shape for blocks in v.steps.values() for b in blocks for shape in [viewed.of(v, b)]}) > 1,
    "it is a local array with several blocks": lambda v: v.form == "local" and any(len(b) > 1 for b in v.steps.values()),
    "elements along axis|along axis .* begin elsewhere": uneven,
    "covers elements of another block": viewed.overlapping,
    "other numbers of ranks wrote it": lambda v: len({len(blocks) for blocks in v.steps.values()}) > 1,
}


def opened(references):
    """The root group of references: a document or a folder."""
    options = {"fo": references, "remote_protocol": "file"}
    return zarr.open_group(zarr.storage.FsspecStore.from_url("reference://", storage_options=options), mode="r", zarr_format=2)


class References(viewed.ViewReads):
    """Files and references to their blocks, in any form."""

    REASONS = REASONS
    FORM = None

    def compare(self, manifest):
        said, remarks = thalweg("view", "zarr", self.path, "--as", self.FORM, expect=None)
        return self.shown(manifest, said, remarks)

    def shown(self, manifest, said, remarks):
        """Compares what a view shows; returns how many variables."""
        shown = self.variables(opened(self.view), manifest, remarks)
        if shown > 0:
            self.assertGreaterEqual(int(re.search(r"(\d+) arrays?", said).group(1)), shown)
        return shown

    def values(self, array, variable, manifest):
        got = np.asarray(array[...])
        if variable.kind == "char":  # Text for zarr, numbers in the manifest.
            got = got.view("i1")
        steps = sorted(variable.steps)
        has_steps = array.metadata.attributes["_ARRAY_DIMENSIONS"][:1] and array.metadata.attributes["_ARRAY_DIMENSIONS"][0].startswith("step")
        self.assertEqual(bool(has_steps), len(steps) > 1 or manifest.steps == 1)
        if not has_steps:
            got = np.asarray(got)[np.newaxis]
        self.assertEqual(len(got), len(steps))
        for at, step in enumerate(steps):
            if variable.form == "scalar":
                wanted = variable.value(step)
                if np.ndim(got[at]) == 1:  # One value per writer.
                    wanted = [variable.value(step)] if variable.kind == "string" else written.array(variable.kind, [b["value"] for b in variable.steps[step]])
                np.testing.assert_array_equal(np.asarray(got[at], dtype=np.asarray(wanted).dtype), wanted)
                continue
            wanted = variable.whole(step) if variable.form == "global" else variable.block(variable.steps[step][0])
            covered = variable.covered(step) if variable.form == "global" else np.ones(wanted.shape, bool)
            self.assertEqual(got[at].shape, wanted.shape)
            np.testing.assert_array_equal(got[at][covered], wanted[covered], f"step {step}")
            if not covered.all() and wanted.dtype.kind == "f":
                self.assertTrue(np.isnan(got[at][~covered]).all())


class ZarrReads(viewed.Live, References):
    """One test per file."""

    ENDING = ".zarr.json"
    FORM = "json"

    def test_xarray_reads_names_coordinates_and_attributes(self):
        manifest = written.write(self.path, method="MPI", ranks=3, steps=3)
        self.assertGreater(self.compare(manifest), 20)
        with xarray.open_dataset(self.view, engine="kerchunk") as dataset:
            self.assertEqual(list(dataset["step"].values), [0, 1, 2])
            for name, variable in manifest.variables.items():
                if name.strip("/") in dataset and variable.form == "global" and variable.kind == "double":
                    np.testing.assert_array_equal(dataset[name.strip("/")].isel(step=0).values, variable.whole(0))
        options = {"consolidated": True, "storage_options": {"fo": self.view, "remote_protocol": "file"}}
        with xarray.open_datatree("reference://", engine="zarr", **options) as tree:
            self.assertGreater(len(tree.groups), 1)

    def test_the_data_is_never_replaced_by_its_view(self):
        written.write(self.path, method="POSIX", ranks=2, steps=1)
        before = open(self.path, "rb").read()
        _, remarks = thalweg("view", "zarr", self.path, "-o", self.path, expect=2)
        self.assertIn("is the file itself", remarks)
        self.assertEqual(open(self.path, "rb").read(), before)

    def test_a_missing_subfile_is_named(self):
        written.write(self.path, method="POSIX", ranks=2, steps=1)
        shutil.rmtree(self.path + ".dir")
        _, remarks = thalweg("view", "zarr", self.path, expect=3)
        self.assertIn("file.bp.dir/file.bp.", remarks)
        self.assertIn("missing", remarks)
        self.assertFalse(os.path.exists(self.view))

    def test_compressed_blocks_are_decoded_by_zarr(self):
        codecs = {"zlib:1": "zlib", "bzip2:3": "bz2", "zstd:5": "zstd", "blosc:compressor=zstd,lvl=7,shuffle=byte": "blosc"}
        for number, (transform, codec) in enumerate(codecs.items()):
            with self.subTest(transform=transform):
                options = {"method": ("MPI", "POSIX")[number % 2], "ranks": 2, "steps": 2, "language": ("C", "Fortran")[number // 2]}
                self.assertGreater(self.compare(written.write(self.path, transform=transform, **options)), 20)
                with open(self.view, encoding="utf-8") as view:
                    arrays = [text for key, text in json.load(view)["refs"].items() if key.endswith(".zarray")]
                compressed = [text for text in arrays if f'"id":"{codec}"' in text]
                self.assertGreater(len(compressed), 0, f"of {len(arrays)} arrays")

    def test_the_commands_of_the_guide_do_what_it_says(self):
        with open(os.path.join(written.ROOT, "docs", "guide", "views.md"), encoding="utf-8") as page:
            blocks = re.findall(r"```(sh|python)\n(.*?)```", page.read(), re.DOTALL)
        # The others are those of VTK and openPMD: test_views_vtk, test_views_openpmd.
        languages = [language for language, _ in blocks]
        self.assertEqual(languages[:6], ["sh", "python", "python", "sh", "sh", "python"])
        written.write(self.path, method="MPI", ranks=3, steps=3)
        for source in glob.glob(self.path + "*"):
            os.rename(source, source.replace("file.bp", "run.bp"))
        manifest = written.Manifest(os.path.join(self.folder, "file.bp"))
        # Names of the file at hand in place of the guide's.
        names = {"temperature": "holes", "fields": "global", '"v"': '"double_3d"'}
        outputs = []
        for language, text in blocks[:6]:
            for name, own in names.items():
                text = text.replace(name, own)
            program = {"sh": ["sh", "-euc"], "python": [sys.executable, "-W", "ignore", "-c"]}[language]
            path = os.pathsep.join([os.path.dirname(written.command()), os.environ["PATH"]])
            ran = subprocess.run([*program, text], cwd=self.folder, env={**os.environ, "PATH": path}, capture_output=True, text=True)
            self.assertEqual(ran.returncode, 0, f"{text}{ran.stderr}")
            outputs.append(ran.stdout.strip())
        wanted = (3, *manifest.variables["/global/double_3d"].whole(0).shape)
        self.assertEqual(outputs[2], str(wanted))
        self.assertEqual(outputs[5], outputs[1])
        with open(os.path.join(self.folder, "run.zarr.json"), encoding="utf-8") as view:
            urls = {entry[0] for entry in json.load(view)["refs"].values() if isinstance(entry, list)}
        self.assertEqual(urls, {"s3://bucket/run.bp"})

    def test_a_copy_of_the_file_is_read_where_it_is(self):
        manifest = written.write(self.path, method="POSIX", ranks=3, steps=2)
        copied = os.path.join(self.folder, "copied")
        os.mkdir(copied)
        said, _ = thalweg("view", "zarr", self.path, "--at", f"file://{copied}/file.bp")
        for name in ("file.bp", "file.bp.dir"):
            shutil.move(os.path.join(self.folder, name), copied)
        array = opened(self.view)["global/double_3d"]
        np.testing.assert_array_equal(array[1], manifest.variables["/global/double_3d"].whole(1))


viewed.add_files(ZarrReads, {f"{method}_{ranks}_ranks": {"method": method, "ranks": ranks, "steps": 2} for method in ("MPI", "POSIX", "MPI_AGGREGATE") for ranks in (1, 3)})

if __name__ == "__main__":
    unittest.main()
