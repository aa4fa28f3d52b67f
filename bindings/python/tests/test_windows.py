"""Output windows: alone, on ranks of MPI, and in processes without MPI."""

import subprocess
import sys

import numpy as np
import pytest
import thalweg

PROGRAM = """
import sys
import numpy as np, thalweg

def write(path, comm, rank, size):
    EACH = 100_000
    mine = np.arange(rank * EACH, (rank + 1) * EACH, dtype="f8")
    with thalweg.Windows(path, comm=comm, memory=256 << 10) as file:
        for step in range(3):
            base = step * size * mine.nbytes
            window = file.start(base, size * mine.nbytes, owners=min(size, 2), write_stripe=64 << 10, fraction=16 << 10)
            window.write(base + rank * mine.nbytes, mine + step)
            window.end()
            file.progress()
            window.wait()
        # All ranks get the same failure.
        window = file.start(0, 8 * size, time_limit=60)
        if rank != size - 1:
            window.write(8 * rank, mine[:1])
        window.end()
        try:
            window.wait()
        except thalweg.InvalidArgument as e:
            assert e.byte == 8 * (size - 1) and "written by no rank" in e.what, e
        else:
            raise AssertionError("missing bytes are an error")
    print("passed", rank)
"""

MPI = PROGRAM + """
from mpi4py import MPI
write(sys.argv[1], MPI.COMM_WORLD, MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size)
"""

PROCESSES = PROGRAM + """
path, folder, rank, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
processes = thalweg.Processes(folder, rank, size, within=60)
assert (processes.rank, processes.size) == (rank, size)
write(path, processes, rank, size)
# Such processes also write steps together.
with thalweg.Writer(path + ".bp", comm=processes) as w:
    with w.step() as s:
        s.write("T", np.full(2, float(rank)), shape=(2 * size,), offset=(2 * rank,))
assert "mpi4py" not in sys.modules
"""


def check(path, size):
    values = np.fromfile(path)
    for step in range(3):
        expected = np.arange(size * 100_000) + step
        found = values[step * size * 100_000 :][: size * 100_000]
        # The window that failed has replaced the first numbers.
        np.testing.assert_array_equal(found[size:] if step == 0 else found, expected[size:] if step == 0 else expected)


def test_ranks_of_mpi_write_in_the_background(mpi, tmp_path):
    program = tmp_path / "write.py"
    program.write_text(MPI)
    said = mpi.run(program, tmp_path / "out")
    assert said.count("passed") == mpi.ranks
    check(tmp_path / "out", mpi.ranks)


def test_processes_without_mpi_write_in_the_background(tmp_path):
    program = tmp_path / "write.py"
    program.write_text(PROCESSES)
    (tmp_path / "meet").mkdir()
    size = 3
    command = [sys.executable, str(program), str(tmp_path / "out"), str(tmp_path / "meet")]
    running = [
        subprocess.Popen([*command, str(rank), str(size)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for rank in range(size)
    ]
    for rank, process in enumerate(running):
        said, _ = process.communicate(timeout=120)
        assert process.returncode == 0 and f"passed {rank}" in said, said
    check(tmp_path / "out", size)
    np.testing.assert_array_equal(thalweg.open(tmp_path / "out.bp")["T"][0], [0, 0, 1, 1, 2, 2])


def test_a_callback_is_called_once_inside_a_call(tmp_path):
    told = []
    with thalweg.Windows(tmp_path / "out") as file:
        fine, failing = file.start(0, 4), file.start(4, 4)
        fine.on_complete(told.append)
        failing.on_complete(told.append)
        fine.write(0, b"abcd")
        fine.end()
        failing.write(4, np.array([1], dtype="u2"))
        failing.end()
        assert told == []
        while len(told) < 2:
            file.progress()
        with pytest.raises(thalweg.InvalidArgument):
            fine.wait()
    assert told[0] is None
    assert isinstance(told[1], thalweg.InvalidArgument) and told[1].byte == 6
    assert (tmp_path / "out").read_bytes()[:6] == b"abcd\x01\x00"


def test_a_callback_that_raises_keeps_no_other_from_being_called(tmp_path):
    told = []

    def raises(failure):
        told.append(failure)
        raise ValueError("of the program")

    with thalweg.Windows(tmp_path / "out") as file:
        for number in range(2):
            window = file.start(4 * number, 4)
            window.write(4 * number, b"abcd")
            window.end()
            window.on_complete(raises)
        # Both are complete before a callback is called.
        while file._file.progress():
            pass
        with pytest.raises(ValueError, match="of the program"):
            file.progress()
    assert told == [None, None]
    assert (tmp_path / "out").read_bytes() == b"abcdabcd"


def test_any_array_and_buffer_is_written_in_the_order_of_c(tmp_path):
    columns = np.asfortranarray(np.arange(12, dtype="i4").reshape(3, 4))
    parts = [columns, memoryview(b"xyz"), bytearray(b"uv"), columns[:, 1], np.float64(2.5).reshape(())]
    expected = columns.tobytes() + b"xyzuv" + columns[:, 1].tobytes() + np.float64(2.5).tobytes()
    with thalweg.Windows(tmp_path / "out") as file:
        window, at = file.start(0, len(expected), commit=(len(expected), b"end"), durable=True), 0
        for part in parts:
            window.write(at, part)
            at += part.nbytes if hasattr(part, "nbytes") else len(part)
        with pytest.raises(thalweg.OutOfBounds):
            window.write(at, b"!")
        with pytest.raises(thalweg.InvalidArgument):
            window.write(0, np.array([object()]))
        window.end()
        while not window.test():
            pass
    assert (tmp_path / "out").read_bytes() == expected + b"end"


def test_keep_leaves_the_bytes_of_the_file(tmp_path):
    path = tmp_path / "out"
    path.write_bytes(b"0123456789")
    with thalweg.Windows(path, keep=True) as file:
        window = file.start(3, 4)
        assert window.try_write(3, b"abcd") == 4
        window.end()
    assert path.read_bytes() == b"012abcd789"
    with pytest.raises(thalweg.Config):
        thalweg.Windows(path, memory=10)


def test_an_exception_closes_nothing_together(tmp_path):
    with pytest.raises(RuntimeError, match="the solver gave up"), thalweg.Windows(tmp_path / "out") as file:
        file.start(0, 4)
        raise RuntimeError("the solver gave up")
    with pytest.raises(thalweg.InvalidArgument, match="closed"):
        file.start(0, 4)
