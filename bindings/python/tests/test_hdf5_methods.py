"""Methods `PHDF5` and `NC4`: the same program, with one word changed, writes files of HDF5 and netCDF-4."""

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
import thalweg
from conftest import ROOT, each_call_fails_once, field, write_run
from test_examples import launch, openmpi  # noqa: F401  (a fixture)

h5py = pytest.importorskip("h5py")
HEAT = ROOT / "examples" / "heat"


@pytest.fixture(autouse=True)
def installed(prefix, monkeypatch):
    """The program that is linked with HDF5 lies beside the command."""
    if not (prefix / "bin" / "thalweg-convert").exists():
        pytest.skip("thalweg-convert: HDF5 is missing")
    monkeypatch.setenv("THALWEG_COMMAND", str(prefix / "bin" / "thalweg"))


@pytest.fixture
def differences(prefix):
    def call(*words):
        command = [prefix / "bin" / "thalweg", "diff", *map(str, words)]
        ran = subprocess.run(command, capture_output=True, text=True)
        assert ran.returncode < 2, ran.stderr
        return ran.stdout.splitlines()[:-1]

    return call


def everything(path, method):
    def more(s, n):
        for kind in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"):
            s[f"of/each/{kind}"] = np.arange(60, dtype=kind).reshape(3, 4, 5) + n
        s["empty"] = np.empty((0, 4))

    write_run(path, more, method=method)


@pytest.mark.parametrize("method", ["PHDF5", "NC4"])
def test_files_have_what_bp_files_have_and_every_tool_opens_them(differences, tmp_path, method):
    file = tmp_path / ("x.nc" if method == "NC4" else "x.h5")
    everything(tmp_path / "x.bp", "MPI")
    everything(file, method)
    assert differences(tmp_path / "x.bp", file) == []
    with h5py.File(file) as f:
        np.testing.assert_array_equal(f["T"], [field(n) for n in range(4)])
        assert [list(axis.keys()) for axis in f["T"].dims][0] == ["step"]
        assert list(f["title"].asstr()) == [f"Schritt {n} ü" for n in range(4)]
        assert f["particles/step_2/block_0"].shape == (5,)
    netcdf = pytest.importorskip("netCDF4")
    with netcdf.Dataset(file) as f:
        assert f["T"].dimensions == ("step", "y", "x") and f.dimensions["step"].isunlimited()
        np.testing.assert_array_equal(f["of"]["each"]["u8"][3], np.arange(60).reshape(3, 4, 5) + 3)
    xr = pytest.importorskip("xarray")
    for engine in ("netcdf4", "h5netcdf"):
        with xr.open_dataset(file, engine=engine) as opened:
            assert opened["T"].dims == ("step", "y", "x") and opened["T"].attrs["units"] == "K"
            np.testing.assert_array_equal(opened["time"], [0.0, 0.5, 1.0, 1.5])
    if shutil.which("ncdump"):
        assert b"step = UNLIMITED ; // (4 currently)" in subprocess.run(["ncdump", "-h", file], capture_output=True, check=True).stdout


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("language", ["c", "f90", "cpp"])
def test_one_word_of_the_xml_makes_them(prefix, openmpi, differences, tmp_path, language, ranks):  # noqa: F811
    compiler = {"c": "mpicc", "f90": "mpif90", "cpp": "mpicxx"}[language] + ".openmpi"
    package = {"c": "thalweg-openmpi", "f90": "thalweg-fortran-openmpi", "cpp": "thalweg-cpp"}[language]
    env = {**os.environ, "PKG_CONFIG_PATH": f"{prefix}/lib/pkgconfig"}
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", package], env=env, capture_output=True, text=True)
    if flags.returncode != 0 or shutil.which(compiler) is None:
        pytest.skip(f"no {package}")
    more = ["-std=c++17"] if language == "cpp" else []
    if language == "cpp":
        mpi = subprocess.run(["pkg-config", "--libs", "thalweg-openmpi"], env=env, capture_output=True, text=True, check=True)
        more += mpi.stdout.split()
    program = tmp_path / "heat"
    subprocess.run([compiler, "-O2", "-ffp-contract=off", HEAT / f"heat.{language}", *flags.stdout.split(), *more, "-o", program], check=True)
    text = (HEAT / "heat.xml").read_text()
    if language == "f90" and ranks == 3:
        # The same shapes as Fortran lists them: the fastest dimension first.
        for c, fortran in (('"C"', '"Fortran"'), ('"ny,nx"', '"nx,ny"'), ('"first,0"', '"0,first"'), ('"rows,nx"', '"nx,rows"')):
            assert c in text
            text = text.replace(c, fortran)
    for method, name in (("MPI", "x.bp"), ("PHDF5", "x.h5"), ("NC4", "x.nc")):
        (tmp_path / "heat.xml").write_text(text.replace('method="MPI"', f'method="{method}"'))
        launch(openmpi, ranks, program, tmp_path / "heat.xml", tmp_path / name)
    for name in ("x.h5", "x.nc"):
        assert differences(tmp_path / "x.bp", tmp_path / name) == []
    with h5py.File(tmp_path / "x.h5") as f:
        assert f["T"].shape == (5, 24, 32) and list(f["iteration"]) == [0, 50, 100, 150, 200]


