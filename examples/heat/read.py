"""read: what heat.bp holds, step by step. Alone, without MPI.

    python read.py heat.bp
"""

import sys

import thalweg

with thalweg.open(sys.argv[1] if len(sys.argv) > 1 else "heat.bp") as f:
    T = f["T"]
    steps, ny, nx = T.shape
    print(f"T: {steps} steps of {ny} x {nx}")
    for i in range(steps):
        # From the file's characteristics; the middle is the only value that is read.
        low, high, middle = T.min(i), T.max(i), T[i, ny // 2, nx // 2]
        print(f"step {i}: time {f['time'][i]:.1f}, T from {low:.3f} to {high:.3f}, in the middle {middle:.3f}")
