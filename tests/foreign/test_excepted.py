"""Each case that docs/format/foreign.md lists is still so: where one of these fails, the page and the other tests ask too little."""

import os
import shutil
import tempfile
import unittest

import numpy as np

import bpls
import written
from excepted import CASES

try:
    import adios2
except ImportError:
    adios2 = None


@unittest.skipIf(bpls.PROGRAM is None, "bpls of ADIOS 1.13 is not installed")
@unittest.skipIf(adios2 is None, "the adios2 wheel is not installed")
class Excepted(unittest.TestCase):
    """One test per case of the page."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="thalweg-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        cls.path, cls.edge_cases_path = (os.path.join(cls.folder, name) for name in ("file.bp", "edge_cases.bp"))
        cls.said = written.write(cls.path, ranks=4, steps=3).variables
        cls.edge_cases = written.write(cls.edge_cases_path, "edge_cases", ranks=3, steps=2).variables
        cls.shown = bpls.listing(cls.path, "-l")
        cls.file = cls.enterClassContext(adios2.FileReader(cls.path))
        cls.known = cls.file.available_variables()

    def dump(self, name, path=None):
        """The values bpls shows of a variable, as text."""
        variables = self.said if path is None else self.edge_cases
        return bpls.dump(path or self.path, variables[name].kind, [name])[name]

    def test_the_page_lists_what_is_tested_here(self):
        tested = [name[len("test_case_"):].replace("_", "-") for name in dir(self) if name.startswith("test_case_")]
        self.assertEqual(sorted(CASES), sorted(tested))

    def test_case_long_double(self):
        for name in ("/scalar/long_double", "/global/long_double_1d"):
            _, text, complaint = bpls.attempt("-d", self.path, name)
            self.assertIn("not supported in bpls", text + complaint)
            with self.assertRaises(KeyError):
                self.file.read(name)
        largest = float(self.said["/scalar/long_double"].finite().max())
        self.assertNotAlmostEqual(float(self.shown["/scalar/long_double"][3].split(" / ")[1]), largest, 1)

    def test_case_complex_single(self):
        with self.assertRaises(KeyError):
            self.file.read("/global/complex_1d")
        self.assertEqual(self.file.read("/global/double_complex_1d").dtype, "c16")

    def test_case_text_over_steps(self):
        wanted = [self.said["/scalar/label"].value(step) for step in range(3)]
        self.assertNotEqual(self.dump("/scalar/label"), [" ".join(f'"{w}"' for w in wanted)])
        self.assertNotEqual(self.dump("/scalar/label"), [f'"{w}"' for w in wanted])
        self.assertIn(f'"{wanted[2]}"', bpls.run("-d", self.path, "/scalar/label", "-s", "2", "-c", "1"))

    def test_case_changing_shape(self):
        self.assertEqual(self.shown["growing"][2], [4, 3])
        self.assertEqual(len(self.dump("growing")), 3 * 12)
        self.assertEqual(np.shape(self.file.read("growing", [0, 0], [8, 3], step_selection=[2, 1])), (8, 3))

    def test_case_local_blocks(self):
        rows = [self.said["/local/real_2d"].steps[step][0]["count"][0] for step in range(3)]
        self.assertEqual(rows, [2, 3, 4])
        self.assertEqual(len(self.dump("/local/real_2d")), 3 * 2 * 3)

    def test_case_empty_box(self):
        self.assertEqual(self.dump("/empty/rows"), [])
        with self.assertRaises(ValueError):
            self.file.read("/empty/rows")

    def test_case_empty_columns(self):
        _, text, complaint = bpls.attempt("-l", self.edge_cases_path, "columns")
        self.assertIn("ADIOS Error", complaint)
        self.assertIn("2*{5}", text)
        with adios2.FileReader(self.edge_cases_path) as file:
            self.assertEqual(file.available_variables()["columns"]["Shape"], "5, 0")

    def test_case_one_wide(self):
        _, text, _ = bpls.attempt("-D", self.edge_cases_path, "one_wide")
        self.assertIn("2*{3}", text)
        self.assertIn("[null]", text)
        with adios2.FileReader(self.edge_cases_path) as file:
            np.testing.assert_array_equal(file.read("one_wide", block_id=2), self.edge_cases["one_wide"].block(self.edge_cases["one_wide"].steps[0][2]))

    def test_case_holes(self):
        got = np.array([float(v) for v in self.dump("/holes")])
        self.assertTrue(np.any(got[~np.concatenate([self.said["/holes"].covered(s) for s in range(3)])] != 0))
        np.testing.assert_array_equal(self.file.read("/holes", [0], [12], step_selection=[0, 1]), self.said["/holes"].whole(0))

    def test_case_scalar_values(self):
        self.assertEqual([b["value"] for b in self.said["rank"].steps[0]], [0, 1, 2, 3])
        self.assertEqual([int(v) for v in self.dump("rank")], [0, 0, 0])
        self.assertEqual([int(np.ravel(self.file.read("rank", block_id=n, step_selection=[0, 1]))[0]) for n in range(4)], [0] * 4)

    def test_case_own_steps(self):
        self.assertEqual(list(self.said["/optional/steps"].steps), [1])
        self.assertEqual(self.shown["/optional/steps"][1], 1)
        self.assertEqual(float(self.file.read("/optional/steps", step_selection=[0, 1])), self.said["/optional/steps"].value(1))

    def test_case_changing_attribute(self):
        values = [self.said["/scalar/double"].value(step) for step in range(3)]
        self.assertEqual(float(self.file.read_attribute("/attribute/last")), values[0])
        self.assertAlmostEqual(float(bpls.listing(self.path, "-lA")["/attribute/last"][3]), values[2], 2)

    def test_case_complex_statistics(self):
        self.assertEqual(self.shown["/global/complex_1d"][3].replace("null", "").split(), ["/"] * 3)
        self.assertNotIn("Min", self.known["/global/double_complex_1d"])
        told = bpls.number("complex", self.shown["/scalar/double_complex"][3].split(" / ")[2])
        self.assertFalse(abs(told - self.said["/scalar/double_complex"].finite().mean()) < 1)

    def test_case_scalar_bounds(self):
        self.assertEqual((self.known["rank"]["Min"], self.known["rank"]["Max"]), ("0", "0"))

    def test_case_local_bounds(self):
        lowest = [self.said["/local/double_1d"].block(b).min() for b in self.said["/local/double_1d"].steps[0]]
        with adios2.Stream(self.path, "r") as stream:
            stream.begin_step()
            self.assertAlmostEqual(float(stream.available_variables()["/local/double_1d"]["Min"]), lowest[0], 3)
            stream.end_step()
        self.assertLess(min(lowest), lowest[0])

    def test_case_empty_first_block(self):
        path = os.path.join(self.folder, "two.bp")
        blocks = written.write(path, ranks=2, steps=3).variables["/local/some_or_none"].steps[1]
        self.assertEqual([b["count"] for b in blocks], [[2], [4]])
        with adios2.FileReader(path) as file, self.assertRaises((RuntimeError, ValueError)):
            file.read("/local/some_or_none", block_id=1, step_selection=[1, 1])
        shown = bpls.run("-D", path, "/local/some_or_none")
        self.assertIn("block 1: [ 0: 3]", shown)

    def test_case_byte_blocks(self):
        for name in ("/global/byte_1d", "/global/unsigned_byte_1d"):
            self.assertEqual(self.file.all_blocks_info(name), [])
        self.assertEqual(len(self.file.all_blocks_info("/global/short_1d")), 3)

    def test_case_scalar_deviation(self):
        told = self.shown["/scalar/integer"][3].split(" / ")
        wanted = self.said["/scalar/integer"].finite().astype("f8").std()
        self.assertFalse(abs(float(told[3]) - wanted) < 0.01 * wanted)

    def test_case_no_statistics(self):
        self.assertEqual((self.known["/statistics/off"]["Min"], self.known["/statistics/off"]["Max"]), ("0", "0"))

    def test_case_sums_beside(self):
        told = [t.strip() for t in self.shown["/statistics/default"][3].split(" / ")]
        self.assertEqual((told[0] == "null", told[2:]), (False, ["null"] * 2))

    def test_case_nothing_finite(self):
        self.assertEqual((self.known["/empty/rows"]["Min"], self.known["/empty/rows"]["Max"]), ("inf", "-inf"))
        self.assertEqual(self.shown["/empty/rows"][3].replace("null", "").split(), ["/"] * 3)

    def test_case_transformed_values(self):
        path = os.path.join(self.folder, "silent.bp")
        manifest = written.write(path, "silent", transform="zlib", ranks=2, steps=1)
        with adios2.FileReader(path) as file:
            self.assertEqual(file.available_variables()["/global/double_2d"]["Type"], "int8_t")
            plain = manifest.variables["/statistics/minmax"]
            got = np.ravel(file.read("/statistics/minmax"))
            np.testing.assert_array_equal(got, plain.whole(min(plain.steps)).ravel())

    def test_case_transformed_statistics(self):
        path = os.path.join(self.folder, "transformed.bp")
        written.write(path, transform="zlib", ranks=2, steps=1)
        with self.assertRaises((RuntimeError, ValueError)):
            adios2.FileReader(path)
        self.assertIn("/global/double_2d", bpls.listing(path, "-l"))

    def test_case_zstd(self):
        path = os.path.join(self.folder, "zstd.bp")
        written.write(path, transform="zstd", ranks=2, steps=1)
        code, _, complaint = bpls.attempt("-d", path, "/global/double_2d")
        self.assertTrue(code != 0 or complaint)

    def test_case_step_records(self):
        path = os.path.join(self.folder, "followed.bp")
        with written.start(path, "follow", ranks=2, steps=5) as process:
            seen = []
            for _ in range(5):
                process.stdout.readline()
                seen.append(self.opens(path))
                print(file=process.stdin, flush=True)
        # A full index follows where there is twice as much as in the last one, and at the end.
        self.assertEqual(seen, [True, False, True, False, False])
        self.assertTrue(self.opens(path))

    def opens(self, path):
        """Whether both open a file; both do or none does."""
        shown = "NX" in bpls.attempt(path)[1]
        try:
            with adios2.FileReader(path) as file:
                opened = "NX" in file.available_variables()
        except (RuntimeError, ValueError):
            opened = False
        self.assertEqual(shown, opened)
        return shown

    def test_case_cut_off(self):
        path = os.path.join(self.folder, "cut.bp")
        shutil.copy(self.path, path)
        os.truncate(path, os.path.getsize(path) - 1000)
        self.assertFalse(self.opens(path))

    def test_case_index_files(self):
        written.write(self.path, "index", ranks=4, steps=3)
        path = self.path + ".index"
        shown = bpls.listing(path, "-l")
        self.assertEqual(shown["/global/double_2d"], self.shown["/global/double_2d"])
        code, text, complaint = bpls.attempt("-d", path, "/global/double_2d", "-n", "1", "-f", "%.17g")
        values = [float(line.split()[-1]) for line in text.splitlines() if line.startswith("    (")]
        self.assertNotEqual(values, self.said["/global/double_2d"].whole(0).ravel().tolist(), (code, complaint))


if __name__ == "__main__":
    unittest.main()
