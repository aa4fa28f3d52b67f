"""Ranks of mpi4py write a file together, and find the shim for their MPI: ranks.py RANKS METHOD SHIM. Run by wheel.sh and deb.sh."""

import sys

import numpy as np
from mpi4py import MPI

import thalweg
import thalweg.mpi

comm = MPI.COMM_WORLD
assert comm.size == int(sys.argv[1]), comm.size
with thalweg.Writer("ranks.bp", method=sys.argv[2], comm=comm) as w:
    for n in range(3):
        with w.step() as s:
            s.write("T", np.full(5, 10.0 * n + comm.rank), shape=(5 * comm.size,), offset=(5 * comm.rank,))
comm.barrier()
with thalweg.open("ranks.bp") as f:
    assert np.array_equal(f["T"][2], np.repeat(20.0 + np.arange(comm.size), 5)), f["T"][2]
found = thalweg.mpi.find()
assert found.endswith(f"/thalweg/shims/{sys.argv[3]}.so"), found