MANY = """
import sys
import numpy as np
import thalweg
from mpi4py import MPI

path, method, mode, first = sys.argv[1:]
rank, ranks = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
rng = np.random.default_rng(3)
with thalweg.Writer(path, method=method, mode=mode, comm=MPI.COMM_WORLD, parameters="sync=yes") as w:
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
            s.write("own", np.full(rank + 1, rank, dtype="i4"))
            s["time"] = 0.1 * step
"""


@pytest.mark.parametrize("method", ["PHDF5", "NC4"])
def test_ranks_write_their_parts_of_one_file(mpi, tmp_path, method):
    program, file = tmp_path / "many.py", tmp_path / "x.h5"
    program.write_text(MANY)
    mpi.run(program, file, method, "w", 0)
    mpi.run(program, file, method, "a", 3)
    whole = np.array([np.arange(7 * 11 * 5.0).reshape(7, 11, 5) + 1000 * step for step in range(6)])
    with h5py.File(file) as f:
        np.testing.assert_array_equal(f["rows"], whole)
        np.testing.assert_array_equal(f["columns"], whole)
        some = np.full(whole.shape, np.nan)
        some[:, 2:4, 3:9, 1:4] = whole[:, 2:4, 3:9, 1:4]
        np.testing.assert_array_equal(f["some"], some)
        np.testing.assert_array_equal(f["time"], 0.1 * np.arange(6))
        np.testing.assert_array_equal(f["step"], np.arange(6))
        for rank in range(mpi.ranks):
            np.testing.assert_array_equal(f[f"own/step_5/block_{rank}"], [rank] * (rank + 1))
    assert sorted(os.listdir(tmp_path)) == ["many.py", "x.h5"]


FAILS = """
import resource
import signal
import sys
import numpy as np
import thalweg
from mpi4py import MPI

path = sys.argv[1]
rank, ranks = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
said = []
with thalweg.Writer(path, method="PHDF5", mode="a", comm=MPI.COMM_WORLD) as w:
    for n, what in enumerate(["", "shape", "", "limit", ""]):
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        try:
            with w.step() as s:
                # One rank alone: another shape, or a limit below the place of its block.
                rows = 2 * ranks + (what == "shape" and rank == ranks - 1)
                s.write("a", np.full((2, 1000), 10.0 * n + rank), shape=(rows, 1000), offset=(2 * rank, 0))
                if what == "limit" and rank == ranks - 1:
                    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
            said.append("written")
        except thalweg.Error as e:
            said.append(str(e))
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
for texts in MPI.COMM_WORLD.gather(said) or []:
    assert [text == "written" for text in texts] == [True, False, True, False, True], texts
    assert '("a")' in texts[1] and "shape" in texts[1], texts[1]
    assert "x.h5 at byte" in texts[3] and '("a")' in texts[3] and "File too large" in texts[3] and f"rank {ranks - 1}" in texts[3], texts[3]
    assert all("still safe: the steps of the file that were closed before" in text for text in (texts[1], texts[3])), texts
"""


