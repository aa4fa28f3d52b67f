"""Method `VTK`: the same program, with one word changed, writes files that ParaView opens, and a list of its steps."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as xml

import numpy as np
import pytest
import thalweg
from conftest import each_call_fails_once, field

vtk = pytest.importorskip("vtk")
from vtkmodules.util.numpy_support import vtk_to_numpy  # noqa: E402


def listed(path):
    return [entry.attrib for entry in xml.parse(path).getroot().iter("DataSet")]


def grid(path, entry):
    """A file of a list, as VTK reads it."""
    name = os.path.join(os.path.dirname(path), entry["file"])
    reader = {"vti": vtk.vtkXMLImageDataReader, "vtr": vtk.vtkXMLRectilinearGridReader}[name.rsplit(".", 1)[1]]()
    reader.SetFileName(name)
    reader.Update()
    assert not reader.GetErrorCode(), name
    return reader.GetOutput()


def values(path, entry, name):
    return vtk_to_numpy(grid(path, entry).GetPointData().GetArray(name))


def one_step(path, mode="w", parameters="", **variables):
    with thalweg.Writer(path, method="VTK", mode=mode, parameters=parameters) as w:
        w.attribute("units", "K", of="T")
        with w.step() as s:
            for name, value in variables.items():
                s[name] = value


def test_every_type_of_vtk_scalars_texts_and_units(tmp_path, caplog):
    types = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8")
    rng = np.random.default_rng(1)
    arrays = {f"of/{kind}": (rng.random((3, 4, 5)) * 100).astype(kind) for kind in types}
    one_step(
        tmp_path / "x.bp", T=field(), **arrays, t=0.125, n=np.int32(-7), title="Schritt <1> ü", psi=np.zeros(3, "c16"),
        thin=np.arange(16.0).reshape(2, 2, 2, 2), empty=np.empty((0, 4)),
    )
    listing = tmp_path / "x.pvd"
    by_name = {entry["name"]: entry for entry in listed(listing)}
    assert set(by_name) == {"24x32", "3x4x5"}
    for name, array in arrays.items():
        found = values(listing, by_name["3x4x5"], name.replace("/", "_"))
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array.ravel())
    T = grid(listing, by_name["24x32"])
    np.testing.assert_array_equal(vtk_to_numpy(T.GetPointData().GetArray("T")), field().ravel())
    assert T.GetPointData().GetArray("T").GetInformation().Get(vtk.vtkDataArray.UNITS_LABEL()) == "K"
    data = T.GetFieldData()
    assert (data.GetArray("t").GetValue(0), data.GetArray("n").GetValue(0)) == (0.125, -7)
    assert data.GetAbstractArray("title").GetValue(0) == "Schritt <1> ü"
    said = caplog.text
    for name, why in (("psi", "no such type"), ("thin", "one to three axes, not 4"), ("empty", "no elements")):
        assert f"x.pvd: {name}: " in said and why in said, said
    assert sorted(os.listdir(tmp_path)) == ["x.pvd", "x.pvd.dir"]
    assert sorted(os.listdir(tmp_path / "x.pvd.dir")) == ["000000.24x32.vti", "000000.3x4x5.vti"]


def test_it_stands_beside_a_method_whose_file_has_another_name(tmp_path):
    (tmp_path / "g.xml").write_text("""<adios-config host-language="C"><adios-group name="data">
        <var name="T" type="double" dimensions="3,4"/></adios-group>
        <method group="data" method="MPI"/><method group="data" method="VTK"/></adios-config>""")
    T = np.arange(12.0).reshape(3, 4)
    with thalweg.Writer(tmp_path / "run.bp", schema=tmp_path / "g.xml") as w, w.step() as s:
        s["T"] = T
    with thalweg.open(tmp_path / "run.bp") as f:
        np.testing.assert_array_equal(f["T"][0], T)
    (entry,) = listed(tmp_path / "run.pvd")
    np.testing.assert_array_equal(values(tmp_path / "run.pvd", entry, "T"), T.ravel())
    # The list of steps would take the place of the other method's file.
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(thalweg.Error, match="methods MPI and VTK of group .data. write the same files"):
        with thalweg.Writer(tmp_path / "other.pvd", schema=tmp_path / "g.xml") as w, w.step() as s:
            s["T"] = T
    assert sorted(os.listdir(tmp_path)) == before


MANY = """
import sys
import numpy as np
import thalweg
from mpi4py import MPI

