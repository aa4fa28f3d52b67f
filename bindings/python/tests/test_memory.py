"""Nothing is kept by what is closed."""

import gc
import os
import resource

import numpy as np
import pytest
import thalweg


def resident():
    gc.collect()
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * resource.getpagesize()


def test_ten_thousand_times_open_read_close_take_no_memory(run):
    def once():
        with thalweg.open(run) as f:
            assert f["T"][-1, 3, 5] == 3101.0
            f["T"].characteristics()
            f["title"][0]
            f["T"].attrs

    for _ in range(500):
        once()
    before, files = resident(), count_files()
    for _ in range(10_000):
        once()
    assert resident() - before < 2 << 20
    assert count_files() == files


def test_writing_again_and_again_takes_no_memory(path):
    data = np.ones(1000)

    def once():
        with thalweg.Writer(path) as w:
            for _ in range(2):
                with w.step() as s:
                    s.write("v", data, shape=(1000,), offset=(0,), copy=False)

    for _ in range(200):
        once()
    before, files = resident(), count_files()
    for _ in range(2000):
        once()
    assert resident() - before < 2 << 20
    assert count_files() == files


@pytest.mark.parametrize("method", ["MPI", "POSIX"])
@pytest.mark.parametrize("copy", [True, False], ids=["copied", "deferred"])
def test_a_large_array_is_written_from_where_it_lies_in_the_first_step_too(path, method, copy):
    data = np.arange(8e6)
    wanted = data.copy()
    with thalweg.Writer(path, method=method) as w:
        for n in range(2):
            with w.step() as s:
                before = resident()
                s.write("v", data, shape=data.shape, offset=(0,), copy=copy)
                assert resident() - before < 8 << 20
                if copy:
                    data[:] = -1
            data[:] = wanted
    f = thalweg.open(path)
    for n in range(2):
        np.testing.assert_array_equal(f["v"][n], wanted)
    assert (f["v"].min(), f["v"].max(), f["v"].mean()) == (0, 8e6 - 1, wanted.mean())


def test_a_child_of_fork_takes_nothing_back_that_its_parent_has_written(path):
    data = np.arange(1e6)
    with thalweg.Writer(path) as w:
        for _ in range(2):
            with w.step() as s:
                s.write("v", data, shape=data.shape, offset=(0,))
                child = os.fork()
                if child == 0:
                    s._drop()
                    os._exit(0)
                assert os.waitpid(child, 0)[1] == 0
                s.write("w", data)
    f = thalweg.open(path)
    np.testing.assert_array_equal(f["v"][...], [data, data])
    np.testing.assert_array_equal(f["w"][...], [data, data])


def test_a_step_that_is_given_up_leaves_no_bytes(path):
    data = np.arange(1e6)
    with thalweg.Writer(path, mode="a") as w:
        for n in range(2):
            length = os.path.getsize(path) if n else 0
            with pytest.raises(RuntimeError), w.step() as s:
                s.write("v", data, shape=data.shape, offset=(0,))
                raise RuntimeError
            assert os.path.getsize(path) == length
            with w.step() as s:
                s.write("v", data + n, shape=data.shape, offset=(0,))
    np.testing.assert_array_equal(thalweg.open(path)["v"][...], [data, data + 1])


def test_blocks_that_change_with_every_step_do_not_pile_up(path):
    n = 3000
    with thalweg.Writer(path) as w:
        for i in range(n):
            with w.step() as s:
                s.write("v", np.full(1 + i % 7, i), shape=(2 * n,), offset=(i,))
        assert len(w._made) == 1
    v = thalweg.open(path)["v"]
    assert len(v) == n
    assert v[n - 1, n - 1] == n - 1
    np.testing.assert_array_equal(v[10, 9:16], [0, 10, 10, 10, 10, 0, 0])


def count_files():
    return len(os.listdir("/proc/self/fd"))
