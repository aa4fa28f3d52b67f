"""bpls 1.13 and adios2 read what was written, all but what docs/format/foreign.md lists."""

import os
import tempfile
import unittest

import numpy as np

import bpls
import written
from excepted import excepted

try:
    import adios2
except ImportError:
    adios2 = None

# Types as adios2 calls them.
NAMES = {"byte": "int8_t", "short": "int16_t", "integer": "int32_t", "long long": "int64_t", "unsigned byte": "uint8_t",
         "unsigned short": "uint16_t", "unsigned integer": "uint32_t", "unsigned long long": "uint64_t", "real": "float",
         "double": "double", "long double": "long double", "complex": "float complex", "double complex": "double complex",
         "string": "string"}
REAL = set(NAMES) - {"complex", "double complex", "string"}


def near(case, got, wanted, what, scale=0.0):
    """Equal in six digits, as both programs show statistics; `scale` is the size of what was added up."""
    tolerance = 5.1e-6 * abs(float(wanted)) + 1e-7 * float(scale) + 1e-300
    case.assertLessEqual(abs(float(got) - float(wanted)), tolerance, f"{what}: {got} is not {wanted}")


def same(case, got, wanted, what):
    if isinstance(wanted, str):
        case.assertEqual(got, wanted, what)
    else:
        np.testing.assert_array_equal(np.asarray(got).reshape(np.shape(wanted)), wanted, what)


def empty(shape):
    return 0 in shape