path, mode, first = sys.argv[1:]
rank, ranks = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
with thalweg.Writer(path, method="VTK", mode=mode, comm=MPI.COMM_WORLD, parameters="sync=yes;time=t") as w:
    for step in range(int(first), int(first) + 3):
        u = np.arange(7 * 11 * 5.0).reshape(7, 11, 5) + 1000 * step
        rows = np.linspace(0, 7, ranks + 1).astype(int)
        columns = np.linspace(0, 11, ranks + 1).astype(int)
        with w.step() as s:
            s.write("rows", u[rows[rank] : rows[rank + 1]], shape=u.shape, offset=(rows[rank], 0, 0))
            s.write("columns", u[:, columns[rank] : columns[rank + 1]], shape=u.shape, offset=(0, columns[rank], 0))
            if rank == ranks - 1:
                # Of others nothing: these elements are missing.
                s.write("some", u[2:4, 3:9, 1:4], shape=u.shape, offset=(2, 3, 1))
            s["t"] = 0.1 * step
"""


def test_ranks_write_their_parts_of_a_file_and_a_series_goes_on(mpi, tmp_path):
    program, listing = tmp_path / "many.py", tmp_path / "x.pvd"
    program.write_text(MANY)
    mpi.run(program, tmp_path / "x.bp", "w", 0)
    mpi.run(program, tmp_path / "x.bp", "a", 3)
    entries = listed(listing)
    assert [float(entry["timestep"]) for entry in entries] == [0.1 * step for step in range(6)]
    for step, entry in enumerate(entries):
        whole = np.arange(7 * 11 * 5.0).reshape(7, 11, 5) + 1000 * step
        for name in ("rows", "columns"):
            np.testing.assert_array_equal(values(listing, entry, name), whole.ravel())
        some = np.full(whole.shape, np.nan)
        some[2:4, 3:9, 1:4] = whole[2:4, 3:9, 1:4]
        np.testing.assert_array_equal(values(listing, entry, "some"), some.ravel())
        assert grid(listing, entry).GetDimensions() == (5, 11, 7)
    assert sorted(os.listdir(tmp_path)) == ["many.py", "x.pvd", "x.pvd.dir"]
    # A new series takes the place of the old one.
    mpi.run(program, tmp_path / "x.bp", "w", 1)
    assert len(listed(listing)) == 3
    np.testing.assert_array_equal(values(listing, listed(listing)[0], "rows")[:2], [1000, 1001])
    assert sorted(os.listdir(tmp_path / "x.pvd.dir")) == [f"00000{step}.vti" for step in range(3)]


def test_what_vtk_cannot_have_is_refused_and_the_series_is_as_before(tmp_path):
    file, listing = tmp_path / "x.pvd", tmp_path / "x.pvd"
    one_step(file, T=field())

    def fails(words, mode="a", parameters="", **variables):
        with pytest.raises(thalweg.Error, match=words):
            one_step(file, mode, parameters, **variables)
        (entry,) = listed(listing)
        np.testing.assert_array_equal(values(listing, entry, "T"), field().ravel())
        assert os.listdir(tmp_path / "x.pvd.dir") == ["000000.vti"]
        assert [name for name in os.listdir(tmp_path) if name.startswith(".")] == []

    fails("shows arrays on grids, and the step has none", t=1.0)
    fails("VTK has no such type", psi=np.zeros(3, "c16"))
    fails("no type for long double", q=np.ones(3, np.longdouble))
    fails("scalar 'time' with the time is not written", parameters="time=time", T=field())
    fails("the time 'time' is NaN", parameters="time=time", T=field(), time=np.nan)
    fails("VTK has no such name", **{"a\x01b": field()})
    fails("update of a step", mode="u", T=field())
    (tmp_path / "other.pvd").write_text("<VTKFile><Collection><DataSet file='a.vtu'/></Collection></VTKFile>")
    with pytest.raises(thalweg.Error, match="no list of steps of method VTK"):
        one_step(tmp_path / "other.bp", "a", T=field())
    with pytest.raises(thalweg.Error, match="nowhere"):
        one_step(tmp_path / "nowhere" / "x.bp", T=field())


def test_a_mesh_whose_variables_are_not_written_is_named(tmp_path):
    schema = """<adios-config host-language="C" schema-version="1.1"><adios-group name="g">
        <var name="n" type="integer"/><var name="x" type="double" dimensions="n"/><var name="T" type="double" dimensions="n" mesh="m"/>
        <mesh name="m" type="rectilinear"><dimensions value="n"/><coordinates-single-var value="x"/></mesh>
        </adios-group><method group="g" method="VTK"/></adios-config>"""
    (tmp_path / "g.xml").write_text(schema)
    with thalweg.Writer(tmp_path / "x.bp", schema=tmp_path / "g.xml", group="g") as w:
        with w.step() as s:
            s["n"], s["x"], s["T"] = np.int32(3), np.array([0.0, 1, 4]), np.arange(3.0)
        with pytest.raises(thalweg.Error, match="needs the variable 'x'"):
            with w.step() as s:
                s["n"], s["T"] = np.int32(3), np.arange(3.0)
    (entry,) = listed(tmp_path / "x.pvd")
    np.testing.assert_array_equal(vtk_to_numpy(grid(tmp_path / "x.pvd", entry).GetXCoordinates()), [0, 1, 4])


def test_blocks_that_exceed_the_buffer_are_written_in_pieces(tmp_path):
    schema = """<adios-config host-language="C" schema-version="1.1"><adios-group name="g"><var name="o" type="integer"/>
        <global-bounds dimensions="4000,100" offsets="o,0"><var name="T" type="double" dimensions="1000,100" mesh="m"/>
        <var name="x" type="double" dimensions="1000,100"/><var name="y" type="double" dimensions="1000,100"/></global-bounds>
        <mesh name="m" type="structured"><dimensions value="4000,100"/><points-multi-var value="x,y"/></mesh>
        </adios-group><method group="g" method="VTK"/><buffer size-MB="1"/></adios-config>"""
    (tmp_path / "g.xml").write_text(schema)
    whole = {name: np.random.default_rng(n).random((4000, 100)) for n, name in enumerate("Txy")}
    with thalweg.Writer(tmp_path / "x.bp", schema=tmp_path / "g.xml", group="g") as w, w.step() as s:
        for row in range(0, 4000, 1000):
            for name, array in whole.items():
                s.write(name, array[row : row + 1000], shape=(4000, 100), offset=(row, 0))
        s["o"] = np.int32(0)
    (entry,) = listed(tmp_path / "x.pvd")
    reader = vtk.vtkXMLStructuredGridReader()
    reader.SetFileName(str(tmp_path / entry["file"]))
    reader.Update()
    found = reader.GetOutput()
    np.testing.assert_array_equal(vtk_to_numpy(found.GetPointData().GetArray("T")), whole["T"].ravel())
    points = vtk_to_numpy(found.GetPoints().GetData())
    np.testing.assert_array_equal(points, np.stack([whole["x"].ravel(), whole["y"].ravel(), np.zeros(400000)], axis=1))


RUNS = """
import sys
import numpy as np
import thalweg

