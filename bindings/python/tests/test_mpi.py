"""Writing on the ranks of an MPI that mpi4py has loaded."""

import os
import subprocess
import sys

import numpy as np
import pytest
import thalweg
from conftest import Mpi, of_mpich

WRITE = """
import sys
import numpy as np, thalweg
from mpi4py import MPI
comm = MPI.COMM_WORLD
path, method = sys.argv[1:]
rows = 3 + comm.rank                      # each rank another share
first = sum(3 + r for r in range(comm.rank))
total = sum(3 + r for r in range(comm.size))
with thalweg.Writer(path, comm=comm, method=method) as w:
    assert (w.rank, w.size) == (comm.rank, comm.size)
    for n in range(3):
        with w.step() as s:
            T = np.asfortranarray(np.arange(first * 5, (first + rows) * 5, dtype=float).reshape(rows, 5) + 1000 * n)
            s.write("T", T, shape=(total, 5), offset=(first, 0), copy=n != 1)
            if comm.rank == 1:
                s.write("own", np.arange(2 + n))   # a name that others don't have, in front of one they have
            s["rank"] = comm.rank
            if comm.rank == 0:
                s["time"] = 0.5 * n
"""


@pytest.mark.parametrize("method", ["MPI", "POSIX"])
def test_ranks_write_one_file_together(mpi, tmp_path, method):
    path = str(tmp_path / "run.bp")
    program = tmp_path / "write.py"
    program.write_text(WRITE)
    mpi.run(program, path, method)
    f = thalweg.open(path)
    total = sum(3 + r for r in range(mpi.ranks))
    assert f["T"].shape == (3, total, 5)
    for n in range(3):
        np.testing.assert_array_equal(f["T"][n].ravel(), np.arange(total * 5) + 1000.0 * n)
    assert [b.rank for b in f["T"].blocks()] == list(range(mpi.ranks))
    assert [b.value for b in f["rank"].blocks(1)] == list(range(mpi.ranks))
    np.testing.assert_array_equal(f["time"][:], [0, 0.5, 1])
    np.testing.assert_array_equal(f["own"][2], range(4))
    assert f.finished


def open_subfiles(path):
    """How many subfiles of a file this process has open."""
    links = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            links.append(os.readlink(f"/proc/self/fd/{fd}"))
        except FileNotFoundError:  # the folder's own
            pass
    return len({link for link in links if link.startswith(f"{path}.dir/")})


def test_one_block_is_looked_up_without_the_others(mpi, tmp_path):
    path = str(tmp_path / "run.bp")
    program = tmp_path / "write.py"
    program.write_text(WRITE)
    mpi.run(program, path, "POSIX")
    f = thalweg.open(path)
    block = f["T"].block(1, 0)
    assert (block.number, block.rank, block.shape) == (1, 1, (4, 5))
    assert open_subfiles(path) == 1
    assert len(f["T"].blocks(0)) == mpi.ranks
    assert open_subfiles(path) == mpi.ranks


FAIL = """
import sys
import numpy as np, thalweg
from mpi4py import MPI
comm = MPI.COMM_WORLD
said = ""
try:
    with thalweg.Writer(sys.argv[1], comm=comm) as w:
        for n in range(3):
            with w.step() as s:
                s.write("v", np.full(2, comm.rank), shape=(2 * comm.size,), offset=(2 * comm.rank,))
                if n == 1 and comm.rank == 1:
                    raise RuntimeError("the solver gave up")
except RuntimeError as e:
    said = f"own: {e}"
except thalweg.Error as e:
    said = f"{type(e).__name__} by {e.reported_by}, safe: {e.safe}"
everyone = comm.gather(said)
if comm.rank == 0:
    print(*everyone, sep="\\n")
"""


