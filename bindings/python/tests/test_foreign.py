"""adios2 as the second opinion, and files of other writers."""

import json

import numpy as np
import pytest
import thalweg
from conftest import ROOT, field

adios2 = pytest.importorskip("adios2")

FIXTURES = ROOT / "tests" / "fixtures" / "foreign"


def test_adios2_reads_what_python_writes(run):
    f = thalweg.open(run)
    seen = 0
    with adios2.FileReader(run) as other:
        known = other.available_variables()
        assert set(known) == set(f)
        for name in f:
            v = f[name]
            if v.kind == "local array":
                for n, block in enumerate(v.blocks(0)):
                    variable = other.inquire_variable(name)
                    variable.set_block_selection(n)
                    variable.set_step_selection([0, 1])
                    np.testing.assert_array_equal(other.read(variable), block.read())
                    seen += 1
                continue
            for at, step in enumerate(v.steps):
                variable = other.inquire_variable(name)
                # adios2 counts the steps of a variable, not those of the file.
                variable.set_step_selection([at, 1])
                if not v.is_text:
                    np.testing.assert_array_equal(np.asarray(other.read(variable)).reshape(v[at].shape), v[at])
                    seen += 1
        assert other.read_attribute("T/units") == "K"
        np.testing.assert_array_equal(other.read_attribute("T/range"), [0.5, 1.5])
    assert seen == 3 * 4 + 2 + 2


def test_python_reads_what_adios2_writes(path):
    io = adios2.Adios().declare_io("out")
    io.set_engine("BP3")
    with adios2.Stream(io, path, "w") as s:
        for _ in s.steps(3):
            n = s.current_step()
            s.write("T", field(n), [24, 32], [0, 0], [24, 32])
            s.write("n", n)
            s.write("c", np.arange(4) + 1j * n, [4], [0], [4])
            if n == 0:
                s.write_attribute("units", "K", "T")
    f = thalweg.open(path)
    np.testing.assert_array_equal(f["T"][...], [field(n) for n in range(3)])
    np.testing.assert_array_equal(f["n"][:], range(3))
    np.testing.assert_array_equal(f["c"][-1], np.arange(4) + 2j)
    assert f["T"].attrs["units"] in ("K", ["K"])
    assert f["T"].max(1) == 1767.0


def fixtures():
    return sorted(p.stem for p in FIXTURES.glob("*.json") if (FIXTURES / f"{p.stem}.bp").exists())


def same(got, wanted, of):
    """A manifest's numbers: complex ones as pairs, what JSON has no word for as text."""
    if of.is_text:
        assert got == wanted
        return
    if of.type == "char":
        got = np.atleast_1d(np.asarray(got, "S1")).view(np.int8)
    wanted = [float(x) if isinstance(x, str) else x for x in (wanted if isinstance(wanted, list) else [wanted])]
    if of.dtype.kind == "c":
        wanted = np.array(wanted, float).reshape(-1, 2) @ [1, 1j]
    wanted = np.array(wanted, None if of.type == "char" else of.dtype).reshape(np.shape(got))
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("name", fixtures())
def test_files_of_other_writers_hold_what_their_manifest_says(name):
    manifest = json.loads((FIXTURES / f"{name}.json").read_text())
    f = thalweg.open(FIXTURES / f"{name}.bp")
    found = {step for v in f.values() for step in v.steps}
    assert len(found) == manifest["steps"]
    checked = 0
    for full, wanted in manifest["variables"].items():
        v = f[full]
        assert v.type == wanted["type"]
        by_step = {}
        for block in wanted["blocks"]:
            by_step.setdefault(block["step"], []).append(block)
        # A file whose writer went on from another one counts from there; the manifest counts from 0.
        assert [step - min(found) for step in v.steps] == sorted(by_step)
        for position, step in enumerate(sorted(by_step)):
            blocks = v.blocks(position)
            assert len(blocks) == len(by_step[step])
            for got, block in zip(blocks, by_step[step]):
                if "values" in block and v.kind != "value per rank":
                    assert list(got.shape) == block["count"]
                    if "offset" in block:
                        assert list(got.offset) == block["offset"]
                    same(got.read(), block["values"], v)
                elif "value" in block and v.kind == "scalar":
                    same(got.value, block["value"], v)
                checked += 1
            if v.kind == "global array" and v.shape_at(position):
                # All blocks together, later ones over earlier ones.
                whole = v[position]
                last = blocks[-1]
                np.testing.assert_array_equal(whole[last.slices], last.read())
    for full, wanted in manifest["attributes"].items():
        if "value" in wanted:
            got = f.attrs[full]
            assert got == wanted["value"] or np.ndim(got) > 0 or isinstance(wanted["value"], list), full
            checked += 1
    assert checked > 0