with thalweg.Writer(sys.argv[1], method="VTK") as w:
    n = 0
    while True:
        with w.step() as s:
            s["T"] = np.full((50, 40), float(n))
            s["q"] = np.full((30, 20, 10), float(n))
        print(n, flush=True)
        n += 1
"""


def test_a_program_that_is_killed_leaves_the_steps_that_were_closed(tmp_path):
    program = tmp_path / "runs.py"
    program.write_text(RUNS)
    rng = random.Random(5)
    for number in range(40 if os.environ.get("LONG") == "1" else 8):
        file = tmp_path / f"{number}.bp"
        with subprocess.Popen([sys.executable, program, file], stdout=subprocess.PIPE, text=True) as process:
            closed = int(process.stdout.readline())
            time.sleep(rng.random() * 0.05)
            process.send_signal(signal.SIGKILL)
            closed = int(([str(closed)] + process.stdout.read().split())[-1])
        listing = tmp_path / f"{number}.pvd"
        entries = listed(listing)
        steps = len(entries) // 2
        assert closed + 1 <= steps <= closed + 2
        for at in {0, steps - 1}:
            for entry in entries[2 * at : 2 * at + 2]:
                name = {"50x40": "T", "30x20x10": "q"}[entry["name"]]
                assert (values(listing, entry, name) == at).all()
        # The next program goes on.
        one_step(file, "a", T=field())
        assert len(listed(listing)) == 2 * steps + 1


def test_a_full_disk_costs_the_output_alone(tmp_path):
    script = """