def test_an_exception_on_one_rank_reaches_all_and_costs_no_other_data(mpi, tmp_path):
    path = str(tmp_path / "run.bp")
    program = tmp_path / "fail.py"
    program.write_text(FAIL)
    said = mpi.run(program, path).splitlines()
    assert said[1] == "own: the solver gave up"
    for line in said[:1] + said[2 : mpi.ranks]:
        if not line.startswith(" "):
            assert line.startswith("InvalidArgument by 1"), said
    f = thalweg.open(path)
    assert len(f.steps) == 2
    assert f.status["partial"] == [(1, 1, "invalid argument")]
    np.testing.assert_array_equal(f["v"][0], np.repeat(np.arange(mpi.ranks), 2))
    assert [b.rank for b in f["v"].blocks(1)] == [r for r in range(mpi.ranks) if r != 1]


REFUSED = """
import sys
import thalweg
from mpi4py import MPI
comm = MPI.COMM_WORLD
xml = "<adios-config><adios-group name='g'/></adios-config>" if comm.rank != 1 else "<adios-config><oops/></adios-config>"
try:
    thalweg.Writer(sys.argv[1], xml, comm=comm)
except thalweg.Config as e:
    print("refused", flush=True)
"""


def test_a_configuration_that_one_rank_refuses_is_refused_by_all(mpi, tmp_path):
    program = tmp_path / "refused.py"
    program.write_text(REFUSED)
    assert mpi.run(program, tmp_path / "run.bp").count("refused") == mpi.ranks


MISTAKE = """
import sys
import numpy as np, thalweg
from mpi4py import MPI

class NoWords(Exception):
    def __str__(self):
        raise RuntimeError("no words")

class Raises:
    def __init__(self, error=RuntimeError("not today")):
        self.error = error
    def __fspath__(self):
        raise self.error
    def __array__(self, dtype=None, copy=None):
        raise self.error

def write(path=sys.argv[1], schema=None, size=None, values=np.zeros(3), **options):
    with thalweg.Writer(path, schema, comm=comm, **options) as w, w.step(size) as s:
        s.write("v", values)

comm = MPI.COMM_WORLD
wrong = eval(sys.argv[2]) if comm.rank == 1 else {}
said = "no error"
try:
    write(**wrong)
except thalweg.Error as e:
    said = f"{e.kind} by {e.reported_by}"
except Exception as e:
    said = f"own {type(e).__name__}"
everyone = comm.gather(said)
if comm.rank == 0:
    print(*everyone, sep="\\n")
"""

MISTAKES = {
    "dict(path=Raises())": ("own RuntimeError", "invalid argument by 1"),
    "dict(path=b'bytes.bp')": ("invalid argument by None", "invalid argument by 1"),
    "dict(path='\\udcff.bp')": ("invalid argument by None", "invalid argument by 1"),
    "dict(mode='x')": ("invalid argument by None", "invalid argument by 1"),
    "dict(after=1)": ("invalid argument by None", "invalid argument by 1"),
    "dict(mode='a', after='one')": ("own TypeError", "invalid argument by 1"),
    "dict(mode='a', after=-1)": ("invalid argument by None", "invalid argument by 1"),
    "dict(schema=Raises())": ("own RuntimeError", "invalid argument by 1"),
    "dict(schema=[thalweg.Schema('g'), thalweg.Schema('g')])": ("configuration error by None", "configuration error by 1"),
    "dict(method='NOSUCH')": ("configuration error by None", "configuration error by 1"),
    "dict(group=3)": ("own TypeError", "invalid argument by 1"),
    "dict(buffer_limit='much')": ("own TypeError", "invalid argument by 1"),
    "dict(buffer_limit=-1)": ("own OverflowError", "invalid argument by 1"),
    "dict(size='much')": ("own TypeError", "invalid argument by 1"),
    "dict(values=Raises())": ("own RuntimeError", "invalid argument by 1"),
    # Their texts cannot be sent.
    "dict(path=Raises(KeyError('\\udcff')))": ("own KeyError", "invalid argument by 1"),
    "dict(path=Raises(NoWords()))": ("own NoWords", "invalid argument by 1"),
    "dict(values=Raises(OSError('\\udcff')))": ("own OSError", "invalid argument by 1"),
    "dict(values=Raises(NoWords()))": ("own NoWords", "invalid argument by 1"),
}