def test_one_rank_that_fails_is_named_on_all_and_costs_its_output_alone(mpi, tmp_path):
    program, file = tmp_path / "fails.py", tmp_path / "x.h5"
    program.write_text(FAILS)
    mpi.run(program, file)
    with h5py.File(file) as f:
        assert len(f["step"]) == 3
        for step, n in enumerate((0, 2, 4)):
            for rank in range(mpi.ranks):
                assert (f["a"][step, 2 * rank : 2 * rank + 2] == 10 * n + rank).all()


def test_outputs_of_several_files_in_flight_do_not_meet(tmp_path):
    names = [f"{k}.h5" for k in range(4)]
    writers = [thalweg.Writer(tmp_path / name, method="PHDF5", parameters="async=yes") for name in names]
    for n in range(5):
        for k, w in enumerate(writers):
            with w.step() as s:
                s["a"] = np.full((300, 1000), 10.0 * k + n)
    for w in writers:
        w.close()
    for k, name in enumerate(names):
        with h5py.File(tmp_path / name) as f:
            assert [(f["a"][n] == 10.0 * k + n).all() for n in range(5)] == [True] * 5


def one_step(path, mode="w", **variables):
    with thalweg.Writer(path, method="PHDF5", mode=mode) as w, w.step() as s:
        for name, value in variables.items():
            s[name] = value


def test_what_a_file_cannot_hold_is_refused_and_the_file_is_as_before(tmp_path, monkeypatch):
    file = tmp_path / "x.h5"
    one_step(file, a=np.arange(6.0), n=3)

    def fails(words, **variables):
        with pytest.raises(thalweg.Error, match=words):
            one_step(file, mode="a", **variables)
        with h5py.File(file) as f:
            assert set(f) == {"step", "a", "n", "dim_0"}
            assert (list(f["step"]), list(f["n"])) == ([0], [3])
            np.testing.assert_array_equal(f["a"], [np.arange(6)])

    fails("one shape in all steps", a=np.arange(7.0))
    fails("another type", a=np.arange(6))
    fails("axis of the file has this name", dim_0=np.arange(2))
    fails("axis of steps has this name", step=np.arange(2))
    fails("below that of the variable", **{"b": 1, "b/c": 2})
    one_step(file, mode="a", a=np.arange(6.0), n=4)
    with h5py.File(tmp_path / "other.h5", "w") as f:
        f["a"] = np.arange(3)
    with pytest.raises(thalweg.Error, match="no axis of steps"):
        one_step(tmp_path / "other.h5", mode="a", a=np.arange(3))
    (tmp_path / "text.h5").write_text("no HDF5")
    with pytest.raises(thalweg.Error, match="text.h5"):
        one_step(tmp_path / "text.h5", mode="a", a=np.arange(3))
    with pytest.raises(thalweg.Error, match="nowhere"):
        one_step(tmp_path / "nowhere" / "x.h5", a=np.arange(3))
    (tmp_path / "m").mkdir()
    (tmp_path / "store").mkdir()
    (tmp_path / "mounts.toml").write_text(f'[[mount]]\npath = "{tmp_path}/m"\nlayout = "container"\nstore = "posix:{tmp_path}/store"\n')
    # A process reads the table once.
    script = f"import numpy, test_hdf5_methods as t; t.one_step({str(tmp_path / 'm' / 'x.h5')!r}, a=numpy.arange(3))"
    env = {**os.environ, "THALWEG_MOUNTS": str(tmp_path / "mounts.toml"), "PYTHONPATH": os.path.dirname(__file__)}
    ran = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True)
    assert ran.returncode == 1 and "this is a mount" in ran.stderr, ran.stderr
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setenv("THALWEG_COMMAND", "/nonexistent/thalweg")
    with pytest.raises(thalweg.Error, match="libhdf5-dev"):
        one_step(file, mode="a", a=np.arange(6.0))
    with h5py.File(file) as f:
        assert list(f["n"]) == [3, 4]
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


