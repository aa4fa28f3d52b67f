"""Programs that end without having closed their file: every reader opens it and sees all steps that were closed."""

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
import thalweg

START = """
import os, sys
import numpy as np, thalweg
path, method = sys.argv[1:]
def steps(w, count=20):
    for n in range(count):
        with w.step() as s:
            s.write("T", np.arange(6.0) + n, shape=(6,), offset=(0,))
            s["n"] = n
"""

ENDS = {
    "an exception in with": 'with thalweg.Writer(path, method=method) as w:\n    steps(w)\n    raise RuntimeError("oh")',
    "an exception in a step": """with thalweg.Writer(path, method=method) as w:
    steps(w)
    with w.step() as s:
        s.write("T", np.zeros(6), shape=(6,), offset=(0,))
        raise RuntimeError("oh")""",
    "an exception in an open step": """with thalweg.Writer(path, method=method) as w:
    steps(w)
    s = w.step()
    s.write("T", np.zeros(6), shape=(6,), offset=(0,))
    raise RuntimeError("oh")""",
    "a session": """with thalweg.Session(thalweg.Schema("g", method=method).scalar("n", "i8")) as session:
    w = session.writer(path)
    for n in range(20):
        with w.step() as s:
            s["n"] = n
    raise RuntimeError("oh")""",
    "no close": "w = thalweg.Writer(path, method=method)\nsteps(w)",
    "no close, a step open": 'w = thalweg.Writer(path, method=method)\nsteps(w)\ns = w.step()\ns["n"] = 3',
    "nobody holds it": "w = thalweg.Writer(path, method=method)\nsteps(w)\nw = None\nimport gc; gc.collect()\nos._exit(0)",
    "sys.exit": "w = thalweg.Writer(path, method=method)\nsteps(w)\nsys.exit(3)",
    "sys.exit in with": "with thalweg.Writer(path, method=method) as w:\n    steps(w)\n    sys.exit(3)",
    "KeyboardInterrupt": "w = thalweg.Writer(path, method=method)\nsteps(w)\nraise KeyboardInterrupt",
}


def look(path, steps=20):
    f = thalweg.open(path)
    assert len(f.steps) == steps
    assert not f.finished
    assert f.status["torn_bytes"] == 0
    np.testing.assert_array_equal(f["n"][:], np.arange(steps))
    adios2 = pytest.importorskip("adios2")
    with adios2.FileReader(path) as other:
        assert int(other.available_variables()["n"]["AvailableStepsCount"]) == steps
    if shutil.which("bpls"):
        listed = subprocess.run(["bpls", "-l", path], text=True, capture_output=True, check=True).stdout
        assert f"n           {steps}*scalar" in " ".join(listed.split("\n")) or f"{steps}*scalar" in listed


@pytest.mark.parametrize("method", ["MPI", "POSIX"])
@pytest.mark.parametrize("end", ENDS, ids=str)
def test_all_closed_steps_are_there_for_every_reader(path, tmp_path, end, method):
    program = tmp_path / "program.py"
    program.write_text(START + ENDS[end])
    done = subprocess.run([sys.executable, program, path, method], text=True, capture_output=True, check=False)
    assert "Exception ignored" not in done.stderr and "thalweg.errors" not in done.stderr, done.stderr
    assert (done.returncode == 0) == (end in ("no close", "no close, a step open", "nobody holds it"))
    look(path)


def test_steps_can_be_added_afterwards(path, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(START + ENDS["an exception in a step"])
    subprocess.run([sys.executable, program, path, "MPI"], capture_output=True, check=False)
    with thalweg.Writer(path, mode="a") as w, w.step() as s:
        s.write("T", np.zeros(6), shape=(6,), offset=(0,))
        s["n"] = 20
    f = thalweg.open(path)
    assert len(f.steps) == 21 and f.finished


def test_a_child_leaves_the_file_of_its_parent_alone(path, tmp_path):
    program = tmp_path / "program.py"
    text = """
w = thalweg.Writer(path, method=method)
steps(w, 3)
if os.fork() == 0:
    sys.exit(0)
os.wait()
steps(w, 1)
w.close()
"""
    program.write_text(START + text)
    subprocess.run([sys.executable, program, path, "MPI"], check=True)
    f = thalweg.open(path)
    assert len(f.steps) == 4 and f.finished


RANKS = """
import sys
import numpy as np, thalweg
from mpi4py import MPI
comm = MPI.COMM_WORLD
path, method, who = sys.argv[1:]
try:
    with thalweg.Writer(path, comm=comm, method=method) as w:
        for n in range(20):
            with w.step() as s:
                s.write("T", np.arange(2.0) + n, shape=(2 * comm.size,), offset=(2 * comm.rank,))
                s["n"] = n
        if who == "all" or int(who) == comm.rank:
            raise RuntimeError("oh")
        # The others go on with something else, and come to their end without the file's.
        w.__exit__(RuntimeError, None, None)
except RuntimeError:
    pass
comm.barrier()
"""


@pytest.mark.parametrize("who", ["all", "0", "1"])
@pytest.mark.parametrize("method", ["MPI", "POSIX"])
def test_no_rank_waits_for_another(mpi, path, tmp_path, method, who):
    program = tmp_path / "program.py"
    program.write_text(RANKS)
    mpi.run(program, path, method, who, ranks=2)
    look(path)


SMALL = """
import os, sys
import thalweg
store = sys.argv[1]
with thalweg.Writer("/left-small/run.bp", method="POSIX") as w:
    with w.step() as s:
        s["n"] = 1
bell = store + "/.thalweg-small/bell"
os.remove(bell)
os.mkdir(bell)
"""


def test_logs_of_small_files_end_with_the_process(tmp_path):
    store = tmp_path / "store"
    store.mkdir()
    table = tmp_path / "mounts.toml"
    table.write_text(f'[[mount]]\npath = "/left-small"\nlayout = "small_file"\nstore = "posix:{store}"\n')
    environment = os.environ | {"THALWEG_MOUNTS": str(table)}
    command = [sys.executable, "-c", SMALL, str(store)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    # The bell, which the end of a log rings, was made a folder: a failure that no call of the program can report.
    assert "Is a directory" in done.stderr
    assert done.returncode == 1
    # A status that the program chose stays.
    command[2] += "sys.exit(7)\n"
    os.rmdir(store / ".thalweg-small" / "bell")
    assert subprocess.run(command, capture_output=True, env=environment).returncode == 7
