"""What is written reads back equal, and what does not fit is refused."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import thalweg
from conftest import ROOT, field
from thalweg import selection

XML = ROOT / "examples" / "heat" / "heat.xml"

TYPES = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8", "c8", "c16", np.longdouble]


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_numbers_of_every_type_read_back_equal(path, dtype):
    values = np.array([[0, 1, 2], [3, 100, 127]]).astype(dtype)
    with thalweg.Writer(path) as w, w.step() as s:
        s["array"] = values
        s["one"] = values[1, 1]
    f = thalweg.open(path)
    assert f["array"].dtype == values.dtype
    np.testing.assert_array_equal(f["array"][0], values)
    assert f["one"][0] == 100
    assert f["one"].dtype == values.dtype


@pytest.mark.parametrize(
    "make",
    [
        lambda a: a,
        np.asfortranarray,
        lambda a: a[::-1, ::2],
        lambda a: a.T,
        lambda a: a.astype(">f8"),
        lambda a: np.broadcast_to(a[0], (5, 32)),
        lambda a: a[1:1],
        lambda a: a.tolist(),
        lambda a: np.lib.stride_tricks.sliding_window_view(a[0], 4),
    ],
    ids=["plain", "fortran", "strided", "turned", "big endian", "repeated", "empty", "lists", "windows"],
)
@pytest.mark.parametrize("copy", [True, False])
def test_arrays_of_any_layout(path, make, copy):
    values = make(field())
    with thalweg.Writer(path) as w:
        for _ in range(2):
            with w.step() as s:
                s.write("v", values, shape=np.shape(values), offset=(0,) * np.ndim(values), copy=copy)
    v = thalweg.open(path)["v"]
    np.testing.assert_array_equal(v[-1], np.asarray(values, float))


def test_without_a_copy_large_arrays_live_until_the_step_is_closed(path):
    with thalweg.Writer(path) as w, w.step() as s:
        for n in range(8):
            # Nobody else holds it.
            s.write(f"v{n}", np.full(100_000, float(n)), copy=False)
    f = thalweg.open(path)
    assert [float(f[f"v{n}"][0].mean()) for n in range(8)] == list(range(8))


def ghosts(ndim, n=40):
    """An array with two ghost layers around it, and its inside."""
    whole = np.random.default_rng(1).random((n + 4,) * ndim)
    return whole, whole[(slice(2, -2),) * ndim]


@pytest.mark.parametrize("ndim", [2, 3])
@pytest.mark.parametrize("copy", [True, False])
def test_the_inside_of_an_array_with_ghost_zones_is_written_from_where_it_lies(tmp_path, ndim, copy):
    n = 100 if ndim == 2 else 40
    _, inside = ghosts(ndim, n)
    owner, memory = selection.within(inside)
    assert owner is not None
    assert memory == ([n + 4] * ndim, [2] * ndim)
    files = []
    for name, values in (("inside", inside), ("copied", inside.copy())):
        files.append(tmp_path / f"{name}.bp")
        with thalweg.Writer(files[-1]) as w, w.step() as s:
            s.write("v", values, shape=inside.shape, offset=(0,) * ndim, copy=copy)
    for f in files:
        np.testing.assert_array_equal(thalweg.open(f)["v"][0], inside)
        assert thalweg.open(f)["v"].mean() == pytest.approx(inside.mean())


def test_views_that_are_no_boxes_are_told_from_those_that_are():
    whole = np.zeros((200, 200))
    flat = np.zeros(40_000)
    # Every second row is a box of an array of half as many rows, twice as long.
    for view in (whole[2:-2, 2:-2], whole[:, 5:], whole[::2, 1:], flat.reshape(200, 200)[1:, 7:-9], whole[3:, 0:100][:, 1:]):
        owner, (shape, start) = selection.within(view)
        box = owner.view(whole.dtype).reshape(shape)[tuple(slice(a, a + n) for a, n in zip(start, view.shape))]
        assert box.shape == view.shape
        assert box.__array_interface__["data"][0] == view.__array_interface__["data"][0]
        assert box.strides == view.strides
    for view in (whole[:, ::2], whole[::-1], whole.T[:, 1:], np.broadcast_to(flat, (3, 40_000)), whole[0]):
        assert selection.within(view)[0] is None


def test_ghost_zones_of_fortran_order_turn_round_with_their_dimensions(path):
    xml = """<adios-config host-language="Fortran"><adios-group name="g">
      <var name="nx" type="integer"/><var name="ny" type="integer"/>
      <var name="T" type="double" dimensions="nx,ny"/></adios-group><method group="g" method="MPI"/></adios-config>"""
    inside = np.random.default_rng(2).random((110, 104))[3:-2, 1:-3]
    with thalweg.Writer(path, xml) as w, w.step() as s:
        s["T"] = inside
    np.testing.assert_array_equal(thalweg.open(path)["T"][0], inside)


def test_blocks_are_joined_where_the_shape_is_open(path):
    schema = thalweg.Schema("g").array("p", "i8", count=("n", 3), shape=(None, 3))
    with thalweg.Writer(path, schema) as w:
        for n in range(3):
            with w.step() as s:
                s["p"] = np.full((2 + n, 3), n)
                s["p"] = np.full((1, 3), 9)
    p = thalweg.open(path)["p"]
    assert p.shape == (3, None, 3)
    np.testing.assert_array_equal(p[2][:, 0], [2, 2, 2, 2, 9])


def test_append_after_a_step_drops_the_later_ones(path):
    with thalweg.Writer(path) as w:
        for n in range(5):
            with w.step() as s:
                s["n"] = n
    with thalweg.Writer(path, mode="a", after=2) as w:
        for n in (30, 40):
            with w.step() as s:
                s["n"] = n
    np.testing.assert_array_equal(thalweg.open(path)["n"][:], [0, 1, 2, 30, 40])
    with pytest.raises(thalweg.InvalidArgument, match="after"):
        thalweg.Writer(path, after=2)
    with pytest.raises(thalweg.Error), thalweg.Writer(path, mode="a", after=99) as w:
        w.step()


def test_transforms_are_undone_when_they_are_read(path):
    schema = thalweg.Schema("g").array("z", "f8", count=(100, 100), transform="zlib:5")
    with thalweg.Writer(path, schema) as w, w.step() as s:
        s["z"] = np.ones((100, 100))
    z = thalweg.open(path)["z"]
    assert z.transform == "zlib"
    assert z.blocks()[0].bytes < 10_000
    np.testing.assert_array_equal(z[0], np.ones((100, 100)))
    assert "zlib" in z._repr_html_()


def test_errors_of_a_bounded_transform_are_told(path):
    y, x = np.mgrid[0:40, 0:50]
    data = 280 + 5 * np.sin(0.1 * y) * np.cos(0.2 * x)
    bad = data.copy()
    bad[3, 4] = np.nan
    with thalweg.Writer(path) as w, w.step() as s:
        for n, values in enumerate([data, bad]):
            s.write("v", values, shape=(80, 50), offset=(40 * n, 0), transform="zfp:error=0.01")
        s.write("r", data, transform="zfp:relative_error=0.001")
        s.write("a", data, transform="zfp:accuracy=0.01")
        s.write("z", data, transform="zlib")
    f = thalweg.open(path)
    good, whole = f["v"].blocks()
    errors = f["v"].characteristics().errors
    assert errors == thalweg.CompressionErrors(2, 1, 0, 0.01, False, good.largest_error, 0.0)
    largest = np.abs(f["v"][0][:40] - data).max()
    assert 0 < largest <= 0.01 and good.largest_error in (largest, np.nextafter(largest, 1))
    assert (good.allowed_error, good.lossless, whole.lossless) == (0.01, None, "values that are not finite")
    assert (whole.allowed_error, whole.largest_error) == (0.01, 0.0)
    np.testing.assert_array_equal(f["v"][0][40:], bad)
    # Statistics are of what is read.
    assert good.min == f["v"][0][:40].min() and good.max == f["v"][0][:40].max()
    relative = f["r"].characteristics().errors
    assert relative.relative and relative.bound == 0.001 and 0 < relative.largest_relative <= 0.001
    assert f["r"].block(0).allowed_error == 0.001 * np.ptp(data)
    assert f["a"].characteristics().errors.not_measured == 1 and f["a"].block(0).largest_error is None
    assert f["z"].characteristics().errors is None
    assert "1 of 2 blocks lossless" in f["v"]._repr_html_()


def test_a_transform_needs_no_schema(path):
    data = np.zeros((1000, 10))
    with thalweg.Writer(path) as w, w.step() as s:
        for n in range(2):
            s.write("v", data + n, shape=(2000, 10), offset=(1000 * n, 0), transform="zlib:5")
    f = thalweg.open(path)
    assert f["v"].transform == "zlib" and all(b.bytes < 2000 for b in f["v"].blocks())
    np.testing.assert_array_equal(f["v"][0], np.repeat([0.0, 1.0], 10_000).reshape(2000, 10))
    schema = thalweg.Schema("g").array("v", "f8", count=3)
    with thalweg.Writer(path, schema) as w, w.step() as s:
        with pytest.raises(thalweg.InvalidArgument, match="the schema declares"):
            s.write("v", np.zeros(3), transform="zlib:5")
        s["v"] = [1.0, 2.0, 3.0]


@pytest.mark.parametrize("declared", [False, True])
def test_arrays_of_characters_are_written(path, declared):
    letters = np.array(list("abcdef"), "S1").reshape(2, 3)
    schema = thalweg.Schema("g").array("c", "S1", count=(2, 3), shape=(4, 3), offset=("first", 0)) if declared else None
    with thalweg.Writer(path, schema) as w, w.step() as s:
        s.write("c", letters, shape=(4, 3), offset=(2, 0))
    f = thalweg.open(path)
    assert f["c"].dtype == np.dtype("S1")
    np.testing.assert_array_equal(f["c"][0, 2:], letters)


def test_attributes_are_listed_in_the_order_in_which_they_were_declared(path):
    with thalweg.Writer(path) as w, w.step() as s:
        s["v"] = 1
        for name in ("b", "a", "c"):
            w.attribute(name, np.array(2.5), of="v")
    assert list(thalweg.open(path)["v"].attrs.items()) == [("b", 2.5), ("a", 2.5), ("c", 2.5)]


def test_read_only_arrays_are_written(path):
    values = field()
    values.flags.writeable = False
    with thalweg.Writer(path) as w, w.step() as s:
        s["v"] = values
    np.testing.assert_array_equal(thalweg.open(path)["v"][0], values)


@pytest.mark.parametrize(
    "value",
    [np.zeros(2, bool), np.zeros(2, "f2"), np.array(["a"]), np.zeros(2, "M8[s]"), np.array([object()]), {"a": 1}],
    ids=["bool", "half", "texts", "dates", "objects", "dict"],
)
def test_types_that_files_have_not_are_refused(path, value):
    with thalweg.Writer(path) as w, w.step() as s:
        with pytest.raises(TypeError, match="v"):
            s["v"] = value
        s["fine"] = 1.0
    assert list(thalweg.open(path)) == ["fine"]


@pytest.fixture
def declared(path):
    schema = thalweg.Schema("g")
    schema.scalar("n", "i4").scalar("x", "f4").text("title")
    schema.array("v", "f4", count="n").array("w", "i8", count=("rows", 3), shape=("all", 3), offset=("first", 0))
    with thalweg.Writer(path, schema) as w, w.step() as s:
        yield s
        s.write("x", 1.0)


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("v", np.zeros(3), thalweg.WrongType),
        ("v", np.zeros(3, "c8"), TypeError),
        ("v", np.zeros((3, 1), "f4"), ValueError),
        ("w", np.zeros((2, 4), "i8"), thalweg.InvalidArgument),
        ("v", [1, 2, 1j], TypeError),
        ("w", [[1, 2, 2**70]], TypeError),
        ("n", [1, 2], ValueError),
        ("n", 1.5, TypeError),
        ("n", 2**40, TypeError),
        ("n", "three", TypeError),
        ("x", 1e300, TypeError),
        ("x", 1j, TypeError),
        ("title", 3, TypeError),
        ("nope", 3, KeyError),
        ("tilte", "t", thalweg.NotFound),
    ],
    ids=str,
)
def test_what_does_not_fit_the_schema_is_refused(declared, name, value, error):
    with pytest.raises(error) as caught:
        declared[name] = value
    assert name in str(caught.value)


def test_lists_and_numbers_take_the_declared_type(path):
    schema = thalweg.Schema("g").scalar("n", "u1").scalar("x", "f4").array("v", "f4", count=3).array("i", "i2", count=2)
    with thalweg.Writer(path, schema) as w, w.step() as s:
        s["n"] = np.int64(7)
        s["x"] = 3
        s["v"] = [1, 2, 3]
        s["i"] = [4, 5]
    f = thalweg.open(path)
    assert f["v"].dtype == np.float32
    np.testing.assert_array_equal(f["v"][0], [1, 2, 3])
    np.testing.assert_array_equal(f["i"][0], [4, 5])
    assert f["n"].value == 7


def test_scalars_that_name_dimensions_follow_from_the_array(path):
    schema = thalweg.Schema("g").array(
        "T", "f8", count=("rows", "nx"), shape=("ny", "nx"), offset=("first", 0), dims=("y", "x")
    )
    with thalweg.Writer(path, schema) as w:
        for n in range(2):
            with w.step() as s:
                s.write("T", field(n)[6:], shape=(24, 32), offset=(6, 0))
        with w.step() as s:
            with pytest.raises(thalweg.InvalidArgument, match="nx = 32"):
                s["nx"] = 32
                s.write("T", field()[:, :5], shape=(24, 5), offset=(0, 0))
            # Two blocks of one step: what their dimensions are named by is written again, and the last value counts.
            s.write("T", field()[6:], shape=(24, 32), offset=(6, 0))
            s.write("T", field()[:4], shape=(24, 32), offset=(0, 0))
    f = thalweg.open(path)
    assert [int(f[n].value) for n in ("rows", "nx", "ny", "first")] == [4, 32, 24, 0]
    np.testing.assert_array_equal(f["T"][2, 6:], field()[6:])
    np.testing.assert_array_equal(f["T"][2, :4], field()[:4])
    assert f["T"].dims == ("y", "x")
    np.testing.assert_array_equal(f["T"][1, 6:], field(1)[6:])


def test_a_box_outside_the_array_is_refused(path):
    with thalweg.Writer(path) as w, w.step() as s:
        with pytest.raises(thalweg.OutOfBounds):
            s.write("v", np.zeros(3), shape=(5,), offset=(3,))
        with pytest.raises(thalweg.InvalidArgument):
            s.write("v", np.zeros(3), shape=(5, 5), offset=(0, 0))
        with pytest.raises(thalweg.InvalidArgument):
            s.write("v", np.zeros(3), offset=(0,))
        s["fine"] = 1


def test_schema_in_code_and_in_xml_make_the_same_file(tmp_path):
    schema = thalweg.Schema("heat", method="MPI")
    for name in ("ny", "nx", "rows", "first", "iteration"):
        schema.scalar(name, "i4")
    schema.scalar("time", "f8")
    schema.array("T", "f8", count=("rows", "nx"), shape=("ny", "nx"), offset=("first", 0))
    schema.attribute("/T/description", "temperature of the plate")
    schema.attribute("/T/units", "degree Celsius").attribute("diffusivity", 0.2)
    files = []
    for name, given in (("code", schema), ("xml", XML), ("text", XML.read_text())):
        files.append(str(tmp_path / f"{name}.bp"))
        with thalweg.Writer(files[-1], given) as w:
            for n in range(2):
                with w.step() as s:
                    for scalar, value in zip(("ny", "nx", "rows", "first", "iteration"), (24, 32, 24, 0, n)):
                        s[scalar] = value
                    s["time"] = 0.25 * n
                    s["T"] = field(n)
    code, xml, text = (thalweg.open(f) for f in files)
    assert list(code) == list(xml) == list(text)
    assert dict(code.attrs) == dict(xml.attrs) == dict(text.attrs)
    for name in code:
        np.testing.assert_array_equal(code[name][...], xml[name][...])
        assert code[name].type == xml[name].type
        assert code[name].kind == xml[name].kind


def test_fortran_dimensions_are_turned_round(path):
    xml = """<adios-config host-language="Fortran"><adios-group name="g">
      <var name="nx" type="integer"/><var name="ny" type="integer"/>
      <var name="T" type="double" dimensions="nx,ny"/></adios-group><method group="g" method="MPI"/></adios-config>"""
    with thalweg.Writer(path, xml) as w, w.step() as s:
        s["T"] = field()
    f = thalweg.open(path)
    assert int(f["nx"].value) == 32
    assert f["T"].shape == (1, 24, 32)
    np.testing.assert_array_equal(f["T"][0], field())


def test_attributes_change_with_the_next_step(path):
    with thalweg.Writer(path) as w:
        w.attribute("run", 1)
        w.attribute("names", ["a", "b"])
        w.attribute("several", np.array([1.5, 2.5], "f4"))
        with w.step() as s:
            s["x"] = 1
        w.attribute("run", 2)
        with w.step() as s:
            s["x"] = 2
        w.attribute("late", 3)
        with pytest.warns(UserWarning, match="late"):
            w.close()
    f = thalweg.open(path)
    assert f.attrs["run"] == 2
    assert f.attrs["names"] == ["a", "b"]
    assert f.attrs["several"] == [1.5, 2.5]
    assert "late" not in f.attrs


def test_append_adds_steps_to_what_is_there(path):
    for n, mode in enumerate(["w", "a", "a"]):
        with thalweg.Writer(path, mode=mode) as w, w.step() as s:
            assert s.number == n
            s["n"] = n
    np.testing.assert_array_equal(thalweg.open(path)["n"][:], [0, 1, 2])


def test_an_exception_in_a_step_leaves_the_file_as_it_was(path):
    with pytest.raises(ZeroDivisionError), thalweg.Writer(path) as w:
        with w.step() as s:
            s["n"] = 1
        with w.step() as s:
            s["n"] = 1 // 0
    f = thalweg.open(path)
    assert len(f.steps) == 1
    assert not f.finished


def test_one_step_at_a_time(path):
    with thalweg.Writer(path) as w:
        s = w.step()
        with pytest.raises(thalweg.InvalidArgument):
            w.step()
        s["x"] = 1
        s.close()
        with pytest.raises(thalweg.InvalidArgument):
            s["x"] = 2
    with pytest.raises(thalweg.InvalidArgument):
        w.step()


def test_two_groups_share_a_session_and_its_buffer(tmp_path):
    groups = [thalweg.Schema("a").array("x", "f8", count=3), thalweg.Schema("b", method="POSIX").scalar("y", "i4")]
    with thalweg.Session(groups, buffer_limit=1 << 20) as session:
        assert session.groups == ["a", "b"]
        with pytest.raises(thalweg.Config, match="a, b"):
            session.writer(tmp_path / "none.bp")
        first, second = session.writer(tmp_path / "a.bp", "a"), session.writer(tmp_path / "b.bp", "b")
        for n in range(2):
            with first.step() as s:
                s["x"] = np.full(3, float(n))
            with second.step() as s:
                s["y"] = n
    assert thalweg.open(tmp_path / "a.bp").finished
    np.testing.assert_array_equal(thalweg.open(tmp_path / "b.bp")["y"][:], [0, 1])


def test_a_refused_configuration_says_all_that_is_wrong():
    xml = '<adios-config><adios-group name="g"><var name="x" type="flaot"/></adios-group></adios-config>'
    with pytest.raises(thalweg.Config) as caught:
        thalweg.Session(xml)
    assert "flaot" in str(caught.value)
    assert "float" in str(caught.value)
    with pytest.raises(ValueError, match="NOPE"):
        thalweg.Writer("never.bp", thalweg.Schema("g", method="NOPE")).step()
    with pytest.raises(FileNotFoundError):
        thalweg.Session("/no/such/config.xml")


def test_a_full_store_is_an_os_error(path):
    program = """