def test_an_update_adds_to_the_last_step_and_changes_nothing(tmp_path):
    file = tmp_path / "x.h5"
    one_step(file, "u", a=np.arange(3.0))
    one_step(file, "a", a=np.arange(3.0) + 1)
    one_step(file, "u", b=np.arange(4), n=7)
    for again in ({"a": np.arange(3.0)}, {"n": 8}):
        with pytest.raises(thalweg.Error, match="update does not change"):
            one_step(file, "u", **again)
    with h5py.File(file) as f:
        assert len(f["step"]) == 2 and list(f["n"]) == [0, 7]
        np.testing.assert_array_equal(f["a"], [[0, 1, 2], [1, 2, 3]])
        np.testing.assert_array_equal(f["b"], [[0] * 4, [0, 1, 2, 3]])


def test_attributes_that_stay_are_written_once(tmp_path):
    """An object of HDF5 counts the attributes that it ever had in 16 bits."""
    file = tmp_path / "x.h5"
    with thalweg.Writer(file, method="PHDF5", mode="a") as w:
        w.attribute("code", "heat")
        for key in range(5):
            w.attribute(f"number{key}", [1.5, key], of="a")
        for n in range(20):
            with w.step() as s:
                s["a"] = np.arange(3) + n
    with thalweg.Writer(file, method="PHDF5", mode="a") as w:
        w.attribute("code", "other")
        with w.step() as s:
            s["a"] = np.arange(3)
    with h5py.File(file) as f:
        assert f.attrs["code"] == "other" and list(f["a"].attrs["number4"]) == [1.5, 4]
    if shutil.which("h5stat"):
        assert file.stat().st_size < 60_000


def test_a_program_with_many_arrays_that_dies_leaves_the_file_as_it_was(tmp_path):
    """What HDF5 says of so many does not fit its cache as it comes."""
    script = textwrap.dedent(f"""
        import os, signal, sys
        import numpy as np, thalweg
        def one(mode, n, dies):
            with thalweg.Writer({str(tmp_path / "x.h5")!r}, method="PHDF5", mode=mode) as w, w.step() as s:
                for k in range(3000):
                    s[f"g{{k % 7}}/v{{k}}"] = np.full(10, n + k)
                if dies:
                    # Refused when all others have their places.
                    s["z/last"] = np.arange(7 if n else 8)
                else:
                    s["z/last"] = np.arange(8)
        one("w", 0, False)
        try:
            one("a", 1, True)
            sys.exit("the step was written")
        except thalweg.Error as e:
            assert "one shape" in str(e), e
    """)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with h5py.File(tmp_path / "x.h5") as f:
        assert list(f["step"]) == [0]
        for k in range(3000):
            assert f[f"g{k % 7}/v{k}"].shape == (1, 10) and f[f"g{k % 7}/v{k}"][0, 0] == k


