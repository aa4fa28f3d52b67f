"""Writes of variables that were written before take a short way: the same values, the same refusals."""

import sys

import numpy as np
import pytest
import thalweg
from thalweg.writer import StepWriter

XML = """<adios-config host-language="LANGUAGE"><adios-group name="g">
  <var name="n" type="long"/><var name="count" type="short"/><var name="x" type="double"/><var name="f" type="real"/>
  <var name="note" type="string"/><var name="in" path="/deep" type="integer"/>
  <global-bounds dimensions="DIMS" offsets="0,0"><var name="a" type="double" dimensions="DIMS"/></global-bounds>
  <var name="b" type="double" dimensions="n"/></adios-group><method group="g" method="MPI"/></adios-config>"""


@pytest.fixture
def long_way(monkeypatch):
    """The names of variables that took the long way."""
    taken = []
    write = StepWriter._write

    def noted(self, name, *arguments):
        taken.append(name)
        write(self, name, *arguments)

    monkeypatch.setattr(StepWriter, "_write", noted)
    return taken


VALUES = {
    "time": 0.5,
    "numpy": np.float64(2.5),
    "count": 7,
    "negative": -(2**63),
    "title": "Schritt ü",
    "empty text": "",
    "zero": np.array(3.5),
    "f4": np.arange(5, dtype="f4"),
    "f8": np.arange(6.0).reshape(2, 3),
    "c8": np.arange(3, dtype="c8") * 1j,
    "c16": np.arange(3, dtype="c16") * 1j,
    "longlong": np.arange(3, dtype=np.longlong),
    **{code: np.arange(4, dtype=code) for code in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")},
    "none": np.zeros((0, 3)),
}


@pytest.mark.parametrize("method", ["MPI", "POSIX"])
def test_known_variables_take_the_short_way_and_read_back(path, long_way, method):
    with thalweg.Writer(path, method=method) as w:
        for n in range(3):
            with w.step() as s:
                for name, value in VALUES.items():
                    s[name] = value
                for copy in (True, False):
                    s.write("box", np.full((2, 2), n), shape=(4, 2), offset=[2 * copy, 0], copy=copy)
            if n == 0:
                assert sorted(set(long_way)) == sorted([*VALUES, "box"])
                long_way.clear()
    assert long_way == []
    f = thalweg.open(path)
    for n in range(3):
        for name, value in VALUES.items():
            got = f[name][n]
            assert np.asarray(got).dtype == np.asarray(value).dtype or isinstance(value, str)
            np.testing.assert_array_equal(got, value)
        np.testing.assert_array_equal(f["box"][n], np.full((4, 2), n))


def test_other_values_of_a_known_variable_take_the_long_way(path, long_way):
    base = np.arange(40.0).reshape(5, 8)
    masked = np.ma.array(np.arange(3.0))
    values = [base[:, ::2], base.T, base.astype(">f8"), base.tolist(), np.float32(1.5), np.bool_(True)]
    with thalweg.Writer(path) as w:
        with w.step() as s:
            for i, value in enumerate(values[:4]):
                s[f"v{i}"] = np.zeros(np.shape(value))
            s["v4"], s["v5"] = np.float32(0), np.uint8(0)
            s["m"] = np.zeros(3)
        long_way.clear()
        with w.step() as s:
            for i, value in enumerate(values[:5]):
                s[f"v{i}"] = value
            with pytest.raises(thalweg.WrongType):
                s["v5"] = values[5]
            s["m"] = masked
            masked[1] = np.ma.masked
            with pytest.raises(thalweg.WrongType, match="masked"):
                s["m"] = masked
    assert long_way == ["v0", "v1", "v2", "v3", "v4", "v5", "m", "m"]
    f = thalweg.open(path)
    for i, value in enumerate(values[:5]):
        np.testing.assert_array_equal(f[f"v{i}"][1], value)


def test_mistakes_in_known_variables_are_refused_as_in_new_ones(path):
    data = np.zeros(3)
    with thalweg.Writer(path) as w, w.step() as s:
        s.write("a", data, shape=(4,), offset=(0,))
        for shape, offset, kind in [
            ((4,), (2,), thalweg.OutOfBounds),
            ((4,), (-1,), thalweg.OutOfBounds),
            ((4, 4), (0, 0), thalweg.InvalidArgument),
            (None, (0,), thalweg.InvalidArgument),
            ((4,), (2**64 - 2,), thalweg.OutOfBounds),
        ]:
            with pytest.raises(kind, match='"a"'):
                s.write("a", data, shape=shape, offset=offset)
        # The type and the number of axes of a name stay.
        for other in (data.astype("f4"), np.zeros((3, 1))):
            with pytest.raises(thalweg.Error, match="as double"):
                s["a"] = other
        s["i"] = np.int32(1)
        with pytest.raises(thalweg.Config, match="as integer"):
            s["i"] = 2
        with pytest.raises(TypeError):
            s.write(5, data)
    with pytest.raises(thalweg.InvalidArgument, match="closed"):
        s["a"] = data


@pytest.mark.parametrize("language", ["C", "Fortran"])
def test_declared_variables_without_names_in_their_dimensions_take_the_short_way(path, long_way, language):
    a = np.arange(6.0).reshape(2, 3)
    xml = XML.replace("LANGUAGE", language).replace("DIMS", "2,3" if language == "C" else "3,2")
    with thalweg.Writer(path, xml) as w:
        for n in range(2):
            with w.step() as s:
                s["count"], s["x"], s["note"], s["a"] = 5, 1.5 + n, "text", a + n
                s["in"] = n
                s["deep/in"] = n + 1
                assert long_way == ["in"]
                # Numbers that need a conversion, and what belongs to dimensions.
                s["f"] = 0.25
                s["n"] = 3
                s["b"] = np.arange(3.0)
                s["x"] = np.int32(4) if n else 2.5
                with pytest.raises(thalweg.InvalidArgument, match="n = 3"):
                    s["b"] = np.arange(4.0)
                for name, value in (("count", 2**15), ("count", 1.5), ("a", a.T), ("a", a.astype("f4"))):
                    with pytest.raises((thalweg.WrongType, thalweg.InvalidArgument), match=f'"{name}"'):
                        s[name] = value
                long_way.clear()
    f = thalweg.open(path)
    assert [f[name][-1] for name in ("count", "x", "note", "f", "n")] == [5, 4, "text", 0.25, 3]
    assert f["deep/in"][:].tolist() == [1, 2]
    np.testing.assert_array_equal(f["a"][1], a + 1)


def test_arrays_are_held_no_longer_than_their_step(path):
    data = np.zeros(5)
    with thalweg.Writer(path) as w:
        for _ in range(2):
            with w.step() as s:
                before = sys.getrefcount(data)
                s.write("copied", data)
                assert sys.getrefcount(data) == before
                s.write("kept", data, copy=False)
            assert sys.getrefcount(data) == before
