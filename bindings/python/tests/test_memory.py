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


def count_files():
    import os

    return len(os.listdir("/proc/self/fd"))
