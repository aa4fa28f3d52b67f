"""heat: a plate that is hot along one edge, shared among MPI ranks by rows. README.md says what the file holds.

    mpiexec -n 3 python heat.py heat.xml heat.bp
"""

import sys

import numpy as np
import thalweg
from mpi4py import MPI

NY, NX, GAP, OUTPUTS = 24, 32, 50, 5

config = sys.argv[1] if len(sys.argv) > 1 else "heat.xml"
path = sys.argv[2] if len(sys.argv) > 2 else "heat.bp"
comm = MPI.COMM_WORLD
rank, ranks = comm.rank, comm.size

# Rows of this rank; the first ranks get one more if the rows do not divide evenly. Row 0 and the last row are ghosts.
rows = NY // ranks + (rank < NY % ranks)
first = rank * (NY // ranks) + min(rank, NY % ranks)
above = rank - 1 if rank > 0 else MPI.PROC_NULL
below = rank + 1 if rank < ranks - 1 else MPI.PROC_NULL

t = np.zeros((rows + 2, NX))
if rank == 0:
    t[1] = 100.0
after = t.copy()
# The edges keep their temperature.
low, high = 1 + (first == 0), rows + 1 - (first + rows == NY)

with thalweg.Writer(path, config, comm=comm) as writer:
    for iteration in range(GAP * (OUTPUTS - 1) + 1):
        if iteration % GAP == 0:
            with writer.step() as step:
                step["ny"], step["nx"], step["rows"], step["first"] = NY, NX, rows, first
                step["iteration"] = iteration
                step["time"] = 0.25 * iteration
                step["T"] = t[1:-1]
        comm.Sendrecv(t[1], above, 0, t[rows + 1], below, 0)
        comm.Sendrecv(t[rows], below, 1, t[0], above, 1)
        inside = t[low:high, 1:-1]
        around = (t[low - 1 : high - 1, 1:-1] + t[low + 1 : high + 1, 1:-1]) + (t[low:high, :-2] + t[low:high, 2:])
        after[low:high, 1:-1] = inside + 0.2 * (around - 4.0 * inside)
        t, after = after, t