@pytest.mark.parametrize("wrong", MISTAKES)
def test_a_mistake_of_one_rank_in_a_collective_call_lets_the_others_return(mpi, tmp_path, wrong):
    program = tmp_path / "mistake.py"
    program.write_text(MISTAKE)
    said = mpi.run(program, tmp_path / "run.bp", wrong, ranks=2).splitlines()
    own, others = MISTAKES[wrong]
    assert said == [others, own]


SHARED = """
import sys
import thalweg
from mpi4py import MPI
comm = MPI.COMM_WORLD
session = thalweg.Session(thalweg.Schema("g").scalar("n", "i8"), comm)
try:
    with session.writer(sys.argv[1], mode="wx"[comm.rank]) as w, w.step() as s:
        s["n"] = 1
except thalweg.InvalidArgument as e:
    print("refused", flush=True)
"""


def test_a_mistake_of_one_rank_in_a_writer_of_a_session_lets_the_others_return(mpi, tmp_path):
    program = tmp_path / "shared.py"
    program.write_text(SHARED)
    assert mpi.run(program, tmp_path / "run.bp", ranks=2).count("refused") == 2


UNREACHABLE = """
import sys
import thalweg, thalweg.mpi
from mpi4py import MPI
comm = MPI.COMM_WORLD

def find():
    raise PermissionError("not for you")

if comm.rank == int(sys.argv[2]):
    thalweg.mpi.find = find
try:
    thalweg.Writer(sys.argv[1], comm=comm)
except thalweg.Unsupported as e:
    if "not for you" in str(e):
        print("refused", flush=True)
"""


@pytest.mark.parametrize("rank", [0, 1])
def test_a_library_that_one_rank_cannot_look_for_lets_the_others_return(mpi, tmp_path, rank):
    program = tmp_path / "unreachable.py"
    program.write_text(UNREACHABLE)
    assert mpi.run(program, tmp_path / "run.bp", rank, ranks=2).count("refused") == 2


def test_what_reaches_mpi_is_built_once(mpi, tmp_path):
    program = tmp_path / "write.py"
    program.write_text(WRITE)
    cache = tmp_path / "cache"
    for n in range(2):
        mpi.run(program, tmp_path / f"{n}.bp", "MPI", ranks=2, cache=cache)
        (library,) = cache.iterdir()
        assert library.name.startswith(f"shim-{mpi.name}-")
        made = os.stat(library).st_mtime_ns
        if n == 0:
            first = made
    assert made == first


def test_what_is_missing_is_said(tmp_path):
    """No compiler, no library: the message names what was looked for."""
    pytest.importorskip("mpi4py")
    program = """
import os, thalweg
from mpi4py import MPI
os.environ["PATH"] = "/nowhere"
try:
    thalweg.Writer("x.bp", comm=MPI.COMM_SELF)
except thalweg.Unsupported as e:
    print(e)
"""
    mpi = Mpi("openmpi")
    env = {k: v for k, v in os.environ.items() if k not in ("MPICC", "THALWEG_PREFIX", "THALWEG_MPI_LIBRARY")}
    env.update(THALWEG_CACHE=str(tmp_path))
    if mpi.launcher is None:
        env.update(of_mpich())
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True, cwd=tmp_path)
    for word in ("no mpicc", "THALWEG_PREFIX", "THALWEG_MPI_LIBRARY", "libthalweg-"):
        assert word in done.stdout, done.stdout + done.stderr
    env["THALWEG_MPI_LIBRARY"] = "/no/such.so"
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert "/no/such.so" in done.stdout


