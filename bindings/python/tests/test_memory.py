"""Nothing is kept by what is closed."""

import gc
import resource

import numpy as np
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
    import os

    return len(os.listdir("/proc/self/fd"))
