"""Writes and reads a file without MPI. Run by wheel.sh and deb.sh."""

import numpy as np

import thalweg

with thalweg.Writer("alone.bp") as w:
    for n in range(3):
        with w.step() as s:
            s["T"] = np.arange(12.0).reshape(3, 4) + n
with thalweg.open("alone.bp") as f:
    assert np.array_equal(f["T"][2], np.arange(12.0).reshape(3, 4) + 2)