import resource, signal, sys
import numpy as np, thalweg
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with thalweg.Writer(sys.argv[1], method="VTK") as w:
    with w.step() as s:
        s["T"] = np.full((50, 40), 1.0)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        with w.step() as s:
            s["T"] = np.full((50, 40), 2.0)
            resource.setrlimit(resource.RLIMIT_FSIZE, (8000, before[1]))
        sys.exit("written")
    except thalweg.Error as e:
        assert "File too large" in str(e) and "still safe: the steps" in str(e), e
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    with w.step() as s:
        s["T"] = np.full((50, 40), 3.0)
"""
    ran = subprocess.run([sys.executable, "-c", script, tmp_path / "x.bp"], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    listing = tmp_path / "x.pvd"
    assert [values(listing, entry, "T")[0] for entry in listed(listing)] == [1.0, 3.0]
    assert sorted(os.listdir(tmp_path / "x.pvd.dir")) == ["000000.vti", "000001.vti"]


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is missing")
@pytest.mark.parametrize("call", ["pwrite64", "write", "openat", "mkdir,mkdirat", "renameat2,rename,renameat"])
def test_an_output_whose_call_of_the_system_fails_is_told_and_others_are_there(tmp_path, call):
    listing = tmp_path / "x.pvd"

    def forget():
        listing.unlink(missing_ok=True)
        shutil.rmtree(tmp_path / "x.pvd.dir", ignore_errors=True)

    for when, closed in each_call_fails_once(tmp_path, tmp_path / "x.bp", "VTK", call, lambda line: "x.pvd" in line, forget):
        found = []
        for entry in listed(listing) if listing.exists() else []:
            n = grid(listing, entry).GetFieldData().GetArray("n").GetValue(0)
            assert (values(listing, entry, "u") == n).all()
            found.append(n)
        assert [n for n in found if n in closed] == closed, (when, found, closed)
        assert len(closed) < 3 or found == [0, 1, 2], (when, found)
        assert [name for name in os.listdir(tmp_path) if name.startswith(".")] == []


def test_meshes_whose_names_are_alike_and_variables_by_their_last_names(tmp_path):
    schema = """<adios-config host-language="C" schema-version="1.1"><adios-group name="g">
        <var name="n" path="/grid" type="integer"/><var name="x" path="/grid" type="double" dimensions="/grid/n"/>
        <var name="T" type="double" dimensions="/grid/n" mesh="a b"/><var name="q" type="double" dimensions="/grid/n" mesh="a_b"/>
        <mesh name="a b" type="rectilinear"><dimensions value="n"/><coordinates-single-var value="x"/></mesh>
        <mesh name="a_b" type="rectilinear"><dimensions value="n"/><coordinates-single-var value="x"/></mesh>
        </adios-group><method group="g" method="VTK"/></adios-config>"""
    (tmp_path / "g.xml").write_text(schema)
    with thalweg.Writer(tmp_path / "x.bp", schema=tmp_path / "g.xml", group="g") as w, w.step() as s:
        s["grid/n"], s["grid/x"], s["T"], s["q"] = np.int32(3), np.array([0.0, 1, 4]), np.arange(3.0), np.arange(3.0) + 7
    first, second = listed(tmp_path / "x.pvd")
    for entry, name, wanted in ((first, "T", [0, 1, 2]), (second, "q", [7, 8, 9])):
        np.testing.assert_array_equal(values(tmp_path / "x.pvd", entry, name), wanted)
        np.testing.assert_array_equal(vtk_to_numpy(grid(tmp_path / "x.pvd", entry).GetXCoordinates()), [0, 1, 4])


def test_a_restart_drops_the_steps_behind(tmp_path):
    file = tmp_path / "x.bp"
    for n in range(5):
        one_step(file, "a", T=np.full((5, 4), float(n)))
    with thalweg.Writer(file, method="VTK", mode="a", after=1) as w, w.step() as s:
        s["T"] = np.full((5, 4), 10.0)
    listing = tmp_path / "x.pvd"
    assert [values(listing, entry, "T")[0] for entry in listed(listing)] == [0, 1, 10]
    assert sorted(os.listdir(tmp_path / "x.pvd.dir")) == ["000000.vti", "000001.vti", "000002.vti"]