def test_blocks_that_exceed_the_buffer_are_written_in_pieces(tmp_path):
    schema = '''<adios-config host-language="C"><adios-group name="g"><var name="o" type="integer"/><global-bounds dimensions="4000,100" offsets="o,0">
        <var name="v" type="double" dimensions="1000,100"/></global-bounds><var name="w" type="double" dimensions="100,1000"/></adios-group>
        <method group="g" method="PHDF5"/><buffer size-MB="1"/></adios-config>'''
    (tmp_path / "g.xml").write_text(schema)
    v, other = np.random.default_rng(1).random((2, 4000, 100)), np.random.default_rng(2).random((2, 100, 1000))
    with thalweg.Writer(tmp_path / "x.h5", schema=tmp_path / "g.xml", group="g") as w:
        for n in range(2):
            with w.step() as s:
                for row in range(0, 4000, 1000):
                    s.write("v", v[n, row : row + 1000], shape=(4000, 100), offset=(row, 0))
                s["w"] = other[n]
    with h5py.File(tmp_path / "x.h5") as f:
        np.testing.assert_array_equal(f["v"], v)
        np.testing.assert_array_equal(f["w"], other)


def test_a_variable_that_is_missing_in_some_steps_has_missing_values_there(tmp_path):
    file = tmp_path / "x.h5"
    one_step(file, a=np.arange(3.0), t=1.0)
    one_step(file, "a", b=np.arange(4.0), i=np.arange(4))
    one_step(file, "a", a=np.arange(3.0) + 2, t=3.0, i=np.arange(4) + 2)
    with h5py.File(file) as f:
        np.testing.assert_array_equal(f["a"], [[0, 1, 2], [np.nan] * 3, [2, 3, 4]])
        np.testing.assert_array_equal(f["b"], [[np.nan] * 4, [0, 1, 2, 3]])
        np.testing.assert_array_equal(f["i"], [[0] * 4, [0, 1, 2, 3], [2, 3, 4, 5]])
        np.testing.assert_array_equal(f["t"], [1, np.nan, 3])
        np.testing.assert_array_equal(f["step"], [0, 1, 2])


def test_a_new_file_takes_the_place_of_an_older_one_when_its_first_step_is_whole(tmp_path):
    file = tmp_path / "x.h5"
    one_step(file, a=np.arange(3.0))
    before = file.read_bytes()
    with pytest.raises(thalweg.Error):
        one_step(file, **{"b": 1, "b/c": 2})
    assert file.read_bytes() == before
    one_step(file, b=np.arange(4))
    with h5py.File(file) as f:
        assert "a" not in f and list(f["b"][0]) == [0, 1, 2, 3]
    assert os.listdir(tmp_path) == ["x.h5"]


STEPS = """
import os
import sys
import numpy as np
import thalweg

path, method = sys.argv[1:]
n = 0
with thalweg.Writer(path, method=method, mode="a") as w:
    while True:
        with w.step() as s:
            s["u"] = np.full((50, 1000), float(n))
            s["n"] = n
        print(n, flush=True)
        n += 1
"""


def wait_for_the_end():
    """The program that is linked with HDF5 ends with the one that has started it."""
    for _ in range(100):
        left = subprocess.run(["pgrep", "-f", "thalweg-convert output"], capture_output=True, text=True).stdout.split()
        if not left:
            break
        time.sleep(0.1)
    assert left == []


def test_steps_that_were_closed_survive_the_death_of_the_program(tmp_path):
    program = tmp_path / "steps.py"
    program.write_text(STEPS)
    rng = np.random.default_rng(11)
    for round in range(60 if os.environ.get("LONG") == "1" else 6):
        file = tmp_path / f"{round}.h5"
        with subprocess.Popen([sys.executable, program, file, "PHDF5"], stdout=subprocess.PIPE, text=True) as process:
            said = [process.stdout.readline()]
            time.sleep(rng.uniform(0, 0.2))
            process.send_signal(signal.SIGKILL)
            said += process.stdout.readlines()
        wait_for_the_end()
        closed = len([line for line in said if line.endswith("\n")])
        assert closed >= 1
        with h5py.File(file) as f:
            assert closed <= len(f["step"]) <= closed + 1
            for step in range(len(f["step"])):
                assert f["n"][step] == step and (f["u"][step] == step).all()


