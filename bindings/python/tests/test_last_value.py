"""What is written again in a step, and values that files know no type for: written right or refused, never lost."""

import numpy as np
import pytest
import thalweg

adios2 = pytest.importorskip("adios2")

SCHEMA = """<adios-config host-language="C"><adios-group name="g">
  <var name="n" type="integer"/><var name="x" type="double"/><var name="note" type="string"/>
  <global-bounds dimensions="4" offsets="0"><var name="a" type="double" dimensions="4"/></global-bounds>
  </adios-group><method group="g" method="METHOD"/></adios-config>"""


@pytest.mark.parametrize("limit", [None, 0], ids=["buffer", "no-buffer"])
@pytest.mark.parametrize("copy", [True, False], ids=["copied", "deferred"])
@pytest.mark.parametrize("method", ["MPI", "POSIX", "MPI_COLLECTIVE", "MPI_SCHEDULED", "MPI_AGGREGATE", "ADAPTIVE"])
@pytest.mark.parametrize("declared", [False, True], ids=["open", "schema"])
def test_the_last_value_counts(path, declared, method, copy, limit):
    schema = {"schema": SCHEMA.replace("METHOD", method)} if declared else {"method": method}
    box = {} if declared else {"shape": (4,), "offset": (0,)}
    # Deferred memory lives until close.
    first, last = np.zeros(4), np.arange(4.0)
    with thalweg.Writer(path, **schema, buffer_limit=limit) as w:
        for step in range(2):
            with w.step() as s:
                s["n"] = np.int32(1)
                s["x"] = 0.5
                s.write("a", first, copy=copy, **box)
                s["note"] = "old"
                s["n"] = np.int32(2 + step)
                s["x"] = 1.5 + step
                s.write("a", last, copy=copy, **box)
                s["note"] = "new"
    f = thalweg.open(path)
    assert [len(f[name].blocks(1)) for name in ("n", "x", "a", "note")] == [1, 1, 1, 1]
    np.testing.assert_array_equal(f["n"][:], [2, 3])
    np.testing.assert_array_equal(f["x"][:], [1.5, 2.5])
    np.testing.assert_array_equal(f["a"][...], [last, last])
    assert list(f["note"][:]) == ["new", "new"]
    with adios2.FileReader(path) as other:
        for name, wanted in (("n", 3), ("x", 2.5), ("a", last)):
            variable = other.inquire_variable(name)
            variable.set_step_selection([1, 1])
            np.testing.assert_array_equal(np.ravel(other.read(variable)), np.ravel(wanted))


def test_blocks_of_other_boxes_and_of_local_arrays_stay(path):
    with thalweg.Writer(path) as w, w.step() as s:
        for start in (0, 2, 0):
            s.write("a", np.full(2, 10.0 + start), shape=(4,), offset=(start,))
        for n in range(3):
            s.write("own", np.full(2, n))
    f = thalweg.open(path)
    assert len(f["a"].blocks(0)) == 2
    np.testing.assert_array_equal(f["a"][0], [10, 10, 12, 12])
    np.testing.assert_array_equal([b.read() for b in f["own"].blocks(0)], [[0, 0], [1, 1], [2, 2]])


@pytest.mark.parametrize(
    ("data", "more", "shape"),
    [
        (np.zeros(0), {}, (0,)),
        (np.zeros((0, 3)), {}, (0, 3)),
        (np.zeros((3, 0), "i4"), {}, (3, 0)),
        (np.zeros((0, 0), "u1"), {}, (0, 0)),
        ([], {}, (0,)),
        (np.zeros((0, 3)), {"shape": (0, 3)}, (0, 3)),
        (np.zeros((0, 3)), {"shape": (5, 3), "offset": (2, 0)}, (5, 3)),
        (np.zeros(0), {"copy": False}, (0,)),
    ],
    ids=str,
)
def test_an_array_without_elements_is_there(path, data, more, shape):
    with thalweg.Writer(path) as w:
        for _ in range(2):
            with w.step() as s:
                s.write("a", data, **more)
    f = thalweg.open(path)
    assert f["a"].steps == (0, 1)
    assert f["a"].shape_at(1) == shape
    if "shape" not in more or 0 in more["shape"]:
        assert f["a"][1].shape == shape
    assert f["a"].dtype == (data.dtype if isinstance(data, np.ndarray) else np.float64)


