"""Input windows: alone, and in processes without MPI."""

import subprocess
import sys

import numpy as np
import pytest
import thalweg

PROCESS = """
import sys
import numpy as np
import thalweg

path, folder, rank, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
with thalweg.Input(path, thalweg.Processes(folder, rank, size, within=60), memory=1 << 16) as file:
    window = file.start(0, file.length, owners=min(size, 2), fraction=4096, write_stripe=16384, time_limit=60.0)
    requests = [window.read(8 * (1000 * part + 100 * ((rank + 1) % size)), 100, float) for part in range(50)]
    for part, request in enumerate(requests):
        first = 1000 * part + 100 * ((rank + 1) % size)
        assert np.array_equal(request.wait(), np.arange(first, first + 100))
    window.finish()
"""


@pytest.fixture
def numbers(tmp_path):
    path = tmp_path / "in"
    np.arange(100_000.0).tofile(path)
    return path


def test_numbers_come_when_they_are_waited_for_or_by_a_callback(numbers):
    came = []
    with thalweg.Input(numbers) as file:
        assert file.length == 800_000
        window = file.start(8, 799_992, owners=[0], fraction=10_000)
        request, told = window.read(8 * 500, 1000, "f8"), window.read(16, 4, ">u2")
        told.on_read(lambda values, failure: came.append((values, failure)))
        while not came:
            file.progress()
        np.testing.assert_array_equal(request.wait(), np.arange(500.0, 1500.0))
        np.testing.assert_array_equal(came[0][0], np.frombuffer(np.float64(2).tobytes(), ">u2"))
        assert came[0][1] is None
        while (values := window.read(16, 8).test()) is None:
            pass
        assert values.dtype == np.uint8 and values.tobytes() == np.float64(2).tobytes()
        with pytest.raises(thalweg.InvalidArgument):
            request.wait()
        with pytest.raises(thalweg.OutOfBounds):
            window.read(0, 8)
        window.end()
        with pytest.raises(thalweg.InvalidArgument):
            window.read(8, 8)


def test_what_cannot_be_opened_or_is_given_up(numbers, tmp_path):
    with pytest.raises(thalweg.FileNotFound):
        thalweg.Input(tmp_path / "none")
    with pytest.raises(thalweg.Config):
        thalweg.Input(numbers, memory=10)
    with pytest.raises(RuntimeError, match="the solver gave up"), thalweg.Input(numbers) as file:
        file.start(0, 4)
        raise RuntimeError("the solver gave up")
    with pytest.raises(thalweg.InvalidArgument, match="closed"):
        file.start(0, 4)


@pytest.mark.parametrize("size", [1, 4])
def test_processes_without_mpi_read_what_others_own(numbers, tmp_path, size):
    (tmp_path / "meet").mkdir(mode=0o700)
    started = [
        subprocess.Popen([sys.executable, "-c", PROCESS, str(numbers), str(tmp_path / "meet"), str(rank), str(size)])
        for rank in range(size)
    ]
    assert [process.wait(timeout=300) for process in started] == [0] * size