@pytest.mark.skipif(os.getuid() != 0, reason="a file system of its own needs root")
def test_a_full_disk_loses_one_output_and_no_more(tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", small], check=True)
    try:
        file = small / "x.h5"
        one_step(file, a=np.full(20_000, 1.0))
        with pytest.raises(thalweg.Error) as failed:
            for n in range(2, 20):
                one_step(file, "a", a=np.full(20_000, float(n)))
        assert failed.value.kind == "no-space" or "No space" in str(failed.value), failed.value
        with h5py.File(file) as f:
            closed = len(f["step"])
            assert closed == n - 1
            for step in range(closed):
                assert (f["a"][step] == step + 1).all()
        subprocess.run(["mount", "-o", "remount,size=4m", small], check=True)
        one_step(file, "a", a=np.full(20_000, float(n)))
        with h5py.File(file) as f:
            np.testing.assert_array_equal(f["a"][:, -1], np.arange(1, n + 1))
    finally:
        subprocess.run(["umount", "-l", small], check=True)


def test_a_program_that_uses_hdf5_itself_writes_beside_it(tmp_path):
    """The library that h5py brings and the one of this method are not in one process."""
    with h5py.File(tmp_path / "own.h5", "w") as f:
        f["a"] = np.arange(5)
        one_step(tmp_path / "x.h5", a=np.arange(5.0))
        f["b"] = np.arange(6)
    with h5py.File(tmp_path / "own.h5") as f, h5py.File(tmp_path / "x.h5") as x:
        assert set(f) == {"a", "b"} and x["a"].shape == (1, 5)


def test_a_program_that_ends_leaves_no_other_behind(tmp_path):
    script = textwrap.dedent(f"""
        import numpy as np, os, thalweg
        w = thalweg.Writer({str(tmp_path / "x.h5")!r}, method="PHDF5")
        with w.step() as s:
            s["a"] = np.arange(3)
        os._exit(0)
    """)
    subprocess.run([sys.executable, "-c", script], check=True)
    wait_for_the_end()
    with h5py.File(tmp_path / "x.h5") as f:
        assert list(f["a"][0]) == [0, 1, 2]


def test_readers_and_writers_do_not_keep_each_other_out(tmp_path):
    file = tmp_path / "x.h5"
    show = "import sys, h5py; f = h5py.File(sys.argv[1]); print(len(f['n']), flush=True); sys.stdin.read()"
    readers = []
    with thalweg.Writer(file, method="PHDF5") as w:
        for n in range(3):
            with w.step() as s:
                s["a"] = np.arange(3) + n
                s["n"] = n
            # They have the file open while the next step is written.
            readers.append(subprocess.Popen([sys.executable, "-c", show, file], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
            assert readers[-1].stdout.readline() == f"{n + 1}\n"
    for reader in readers:
        reader.communicate()
        assert reader.returncode == 0


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is missing")
@pytest.mark.parametrize("call", ["pwrite64", "openat", "ftruncate", "renameat2,rename,renameat", "sendto"])
def test_an_output_whose_call_of_the_system_fails_is_told_and_others_are_there(tmp_path, call):
    """The calls of the ranks and of the program that is linked with HDF5; each fails once, a few of them in daily tests."""
    file = tmp_path / "x.h5"

    def forget():
        for name in (file, tmp_path / ".thalweg-new-x.h5"):
            name.unlink(missing_ok=True)

    def is_ours(line):
        return "x.h5" in line or call in ("pwrite64", "ftruncate", "sendto")

    most = None if os.environ.get("LONG") == "1" else 6
    for when, closed in each_call_fails_once(tmp_path, file, "PHDF5", call, is_ours, forget, most):
        if not file.exists():
            assert closed == [], when
            continue
        with h5py.File(file) as f:
            found = [int(n) for n in f["n"]]
            assert len(f["step"]) == len(found) == len(f["u"])
            # An output that failed is not there, unless it failed after its commit; those that were closed are.
            assert [n for n in found if n in closed] == closed, (when, found, closed)
            for n, u in zip(found, f["u"]):
                assert (u == n).all(), (when, n)