@pytest.mark.parametrize(
    "data",
    [
        np.arange(24.0).reshape(4, 6)[::2, ::3],
        np.arange(24.0).reshape(4, 6)[::-1],
        np.arange(24, dtype=">i4").reshape(4, 6),
        np.arange(24, dtype=">f8").reshape(4, 6).T,
        np.asfortranarray(np.arange(24, dtype="c16").reshape(4, 6)),
        np.broadcast_to(np.float32(3), (2, 3)),
        np.arange(6).reshape(1, 6, 1)[:, 1:4],
        np.ma.masked_array(np.arange(3.0), mask=False),
        [[1, 2], [3, 4]],
        np.array(2.5),
        np.array(7, ">i2"),
        np.float32(0.1),
        np.uint64(2**64 - 1),
        3,
        1 + 2j,
    ],
    ids=lambda d: f"{type(d).__name__}-{np.asarray(d).dtype.str}-{np.asarray(d).shape}",
)
@pytest.mark.parametrize("twice", [False, True], ids=["once", "twice"])
def test_any_layout_and_byte_order_reads_back(path, data, twice):
    with thalweg.Writer(path) as w, w.step() as s:
        if twice:
            s.write("a", np.zeros_like(np.asarray(data)), shape=np.shape(data) or None)
        s.write("a", data, shape=np.shape(data) or None)
    got = thalweg.open(path)["a"][0]
    np.testing.assert_array_equal(got, np.asarray(data))
    assert np.asarray(got).dtype == np.asarray(data).dtype.newbyteorder("=")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (True, "uint8"),
        (np.array([True, False]), "uint8"),
        (np.array(True), "uint8"),
        (np.array(["a", "b"]), "one by one"),
        (np.array("a"), "one by one"),
        (np.array([b"ab"]), "one by one"),
        (["a", "b"], "one by one"),
        (np.datetime64("2026-01-01"), "int64"),
        (np.array(["2026-01-01"], "M8[s]"), "int64"),
        (np.timedelta64(3, "s"), "int64"),
        (np.array([None]), "objects"),
        (None, "objects"),
        (np.zeros(3, "f2"), "float32"),
        (np.zeros(2, [("x", "f8"), ("y", "i4")]), "each field"),
        (np.ma.masked_array([1.0, 2.0], mask=[False, True]), "filled"),
    ],
    ids=str,
)
def test_what_files_have_no_type_for_is_refused_and_nothing_is_lost(path, data, words):
    with thalweg.Writer(path) as w, w.step() as s:
        s["kept"] = 1
        with pytest.raises(thalweg.WrongType, match=words):
            s["a"] = data
        s["also"] = 2
    f = thalweg.open(path)
    assert set(f) == {"kept", "also"}


def test_another_type_in_the_same_step_is_refused_and_the_value_stays(path):
    with thalweg.Writer(path) as w, w.step() as s:
        s["x"] = 1
        with pytest.raises(thalweg.Error, match="x"):
            s["x"] = 1.5
        with pytest.raises(thalweg.Error, match="x"):
            s["x"] = np.arange(3)
    np.testing.assert_array_equal(thalweg.open(path)["x"][:], [1])


def test_numbers_that_a_declared_type_cannot_hold_are_refused(path):
    schema = thalweg.Schema("g").array("a", "f4", count=2)
    with thalweg.Writer(path, schema) as w, w.step() as s:
        with pytest.raises(thalweg.WrongType, match="cannot hold"):
            s["a"] = [1.0, 1e300]
        s["a"] = [1.0, float("inf")]
    np.testing.assert_array_equal(thalweg.open(path)["a"][0], [1.0, np.inf])