class Adios2:
    """Compares with what adios2 reads."""

    def __init__(self, case, path, manifest):
        self.case, self.path, self.manifest = case, path, manifest

    def at_random(self):
        """Every variable and attribute, steps in any order."""
        with adios2.FileReader(self.path) as file:
            known = file.available_variables()
            self.case.assertEqual(set(known), set(self.manifest.variables))
            for name, variable in self.manifest.variables.items():
                with self.case.subTest(variable=name):
                    self.case.assertEqual(known[name]["Type"], NAMES[variable.kind])
                    self.case.assertEqual(int(known[name]["AvailableStepsCount"]), len(variable.steps))
                    self.bounds(known[name], variable, None)
                    self.blocks(file.all_blocks_info(name), variable)
                    for index, step in reversed(list(enumerate(variable.steps))):
                        self.values(file, variable, step, step_selection=[index, 1])
            self.attributes(file)

    def step_by_step(self):
        """Every variable, as a program that follows the steps."""
        with adios2.Stream(self.path, "r") as stream:
            seen = 0
            for _ in stream.steps():
                step = stream.current_step()
                known = stream.available_variables()
                wanted = {n: v for n, v in self.manifest.variables.items() if step in v.steps}
                self.case.assertEqual(set(known), set(wanted), f"variables of step {step}")
                for name, variable in wanted.items():
                    with self.case.subTest(variable=name, step=step):
                        self.bounds(known[name], variable, step)
                        self.values(stream, variable, step)
                seen += 1
        self.case.assertEqual(seen, self.manifest.steps)

    def bounds(self, known, variable, step):
        """Smallest and largest value, over all steps or of one."""
        if variable.kind not in REAL:
            return
        if variable.name == "/statistics/off" and excepted("no-statistics"):
            return
        if variable.form == "local" and step is not None and excepted("local-bounds"):
            if variable.has_empty_blocks():
                return  # Which one is selected depends on those that could be read.
            values = variable.block(variable.steps[step][0]).ravel()
        elif variable.form == "scalar" and step is None and excepted("scalar-bounds"):
            values = np.array([variable.value(s) for s in variable.steps])
        else:
            values = variable.finite(None if step is None else [step])
        if len(values) == 0 and excepted("nothing-finite"):
            return
        for key, wanted in (("Min", values.min()), ("Max", values.max())):
            if variable.kind in ("real", "double", "long double"):
                near(self.case, known[key], wanted, key)
            else:
                self.case.assertEqual(int(known[key]), int(wanted), key)

    def blocks(self, known, variable):
        """Where each block lies."""
        if variable.kind.endswith("byte") and excepted("byte-blocks"):
            return
        self.case.assertEqual(len(known), self.manifest.steps)
        for step, of_step in enumerate(known):
            blocks = variable.steps.get(step, [])
            self.case.assertEqual(len(of_step), len(blocks))
            if variable.form == "scalar":
                continue
            for block, wanted in zip(of_step, blocks):
                numbers = lambda key: [int(n) for n in block[key].split(",") if n.strip()]
                self.case.assertEqual(numbers("Count"), wanted["count"])
                if variable.form == "global":
                    self.case.assertEqual(numbers("Start"), wanted["offset"])

    def values(self, file, variable, step, **selection):
        name, what = variable.name, f"{variable.name}, step {step}"
        if variable.kind == "long double" and excepted("long-double"):
            return
        if variable.kind == "complex" and excepted("complex-single"):
            return
        if variable.form == "scalar":
            # Of several ranks' values, the first.
            excepted("scalar-values")
            same(self.case, file.read(name, **selection), variable.value(step), what)
        elif variable.form == "global":
            wanted = variable.whole(step)
            if wanted.size == 0 and excepted("empty-box"):
                return
            zeros = [0] * wanted.ndim
            same(self.case, file.read(name, zeros, wanted.shape, **selection), wanted, what)
            start = [n // 3 for n in wanted.shape]
            count = [max(1, min(n - s, n // 2)) for n, s in zip(wanted.shape, start)]
            part = wanted[tuple(slice(s, s + c) for s, c in zip(start, count))]
            same(self.case, file.read(name, start, count, **selection), part, f"{what}, from {start}")
        else:
            if variable.begins_empty() and excepted("empty-first-block"):
                return
            # Block 0 last: adios2 asks the selected one for bounds in the next step, and it must be there.
            for number, block in reversed(list(enumerate(variable.steps[step]))):
                if empty(block["count"]) and excepted("empty-box"):
                    continue
                got = file.read(name, block_id=number, **selection)
                self.case.assertEqual(list(np.shape(got)), block["count"], what)
                same(self.case, got, variable.block(block), f"{what}, block {number}")

    def attributes(self, file):
        self.case.assertEqual(set(file.available_attributes()), set(self.manifest.attributes))
        for name, attribute in self.manifest.attributes.items():
            kind = attribute["type"]
            wanted = attribute["values"] if "values" in attribute else [attribute["value"]]
            if kind == "long double" and excepted("long-double"):
                continue
            if name == "/attribute/last" and excepted("changing-attribute"):
                continue
            with self.case.subTest(attribute=name):
                if kind.startswith("string"):
                    got = file.read_attribute_string(name)
                    self.case.assertEqual(got if isinstance(got, list) else [got], wanted)
                else:
                    np.testing.assert_array_equal(np.ravel(file.read_attribute(name)), written.array(kind, wanted))


class Bpls:
    """Compares with what bpls shows."""

    def __init__(self, case, path, manifest):
        self.case, self.path, self.manifest = case, path, manifest
        # The manifest says what an attribute will say at the end.
        self.partly = manifest.partly

    def everything(self):
        self.lists()
        self.meshes()
        self.places()
        self.values()
        self.slices()

    def lists(self):
        """Names, types, shapes, statistics, attributes."""
        shown = bpls.listing(self.path, "-la")
        names = set(self.manifest.variables) | set(self.manifest.attributes)
        self.case.assertEqual(set(shown), names)
        for name, variable in self.manifest.variables.items():
            with self.case.subTest(variable=name):
                kind, steps, form, told = shown[name]
                self.case.assertEqual((kind, steps), (variable.kind, len(variable.steps)))
                first = variable.steps[min(variable.steps)][0]
                self.case.assertEqual(form, first.get("shape", first.get("count", "scalar")))
                if len(variable.steps) == 1 and variable.form == "scalar":
                    continue  # Its value, which is compared as such.
                self.statistics(variable, told)
        for name, attribute in self.manifest.attributes.items():
            if name == "/attribute/last" and self.partly and excepted("changing-attribute"):
                continue
            with self.case.subTest(attribute=name):
                kind, _, form, told = shown[name]
                self.case.assertEqual(kind.replace("char*[]", "string array"), attribute["type"])
                wanted = attribute["values"] if "values" in attribute else [attribute["value"]]
                if attribute["type"].startswith("string"):
                    self.case.assertEqual(told.strip("{}"), ", ".join(f'"{w}"' for w in wanted))
                    continue
                entries = [told] if len(wanted) == 1 else told[1:-1].split(", ")
                self.case.assertEqual(len(entries), len(wanted))
                for got, number in zip(entries, wanted):
                    if "complex" in kind:
                        got = bpls.number(kind, got)
                        near(self.case, got.real, number[0], name)
                        near(self.case, got.imag, number[1], name)
                    elif kind in ("real", "double", "long double"):
                        near(self.case, got, number, name)
                    else:
                        self.case.assertEqual(int(got), number)

    def statistics(self, variable, told):
        """Minimum, maximum, average and standard deviation over all steps."""
        if variable.kind == "string":
            return
        told = [t.strip() for t in told.split(" / ")]
        self.case.assertEqual(len(told), 4)
        if "complex" in variable.kind and excepted("complex-statistics"):
            return
        if variable.kind == "long double" and variable.form == "scalar" and excepted("long-double"):
            return
        values = variable.finite()
        if variable.name == "/statistics/off" or len(values) == 0:
            self.case.assertEqual(told, ["null"] * 4)
            return
        exact = variable.kind not in ("real", "double", "long double")
        for got, wanted in zip(told, (values.min(), values.max())):
            if exact:
                self.case.assertEqual(int(got), int(wanted))
            else:
                near(self.case, got, wanted, variable.name)
        by_default = variable.name == "/statistics/default" and excepted("sums-beside")
        if variable.name == "/statistics/minmax" or by_default:
            self.case.assertEqual(told[2:], ["null"] * 2)
            return
        values = values.astype("f8")
        size = np.sqrt(np.mean(np.square(values)))
        near(self.case, told[2], values.mean(), f"{variable.name}: average", size)
        if exact and variable.form == "scalar" and excepted("scalar-deviation"):
            return
        # A difference of large squares loses the digits that they share.
        near(self.case, told[3], values.std(), f"{variable.name}: standard deviation", size)

    def places(self):
        """Where each block lies."""
        shown = bpls.decomposition(self.path)
        self.case.assertEqual(set(shown), set(self.manifest.variables))
        for name, variable in self.manifest.variables.items():
            with self.case.subTest(variable=name):
                wanted = []
                for blocks in variable.steps.values():
                    if variable.form == "scalar":
                        wanted.append(len(blocks))
                        continue
                    boxes = [zip(b.get("offset", [0] * len(b["count"])), b["count"]) for b in blocks]
                    # It has no word for where an empty extent begins.
                    wanted.append([[None if c == 0 else (o, c) for o, c in box] for box in boxes])
                self.case.assertEqual(shown[name], wanted)

    def values(self):
        """Every value it can show."""
        kinds = {}
        for name, variable in self.manifest.variables.items():
            if variable.kind == "long double" and excepted("long-double"):
                continue
            if variable.form == "global" and empty(variable.whole(min(variable.steps)).shape) and excepted("empty-box"):
                continue
            kinds.setdefault(variable.kind, []).append(name)
        compared = 0
        for kind, names in kinds.items():
            shown = bpls.dump(self.path, kind, names)
            for name in names:
                with self.case.subTest(variable=name):
                    compared += self.compare(self.manifest.variables[name], shown.get(name))
        self.case.assertGreater(compared, 1000)

    def slices(self):
        """A box of one step."""
        for name in ("/global/double_3d", "/global/integer_5d"):
            variable = self.manifest.variables[name]
            step = max(variable.steps)
            wanted = variable.whole(step)
            start = [n // 3 for n in wanted.shape]
            count = [min(2, n - s) for n, s in zip(wanted.shape, start)]
            box = wanted[tuple(slice(s, s + c) for s, c in zip(start, count))]
            if len(variable.steps) > 1:
                start, count = [step] + start, [1] + count
            text = lambda numbers: ",".join(map(str, numbers))
            form = ["-f", bpls.FORMATS[variable.kind]] if variable.kind in bpls.FORMATS else []
            shown = bpls.run("-d", self.path, "-y", "-n", "1", "-s", text(start), "-c", text(count), *form, name)
            got = [float(line) for line in shown.splitlines()[2:] if line.strip()]
            np.testing.assert_array_equal(got, box.ravel().astype("f8"), name)

    def meshes(self):
        """Kinds and parts of meshes."""
        shown = bpls.run("-m", self.path, "rank").split("Mesh info:", 1)[1]
        shown = "\n".join(line.strip() for line in shown.splitlines() if line.startswith("  ") and "*scalar" not in line)
        self.case.assertEqual(shown.split("integer ")[0].strip(), MESHES.strip())

    def compare(self, variable, shown):
        self.case.assertIsNotNone(shown, "not shown")
        steps = list(variable.steps)
        if variable.kind == "string":
            texts = shown[0].split('" "') if len(shown) == 1 else shown
            compared = len(steps)
            if len(steps) > 1 and excepted("text-over-steps"):
                compared = 1
            for got, step in list(zip(texts, steps))[:compared]:
                self.case.assertEqual(got.strip('"'), variable.value(step))
            return compared
        got = np.array([bpls.number(variable.kind, text) for text in shown], dtype=written.NUMPY[variable.kind])
        if variable.form == "scalar" and excepted("scalar-values"):
            wanted = np.array([variable.value(s) for s in steps])
        elif variable.form == "global":
            wholes = [variable.whole(s) for s in steps]
            if any(w.shape != wholes[0].shape for w in wholes) and excepted("changing-shape"):
                # As much of each step as the first one has.
                wholes = [w[tuple(slice(0, n) for n in wholes[0].shape)] for w in wholes]
            wanted = np.concatenate([w.ravel() for w in wholes])
            if variable.name != "growing" and excepted("holes"):
                first = wholes[0].shape
                covered = [variable.covered(s)[tuple(slice(0, n) for n in first)] for s in steps]
                covered = np.concatenate([c.ravel() for c in covered])
                self.case.assertEqual(len(got), len(wanted))
                got, wanted = got[covered], wanted[covered]
        else:
            firsts = [variable.block(variable.steps[s][0]) for s in steps]
            if any(f.shape != firsts[0].shape for f in firsts) and excepted("local-blocks"):
                if firsts[0].size == 0:
                    return 0
                firsts, got = firsts[:1], got[:firsts[0].size]
            wanted = np.concatenate([f.ravel() for f in firsts])
        np.testing.assert_array_equal(got, wanted)
        return len(wanted)


# The meshes of the example, as bpls tells of them.
MESHES = """
grid
type:         uniform
dimensions:   {7, 6}
origins:      {0, 0.5}
spacings:     {1, 2}
maximums:     {6, 10.5}
time varying: no
lines
type:         rectilinear
dimensions:   {7, 6}
coordinates:  multi-var: "/mesh/x", "/mesh/y"
time varying: no
bent
type:         structured
dimensions:   {7, 6}
points:       multi-var: "/mesh/bent", "/mesh/bent"
nspaces:      2
time varying: yes
cells
type:         unstructured
npoints:      4
points:       single-var: "/mesh/points"
ncsets:       1
cell set 0:
cell type:  3
ncells:     2
cells var:  "/mesh/cells"
nspaces:      2
time varying: no
"""

CASES = [dict(method=method, ranks=ranks, steps=3) for ranks in (1, 2, 4, 7, 16) for method in ("MPI", "POSIX")]
CASES += [
    dict(method="MPI", ranks=3, steps=1),
    dict(method="MPI", ranks=3, steps=2, language="Fortran"),
    dict(method="POSIX", ranks=5, steps=4, language="Fortran", sessions=2),
    dict(method="MPI", ranks=2, steps=12, sessions=3),
    dict(method="POSIX", ranks=2, steps=12, sessions=12),
    dict(method="POSIX1", ranks=2, steps=2, direct="1"),
]


class ForeignReaders(unittest.TestCase):
    """One test per way of writing."""

    maxDiff = 2000

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="thalweg-")
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "file.bp")

    def read(self, manifest):
        """By all readers there are."""
        if adios2 is not None:
            Adios2(self, self.path, manifest).at_random()
            Adios2(self, self.path, manifest).step_by_step()
        if bpls.PROGRAM is not None:
            Bpls(self, self.path, manifest).everything()
        if adios2 is None:
            self.skipTest("the adios2 wheel is not installed")
        if bpls.PROGRAM is None:
            self.skipTest("bpls of ADIOS 1.13 is not installed")

    def follow(self, method):
        """Both read the file after every step, while it is being written."""
        process = written.start(self.path, "follow", method=method, ranks=3, steps=5, index="each")
        with process:
            for step in range(5):
                self.assertEqual(process.stdout.readline().strip(), f"step {step}")
                self.read(written.Manifest(self.path).before(step + 1))
                print(file=process.stdin, flush=True)
        self.assertEqual(process.returncode, 0)
        self.read(written.Manifest(self.path))

    def test_follow_one_file_with_an_index_each_step(self):
        self.follow("MPI")

    def test_follow_subfiles_with_an_index_each_step(self):
        self.follow("POSIX")


def reads(case):
    def test(self):
        self.read(written.write(self.path, **case))
    return test


for options in CASES:
    setattr(ForeignReaders, "test_read_" + "_".join(f"{k}_{v}" for k, v in options.items()), reads(options))

if __name__ == "__main__":
    unittest.main()
