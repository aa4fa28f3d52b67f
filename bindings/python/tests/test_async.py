"""Steps in flight: `async=yes`, alone and on ranks of MPI, whose threads may not call it."""

import asyncio
import resource
import sys

import numpy as np
import pytest
import thalweg


def writer(path, **more):
    return thalweg.Writer(path, method="MPI", parameters="async=yes;in_flight=20", **more)


def start(w, value):
    step = w.step()
    step["T"] = np.full(10_000, float(value))
    return step.start_close()


def test_steps_are_in_flight_and_end_in_order(tmp_path):
    with writer(tmp_path / "x.bp") as w:
        steps = [start(w, n) for n in range(10)]
        assert steps[9].wait() > 10_000 * 8
        assert all(step.test() for step in steps)
        assert steps[9].wait() > 10_000 * 8, "also when asked again"
    with thalweg.open(tmp_path / "x.bp") as f:
        assert [f["T"][n, 0] for n in range(10)] == list(range(10))


@pytest.mark.parametrize("parameters", ["", "async=yes;in_flight=20"])
def test_committed_arrays_are_kept_until_they_are_written(tmp_path, parameters):
    shape = (300, 200)
    with thalweg.Writer(tmp_path / "x.bp", method="MPI", parameters=parameters) as w:
        for n in range(5):
            step = w.step()
            step.commit("T", np.full(shape, float(n)), shape=(300, 400), offset=(0, 200))
            step.commit("few", np.arange(3) + n)
            pending = step.start_close()
        pending.wait()
        array = np.full(shape, 7.0)
        held = sys.getrefcount(array)
        step = w.step()
        with pytest.raises(thalweg.InvalidArgument, match="contiguous"):
            step.commit("T", array[:, ::2])
        with pytest.raises(thalweg.InvalidArgument, match="contiguous"):
            step.commit("T", [1.0])
        step.commit("T", array, shape=(300, 400), offset=(0, 200))
        assert sys.getrefcount(array) > held, "the library has it"
        step.start_close().wait()
        assert sys.getrefcount(array) == held
    with thalweg.open(tmp_path / "x.bp") as f:
        assert [f["T"][n, 299, 399] for n in range(6)] == [0, 1, 2, 3, 4, 7]
        assert f["few"][4].tolist() == [4, 5, 6]


def test_a_step_can_be_awaited_while_others_go_on(tmp_path):
    async def program():
        with writer(tmp_path / "x.bp") as w:
            written = await asyncio.gather(*(start(w, n) for n in range(3)), asyncio.sleep(0, "else"))
            assert written[3] == "else"
            return written[:3]

    assert all(written > 10_000 * 8 for written in asyncio.run(program()))


def test_a_callback_is_called_inside_a_call_and_what_it_raises_is_raised_there(tmp_path):
    session = thalweg.Session(thalweg.Schema("data", method="MPI", parameters="async=yes").array("T", "f8", count=10))
    heard = []
    w = session.writer(tmp_path / "x.bp")
    with w.step() as step:
        step["T"] = np.zeros(10)
    step = w.step()
    step["T"] = np.ones(10)
    pending = step.start_close()
    pending.on_completion(lambda written, failure: heard.append((written, failure)))
    pending.wait()
    assert len(heard) == 1 and heard[0][0] > 80 and heard[0][1] is None

    def fails(written, failure):
        raise LookupError("of the callback")

    step = w.step()
    step["T"] = np.ones(10)
    pending = step.start_close()
    with pytest.raises(LookupError, match="of the callback"):
        pending.on_completion(fails)
        session.wait_all()
    session.progress()
    w.close()
    session.close()


def test_a_failure_is_raised_by_wait_and_later_steps_are_whole(tmp_path):
    w = writer(tmp_path / "x.bp")
    start(w, 0).wait()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, ((tmp_path / "x.bp").stat().st_size + 1000, before[1]))
    try:
        pending = start(w, 1)
        with pytest.raises(thalweg.Error):
            pending.wait()
        with pytest.raises(thalweg.Error):
            pending.test()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    start(w, 2).wait()
    w.close()
    with thalweg.open(tmp_path / "x.bp") as f:
        assert [f["T"][n, 0] for n in range(len(f["T"]))] == [0, 2]


MPI = """
import sys
import mpi4py
mpi4py.rc.thread_level = sys.argv[2]
from mpi4py import MPI
import numpy as np, thalweg

rank, size = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size
heard = []
with thalweg.Writer(sys.argv[1], comm=MPI.COMM_WORLD, method="MPI_AGGREGATE", parameters="async=yes") as w:
    for n in range(6):
        step = w.step()
        step.write("T", np.full(20_000, float(n)), shape=(size * 20_000,), offset=(rank * 20_000,))
        pending = step.start_close()
        pending.on_completion(lambda written, failure: heard.append((written, failure)))
    assert pending.wait() > size * 20_000 * 8
    assert len(heard) == 6 and all(failure is None for _, failure in heard), heard
print("passed", rank)
"""


@pytest.mark.parametrize("level", ["single", "multiple"])
def test_ranks_of_mpi_have_steps_in_flight(mpi, tmp_path, level):
    program = tmp_path / "write.py"
    program.write_text(MPI)
    said = mpi.run(program, tmp_path / "x.bp", level)
    assert said.count("passed") == mpi.ranks
    with thalweg.open(tmp_path / "x.bp") as f:
        assert f["T"].shape == (6, mpi.ranks * 20_000)
        np.testing.assert_array_equal(f["T"][5], 5.0)


def test_a_method_without_async_ends_in_start_close(tmp_path):
    with thalweg.Writer(tmp_path / "x.bp") as w:
        step = w.step()
        step["T"] = np.arange(4.0)
        pending = step.start_close()
        assert pending.test() and pending.wait() > 32
        with pytest.raises(thalweg.InvalidArgument):
            step.start_close()
