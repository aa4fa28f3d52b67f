"""Writes and reads the steps of this bench with the BP4 engine of adios2.

    bp4.py write FOLDER STEPS
    bp4.py read FOLDER
"""

import sys
import time

import adios2.bindings as adios2
import numpy as np

adios = adios2.ADIOS()
io = adios.DeclareIO("steps")
io.SetEngine("BP4")


def field(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(name))


def write(path, steps):
    scalar, array = np.zeros(1), np.zeros(8)
    pairs = [(io.DefineVariable(f"s{i}", np.array(0.0)), io.DefineVariable(f"a{i}", array, [], [], [8], True))
             for i in range(10)]
    before = time.perf_counter()
    file = io.Open(path, adios2.Mode.Write)
    for step in range(steps):
        file.BeginStep()
        array[:] = step
        for i, (s, a) in enumerate(pairs):
            scalar[0] = step + i
            file.Put(s, scalar, adios2.Mode.Sync)
            file.Put(a, array, adios2.Mode.Sync)
        file.EndStep()
    file.Close()
    print(f"value BP4:all {time.perf_counter() - before:.6f}")


def read(path):
    resident = field("VmRSS")
    before = time.perf_counter()
    file = io.Open(path, adios2.Mode.ReadRandomAccess)
    opened = time.perf_counter() - before
    variable = io.InquireVariable("s3")
    steps = variable.Steps()
    variable.SetStepSelection([0, steps])
    values = np.empty(steps)
    file.Get(variable, values, adios2.Mode.Sync)
    seconds = time.perf_counter() - before
    print(f"value BP4:open {opened:.9f}")
    print(f"value BP4:read {seconds:.9f}")
    print(f"value BP4:memory {field('VmHWM') - resident}")
    print(f"value BP4:sum {values.sum():.1f}")
    file.Close()


if sys.argv[1] == "write":
    write(sys.argv[2], int(sys.argv[3]))
else:
    read(sys.argv[2])