def test_a_compiler_is_known_by_what_it_defines(tmp_path, monkeypatch):
    from thalweg import mpi

    for words, known in [
        ("#define OPEN_MPI 1", "openmpi"),
        ('#define MPICH_VERSION "5.0"\n#define MPI_ABI_VERSION 1', "mpich"),
        ("#define MPI_ABI_VERSION 1", "abi"),
    ]:
        compiler = tmp_path / f"mpicc_of_{known}"
        compiler.write_text(f"#!/bin/sh\ncat <<'E'\n{words}\nE\n")
        compiler.chmod(0o755)
        monkeypatch.setenv("MPICC", str(compiler))
        monkeypatch.setitem(mpi._COMPILERS, known, "none")
        tried = []
        assert mpi._compiler(known, tried) == str(compiler), tried
        other = "mpich" if known != "mpich" else "abi"
        monkeypatch.setattr("shutil.which", lambda name: str(compiler) if name == str(compiler) else None)
        assert mpi._compiler(other, tried) is None and f"{compiler} belongs to {known}" in tried


def test_what_was_installed_is_used_where_nothing_can_be_built(tmp_path):
    pytest.importorskip("mpi4py")
    from thalweg import _core

    mpi = Mpi("openmpi")
    if mpi.launcher is None:
        pytest.skip("no Open MPI")
    (tmp_path / "shim.c").write_text(_core.SHIM_SOURCE)
    (tmp_path / "thalweg_mpi.h").write_text(_core.SHIM_HEADER)
    (tmp_path / "lib").mkdir()
    library = tmp_path / "lib" / f"libthalweg-openmpi.so.{_core.ABI}"
    subprocess.run(["mpicc.openmpi", "-shared", "-fPIC", tmp_path / "shim.c", "-o", library], check=True)
    program = """
import os, thalweg, thalweg.mpi
from mpi4py import MPI
os.environ["PATH"] = "/nowhere"
with thalweg.Writer("x.bp", comm=MPI.COMM_WORLD) as w, w.step() as s:
    s["x"] = 1
print(thalweg.mpi.find())
"""
    env = {**os.environ, "THALWEG_CACHE": str(tmp_path / "cache"), "THALWEG_PREFIX": str(tmp_path)}
    env.pop("MPICC", None)
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.strip() == str(library), done.stderr
    assert thalweg.open(tmp_path / "x.bp")["x"].value == 1


AGAIN = """
import sys
import numpy as np, thalweg
from mpi4py import MPI
comm = MPI.COMM_WORLD
folder, *methods = sys.argv[1:]
for number, words in enumerate(methods):
    method, _, parameters = words.partition(";")
    for again in range(3):      # "w" on a file that is not there, then on one that is
        with thalweg.Writer(f"{folder}/{number}.bp", comm=comm, method=method, parameters=parameters) as w, w.step() as s:
            s.write("T", np.full(20, 100.0 * again + comm.rank), shape=(20 * comm.size,), offset=(20 * comm.rank,))
    comm.barrier()
    with thalweg.open(f"{folder}/{number}.bp") as f:
        expected = np.repeat(200.0 + np.arange(comm.size), 20)
        assert np.array_equal(f["T"][0], expected) and not f.status.partial, (words, f["T"][0][::20], f.status.partial)
"""
SHARING = [
    "MPI;",
    "MPI_COLLECTIVE;aggregators=3;stripe=100",
    "ASYNC;async=no;owners=3;stripe=100;write_stripe=100",
    "ASYNC;async=no;subfiles=2;owners=2;stripe=100",
    "MPI_SCHEDULED;num_files=1;targets=1",
    "ADAPTIVE;num_files=1",
]


def test_small_files_that_several_processes_share_have_what_each_wrote(mpi, tmp_path, monkeypatch):
    """Where a file is shown when it is published, bytes of others must not be replaced with the file that an open replaces."""
    (tmp_path / "store").mkdir()
    (tmp_path / "out").mkdir()
    table = f'[[mount]]\npath = "{tmp_path}/out"\nlayout = "small_file"\nstore = "posix:{tmp_path}/store"\n'
    (tmp_path / "mounts.toml").write_text(table)
    monkeypatch.setenv("THALWEG_MOUNTS", str(tmp_path / "mounts.toml"))
    program = tmp_path / "again.py"
    program.write_text(AGAIN)
    mpi.run(program, tmp_path / "out", *SHARING)