import resource, sys
import numpy as np, thalweg
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
w = thalweg.Writer(sys.argv[1])
with w.step() as s:
    s["x"] = 1
try:
    with w.step() as s:
        s["x"] = 2
        s["v"] = np.ones(1 << 20)
except OSError as e:
    assert isinstance(e, thalweg.NoSpace), repr(e)
    assert e.file == sys.argv[1] and e.rank == 0 and e.step == 1, e.__dict__
    assert "step 0" in e.safe
    print("refused")
"""
    done = subprocess.run([sys.executable, "-c", program, path], check=True, capture_output=True, text=True)
    assert done.stdout == "refused\n"
    assert thalweg.open(path)["x"].value == 1


def test_a_communicator_is_one_of_mpi4py(path):
    with pytest.raises(thalweg.InvalidArgument, match="mpi4py"):
        thalweg.Writer(path, comm=3)


def test_alone_there_is_no_need_of_mpi4py(path):
    program = """
import sys
sys.modules["mpi4py"] = None
import thalweg
with thalweg.Writer(sys.argv[1]) as w, w.step() as s:
    s["x"] = 1
assert thalweg.open(sys.argv[1])["x"].value == 1
"""
    subprocess.run([sys.executable, "-c", program, path], check=True)


def test_a_first_output_imports_nothing(path):
    program = """
import sys
import numpy as np
import thalweg
before = set(sys.modules)
with thalweg.Writer(sys.argv[1]) as w, w.step() as s:
    s["x"], s["n"], s["t"] = np.arange(3.0), 1, "text"
    s.write("y", np.arange(4.0), shape=(8,), offset=(0,))
assert thalweg.open(sys.argv[1])["x"][0].sum() == 3
assert set(sys.modules) == before, set(sys.modules) - before
"""
    subprocess.run([sys.executable, "-c", program, path], check=True)


def test_what_the_program_does_between_outputs_is_in_the_profile(path):
    document = """<adios-config host-language="C">
      <adios-group name="g"><var name="n" type="integer"/></adios-group>
      <method group="g" method="POSIX">profile=yes</method></adios-config>"""
    with thalweg.Session(document) as session, session.writer(path) as w:
        with session.calculation():
            pass
        session.end_iteration()
        with w.step() as s:
            s["n"] = 1
    profile = Path(f"{path}.profile/step-0.json").read_text()
    assert '"calculation"' in profile and '"iteration"' in profile
